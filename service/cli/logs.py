"""``fallow logs JOB``: what a detached job has printed, from its log in the user's own state folder.

It follows until nothing more will come: by the service's word, or by the end of the job's launcher.
"""

import argparse
import os
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from collector.model import JobId
from service.cli.job_words import job_id
from service.client.jobs import connect_acting
from service.errors import ClientError, FallowError, UnknownJob
from service.launcher.folder import About, about_log, log_file
from service.launcher.process import is_alive

ENDED = ""
"""It has ended, as jobs do: that needs no words."""


def end_of(job: JobId, about: About, data: Path | None) -> str | None:
    """Why nothing more will come, in words; ``None`` while something may. Blocks for one answer.

    A number that was given again is another job: its end says nothing about this log.
    """
    lives = about.launcher is not None and is_alive(about.launcher)
    try:
        entry = connect_acting(data).for_people().job(job)
    except UnknownJob:
        return None if lives else _unknown(job)
    except ClientError as error:
        is_over = about.launcher is not None and not lives
        return (
            f"the launcher of {job} is gone, and the service does not say more: {error}" if is_over else None
        )
    if about.nonce not in (None, entry.submission.nonce):
        return None if lives else _unknown(job)
    return ENDED if entry.state == "ended" else None


def _unknown(job: JobId) -> str:
    return f"the service does not know the job of this log ({job}), and its launcher is gone: it ends here"


LOOK_S = 0.2
ASK_S = 2.0
BLOCK_BYTES = 64 * 1024


class NoLog(FallowError):
    """There is no log of such a job here."""


def run_logs(flags: argparse.Namespace) -> int:
    """Copy it to standard output, byte for byte."""
    job = JobId(job_id(flags.job))
    path = log_file(job)
    try:
        log = path.open("rb")
    except FileNotFoundError:
        raise NoLog(
            f"there is no log of {job} at {path}: only jobs that you started on this machine with "
            "`fallow run --detach` have one; others print to the terminal that they were started at"
        ) from None
    except OSError as error:
        raise NoLog(f"cannot read the log of {job}: {error}") from error
    with log:
        if flags.lines is not None:
            log.seek(tail_start(log, max(0, flags.lines)))
        shutil.copyfileobj(log, sys.stdout.buffer)
        sys.stdout.flush()
        if flags.follow:
            about = about_log(path)
            why = _follow(log, lambda: end_of(job, about, flags.data))
            if why:
                print(why, file=sys.stderr)
    return 0


def tail_start(log: BinaryIO, lines: int) -> int:
    """Where the last so many lines of a file begin; reads it from its end, block by block."""
    end = at = log.seek(0, os.SEEK_END)
    if lines == 0:
        return end
    count = lines
    while at > 0:
        start = max(0, at - BLOCK_BYTES)
        log.seek(start)
        block = log.read(at - start)
        if at == end and block.endswith(b"\n"):
            count += 1
        breaks = block.count(b"\n")
        if breaks >= count:
            place = len(block)
            for _ in range(count):
                place = block.rindex(b"\n", 0, place)
            return start + place + 1
        count -= breaks
        at = start
    return 0


def _follow(log: BinaryIO, end: Callable[[], str | None]) -> str:
    """Copy what is added to the log, until there is an ``end`` to it and all of it was read; why it ended."""
    polled_s = 0.0
    ended: str | None = None
    while True:
        if more := log.read(BLOCK_BYTES):
            sys.stdout.buffer.write(more)
            sys.stdout.flush()
            continue
        if ended is not None:
            return ended
        if time.monotonic() - polled_s >= ASK_S:
            polled_s, ended = time.monotonic(), end()
        if ended is None:
            time.sleep(LOOK_S)

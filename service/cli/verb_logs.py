"""``fallow logs JOB``: what a detached job has printed, from its log in the user's own state folder."""

import argparse
import os
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from collector.model import JobId
from service.cli.job_words import job_id
from service.client.acting import connect_acting
from service.client.errors import ClientError
from service.launcher.folder import log_file
from service.trouble import Trouble

LOOK_S = 0.2
ASK_S = 2.0
BLOCK_BYTES = 64 * 1024


class NoLog(Trouble):
    """There is no log of such a job here."""


def run(flags: argparse.Namespace) -> int:
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
            for more in _follow(log, path, job, flags.data):
                sys.stdout.buffer.write(more)
                sys.stdout.flush()
    return 0


def tail_start(log: BinaryIO, lines: int) -> int:
    """Where the last so many lines of a file begin; reads it from its end, block by block."""
    end = at = log.seek(0, os.SEEK_END)
    if lines == 0:
        return end
    wanted = lines
    while at > 0:
        start = max(0, at - BLOCK_BYTES)
        log.seek(start)
        block = log.read(at - start)
        if at == end and block.endswith(b"\n"):
            wanted += 1
        breaks = block.count(b"\n")
        if breaks >= wanted:
            place = len(block)
            for _ in range(wanted):
                place = block.rindex(b"\n", 0, place)
            return start + place + 1
        wanted -= breaks
        at = start
    return 0


def _follow(log: BinaryIO, path: Path, job: JobId, data: Path | None) -> Iterator[bytes]:
    """What is added to the log, until the job has ended and all of it was read."""
    asked_s = 0.0
    ended = False
    while True:
        more = log.read(BLOCK_BYTES)
        if more:
            yield more
            continue
        if ended:
            return
        if time.monotonic() - asked_s >= ASK_S:
            asked_s, ended = time.monotonic(), _has_ended(job, data)
        if not ended:
            time.sleep(LOOK_S)


def _has_ended(job: JobId, data: Path | None) -> bool:
    """What the service says; while it doesn't answer, nothing has ended."""
    try:
        return bool(connect_acting(data).job(job)["stand"] == "ended")
    except ClientError:
        return False

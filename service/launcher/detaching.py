"""From an order to its launcher: in this process, or in one of its own that no terminal's end reaches."""

import os
import sys
from pathlib import Path

from collector.model import JobId
from service.client.jobs import connect_acting
from service.errors import ClientError
from service.launcher.folder import NoFolder, StateDir, make_log, sign_log, take_along
from service.launcher.link import Link
from service.launcher.order import Order
from service.launcher.process import this_launcher
from service.launcher.running import Running
from service.launcher.submitting import submit
from service.launcher.voice import TerminalOutput

__all__ = ["is_original", "make_log", "run_here"]


def run_here(order: Order, job: JobId, data: Path | None, met: StateDir) -> int:
    """Be the launcher of a submitted job; blocks until its end. Its exit code, a signal's below 0."""
    voice, nonce = TerminalOutput(sys.stderr), order.submission.nonce

    def resume(named: JobId) -> None:
        try:
            connect_acting(data).resume(named, because="its user touched it", nonce=nonce)
        except ClientError as error:
            voice.say(str(error))

    def again(lost: JobId) -> JobId:
        new_job = submit(connect_acting(data), order.submission, limit_s=0)
        try:
            take_along(lost, new_job, nonce)
        except NoFolder as error:
            voice.say(str(error))
        return new_job

    return Running(
        order=order,
        job=job,
        line=lambda named: Link(lambda: connect_acting(data), named, nonce),
        launcher=this_launcher(),
        meeting=met,
        voice=voice,
        resume=resume,
        again=again,
    ).run()


def is_original(log: Path) -> bool:
    """Go on twice: true here, false in a new process with a session of its own that prints to ``log``."""
    sys.stdout.flush()
    sys.stderr.flush()
    ready, done = os.pipe()
    if os.fork():
        os.close(done)
        os.read(ready, 1)
        return True
    os.setsid()
    nothing = os.open(os.devnull, os.O_RDONLY)
    descriptor = os.open(log, os.O_WRONLY | os.O_APPEND)
    for number, file in ((0, nothing), (1, descriptor), (2, descriptor)):
        os.dup2(file, number)
    try:
        sign_log(log, this_launcher())
    except NoFolder as error:
        TerminalOutput(sys.stderr).say(str(error))  # who follows the log misses it, the job doesn't
    for each in (nothing, descriptor, ready, done):
        os.close(each)  # the reader sees the end: whoever started this may go
    return False

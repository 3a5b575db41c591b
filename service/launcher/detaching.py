"""From an order to its launcher: in this process, or in one of its own that no terminal's end reaches."""

import os
import socket
import sys
from pathlib import Path

from advisor.register.model import Launcher
from collector.model import JobId, NodeName
from collector.procfs.stat import parse_boot_ms, parse_stat
from service.client.acting import connect_acting
from service.client.errors import ClientError
from service.launcher.folder import Meeting, make_log
from service.launcher.link import Link
from service.launcher.order import Order
from service.launcher.running import Running
from service.launcher.voice import Voice

__all__ = ["is_original", "make_log", "run_here", "this_launcher"]


def run_here(order: Order, job: JobId, data: Path | None, met: Meeting) -> int:
    """Be the launcher of a submitted job; blocks until its end. Its exit code, a signal's below 0."""
    voice = Voice(sys.stderr)

    def resume() -> None:
        try:
            connect_acting(data).resume(job, because="its user touched it")
        except ClientError as error:
            voice.say(str(error))

    return Running(
        order=order,
        job=job,
        link=Link(lambda: connect_acting(data), job),
        launcher=this_launcher(),
        meeting=met,
        voice=voice,
        resume=resume,
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
    told = os.open(log, os.O_WRONLY | os.O_APPEND)
    for number, file in ((0, nothing), (1, told), (2, told)):
        os.dup2(file, number)
    for each in (nothing, told, ready, done):
        os.close(each)  # the reader sees the end: whoever started this may go
    return False


def this_launcher() -> Launcher:
    """This process, as it is known dead when pid and start time are gone."""
    stat = parse_stat(Path("/proc/self/stat").read_bytes())
    boot_ms = parse_boot_ms(Path("/proc/stat").read_bytes())
    return Launcher(
        node=NodeName(socket.gethostname()),
        pid=os.getpid(),
        started_ms=boot_ms + stat.started_ticks * 1000 // os.sysconf("SC_CLK_TCK"),
    )

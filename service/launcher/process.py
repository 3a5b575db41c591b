"""The process that is a launcher: how it is named, and whether one that was named so runs still."""

import os
import socket
from pathlib import Path

from advisor.jobs.model import Launcher
from collector.model import NodeName
from collector.procfs.proc_files import is_same_start, parse_boot_ms, parse_stat, started_ms

PROC = Path("/proc")


def this_launcher() -> Launcher:
    """This process, as it is known dead when pid and start time are gone."""
    begun_ms = _started_ms(os.getpid(), PROC)
    assert begun_ms is not None  # it asks
    return Launcher(node=NodeName(socket.gethostname()), pid=os.getpid(), started_ms=begun_ms)


def is_alive(launcher: Launcher, proc: Path = PROC) -> bool:
    """Whether it runs, on this machine."""
    if launcher.node != socket.gethostname():
        return False
    begun_ms = _started_ms(launcher.pid, proc)
    return begun_ms is not None and is_same_start(begun_ms, launcher.started_ms)


def _started_ms(pid: int, proc: Path) -> int | None:
    """When a process began, UTC; ``None`` where none of that number runs."""
    try:
        stat = parse_stat((proc / str(pid) / "stat").read_bytes())
        boot_ms = parse_boot_ms((proc / "stat").read_bytes())
    except (OSError, ValueError):
        return None
    return None if stat.is_gone else started_ms(stat, boot_ms, os.sysconf("SC_CLK_TCK"))

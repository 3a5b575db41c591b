"""Whether a job's launcher and its workers live, as far as that can be seen from this machine.

A pid is only believed to be gone when it was seen before: a launcher in a container counts its pids in a
namespace of its own, and means nobody here. A pid that somebody else has got by now is not it.
"""

import os
import socket
from collections.abc import Callable
from pathlib import Path

from advisor.register.life import leased
from advisor.register.model import Entry
from collector.model import GpuUuid, NodeName
from collector.procfs.stat import is_same_start, parse_boot_ms, parse_stat, started_ms

PROC = Path("/proc")


class Eyes:
    """Looks at /proc; ``taken`` are the GPUs that were seen in use at the newest tick. For one thread."""

    def __init__(self, taken: Callable[[], frozenset[GpuUuid]], proc: Path = PROC) -> None:
        self._taken, self._proc = taken, proc
        self._node = NodeName(socket.gethostname())
        self._met: set[tuple[int, int]] = set()

    def launcher(self, entry: Entry) -> bool | None:
        """Whether its launcher lives; ``None`` when that cannot be told."""
        found = entry.launcher
        if found is None or found.node != self._node:
            return None
        key = (found.pid, found.started_ms)
        begun_ms = self._started_ms(found.pid)
        if begun_ms is not None and is_same_start(begun_ms, found.started_ms):
            self._met.add(key)
            return True
        if key not in self._met:
            return None
        self._met.discard(key)
        return False

    def workers(self, entry: Entry) -> bool | None:
        """Whether anything of the job is left: a worker's pid, or something on a GPU that is its alone."""
        report, heard_ms = entry.report, entry.heard_ms
        if entry.share == 1 and self._taken() & set(leased(entry)):
            return True
        if report is None or entry.launcher is None or entry.launcher.node != self._node:
            return None
        begun = [self._started_ms(pid) for pid in report.pids]
        latest_ms = report.at_ms if heard_ms is None else max(report.at_ms, heard_ms)
        return any(each is not None and each <= latest_ms for each in begun)

    def _started_ms(self, pid: int) -> int | None:
        """When a process that runs began, UTC; ``None`` for none, and for one that is only to be reaped."""
        try:
            boot_ms = parse_boot_ms((self._proc / "stat").read_bytes())
            stat = parse_stat((self._proc / str(pid) / "stat").read_bytes())
        except (OSError, ValueError):
            return None
        if stat.state in ("Z", "X"):
            return None
        return started_ms(stat, boot_ms, os.sysconf("SC_CLK_TCK"))

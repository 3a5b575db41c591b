"""Whether a job's launcher and its workers live, as far as that can be seen from this machine.

A pid is only believed to be gone when it was seen before: a launcher in a container counts its pids in a
namespace of its own, and means nobody here. A pid that somebody else has got by now is not it, and neither is
a process of somebody else (``collector.procfs.owners``): whoever names one must not hold a GPU by it.
"""

import os
import socket
from collections.abc import Callable
from pathlib import Path

from advisor.jobs.lifecycle import leased
from advisor.jobs.model import JobRecord
from collector.model import GpuUuid, NodeName
from collector.procfs.owners import belongs_to
from collector.procfs.proc_files import Stat, is_same_start, parse_boot_ms, parse_stat, started_ms
from collector.snapshot import Snapshot

PROC = Path("/proc")

CORRECTED_MS = 60_000
"""So far the clock may have been corrected since the lease was given, without its workers seeming older."""

MOST_MET = 4_096
"""So many launchers are remembered before the dead among them are let go of. One whose job's end is not known
yet is then lost by its silence alone, a little later."""


class Liveness:
    """Looks at /proc; ``taken`` are the GPUs that were seen in use at the newest tick, ``snapshot`` says by
    which processes. For one thread."""

    def __init__(
        self,
        taken: Callable[[], frozenset[GpuUuid]],
        proc: Path = PROC,
        *,
        snapshot: Callable[[], Snapshot] = Snapshot,
        is_rehearsal: bool = False,
    ) -> None:
        self._taken, self._proc, self._snapshot = taken, proc, snapshot
        self._is_rehearsal = is_rehearsal  # its calendar is not the one by which processes begin
        self._node = NodeName(socket.gethostname())
        self._met: dict[tuple[int, int], int] = {}
        self._most_met = MOST_MET

    def launcher(self, entry: JobRecord) -> bool | None:
        """Whether its launcher lives; ``None`` when that cannot be told."""
        launcher = entry.launcher
        if launcher is None or launcher.node != self._node:
            return None
        key, stat = (launcher.pid, launcher.started_ms), self._stat(launcher.pid)
        # By the kernel's count once it was met: a corrected clock moves every start that is told in UTC.
        ticks = self._met.get(key)
        if ticks is not None:
            if stat is not None and stat.started_ticks == ticks:
                return True
            del self._met[key]
            return False
        if stat is None or not is_same_start(self._dated(stat), launcher.started_ms):
            return None
        # Its owner told the pid: with somebody else's it would never be lost (docs/decisions/0037).
        if not self._is_own(launcher.pid, entry):
            return None
        self._meet(key, stat.started_ticks)
        return True

    def workers(self, entry: JobRecord) -> bool | None:
        """Whether anything of the job is left: a worker's pid, or something on a GPU that is its alone."""
        if entry.share == 1 and self._may_be_on(entry):
            return True
        if entry.report is None or entry.launcher is None or entry.launcher.node != self._node:
            return None
        return bool(self.living(entry))

    def living(self, entry: JobRecord) -> tuple[int, ...]:
        """The workers that its launcher named and that live: the owner's, begun after the lease."""
        report = entry.report
        if report is None:
            return ()
        leased_ms = entry.submitted_ms if entry.leased_ms is None else entry.leased_ms
        since_ms = 0 if self._is_rehearsal else leased_ms - CORRECTED_MS
        until_ms = report.at_ms if entry.last_seen_ms is None else max(report.at_ms, entry.last_seen_ms)
        return tuple(
            pid
            for pid in report.pids
            if (begun_ms := self._started_ms(pid)) is not None
            and since_ms <= begun_ms <= until_ms
            and self._is_own(pid, entry)
        )

    def _may_be_on(self, entry: JobRecord) -> bool:
        """Whether a GPU of its own is in use, and not by others alone as far as processes are seen there."""
        used = self._taken() & set(leased(entry))
        if not used:
            return False
        snapshot = self._snapshot()
        on = {
            each.key for each in snapshot.process_samples if each.uuid in used and each.key.node == self._node
        }
        return not on or any(self._is_own(key.pid, entry) for key in on)

    def _is_own(self, pid: int, entry: JobRecord) -> bool:
        """Whether a process is the owner's; nobody's where the owner has no account on this machine."""
        uid = entry.submission.uid
        return uid is not None and belongs_to(pid, uid, self._proc)

    def _meet(self, key: tuple[int, int], ticks: int) -> None:
        """Remember a launcher and when it began by the kernel's count, which no correction of a clock moves.

        Now and then, let go of those whose jobs have ended well."""
        self._met[key] = ticks
        if len(self._met) > self._most_met:
            self._met = {each: begun for each, begun in self._met.items() if self._lives(each[0], begun)}
            self._most_met = max(MOST_MET, 2 * len(self._met))

    def _lives(self, pid: int, ticks: int) -> bool:
        stat = self._stat(pid)
        return stat is not None and stat.started_ticks == ticks

    def _started_ms(self, pid: int) -> int | None:
        """When a process that runs began, UTC; ``None`` for none."""
        stat = self._stat(pid)
        return None if stat is None else self._dated(stat)

    def _stat(self, pid: int) -> Stat | None:
        """A process that runs; ``None`` for none, and for one that is only to be reaped."""
        try:
            stat = parse_stat((self._proc / str(pid) / "stat").read_bytes())
        except (OSError, ValueError):
            return None
        return None if stat.is_gone else stat

    def _dated(self, stat: Stat) -> int:
        """When it began, UTC; long ago where the machine does not say when it booted."""
        try:
            boot_ms = parse_boot_ms((self._proc / "stat").read_bytes())
        except (OSError, ValueError):
            boot_ms = 0
        return started_ms(stat, boot_ms, os.sysconf("SC_CLK_TCK"))

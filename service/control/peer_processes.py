"""Which processes a launcher's report means, by the kernel's word on the other end of the Unix socket.

A report names its launcher and workers by ids of the launcher's own pid namespace. The kernel names the peer
as it is called here, and so the others are found; what the peer cannot mean is left out. Over TCP nobody is
named, and neither where a socket was forwarded: then the report's own words stand, and count as far as
``service.control.liveness`` finds them to be processes of the job's owner.
"""

import os
import socket
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from advisor.jobs.model import JobRecord, Launcher, Report
from collector.model import JobId, JobKind, NodeName
from collector.procfs.owners import belongs_to
from collector.procfs.pid_namespaces import ids_of, translated
from collector.procfs.proc_files import is_same_start, parse_boot_ms, parse_stat, started_ms
from collector.procfs.terminals import terminal_of, tty_of
from service.control.interface import Caller

PROC = Path("/proc")
MOST_KNOWN = 8_192
"""Jobs whose launcher was looked up; a longer list is begun anew."""


def unheard(job: JobId, launcher: Launcher) -> None:
    """For whom nobody asks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Known:
    """What was told over which peer, and what that means here."""

    peer: int
    told: tuple[Launcher, tuple[int, ...]]
    means: tuple[Launcher, tuple[int, ...]]


class PeerProcesses:
    """Reads /proc, once for each launcher and set of workers. For the threads that take reports.

    ``named`` is told of each launcher that the kernel named, and that is its job's owner's.
    """

    def __init__(self, proc: Path = PROC, named: Callable[[JobId, Launcher], None] = unheard) -> None:
        self._proc, self._named = proc, named
        self._node = NodeName(socket.gethostname())
        self._known: OrderedDict[JobId, _Known] = OrderedDict()

    def is_launcher(self, caller: Caller, entry: JobRecord) -> bool:
        """Whether the peer is the process that the register has as this job's launcher."""
        launcher = entry.launcher
        if launcher is None or caller.pid != launcher.pid or launcher.node != self._node:
            return False
        begun_ms = self._begun_ms(launcher.pid)
        return (
            _is_owner(caller, entry) and begun_ms is not None and is_same_start(begun_ms, launcher.started_ms)
        )

    def meant(self, caller: Caller, entry: JobRecord, report: Report) -> Report:
        """The report with its processes as they are called here, where its owner's launcher says it."""
        if caller.pid is None or caller.uid is None or not _is_owner(caller, entry):
            return report
        reported, known = (report.launcher, report.pids), self._known.get(entry.id)
        if known is None or known.peer != caller.pid or known.told != reported:
            known = _Known(peer=caller.pid, told=reported, means=self._look(caller.pid, report))
            if known.means[0].pid == caller.pid and belongs_to(caller.pid, caller.uid, self._proc):
                self._named(entry.id, known.means[0])
            self._known[entry.id] = known
            if len(self._known) > MOST_KNOWN:
                # The oldest is looked for anew at its next report.
                self._known.popitem(last=False)
        launcher, pids = known.means
        return self._attended(entry, replace(report, launcher=launcher, pids=pids))

    def knows(self, caller: Caller, entry: JobRecord, report: Report) -> bool:
        """Whether ``meant`` need not look for any process."""
        claim = self._known.get(entry.id)
        reported = (report.launcher, report.pids)
        return caller.pid is None or (
            claim is not None and (claim.peer, claim.told) == (caller.pid, reported)
        )

    def _look(self, peer: int, report: Report) -> tuple[Launcher, tuple[int, ...]]:
        own, begun_ms = ids_of(peer, self._proc), self._begun_ms(peer)
        if begun_ms is None or report.launcher.pid not in own[-1:]:
            return report.launcher, report.pids  # another process says it on the launcher's behalf
        launcher = Launcher(node=self._node, pid=peer, started_ms=begun_ms)
        return launcher, translated(report.pids, peer, self._proc)

    def _attended(self, entry: JobRecord, report: Report) -> Report:
        """The report, with somebody at its terminal only where it has one, by when that was typed at."""
        if report.attached is not True or entry.submission.kind is not JobKind.INTERACTIVE:
            return report
        launcher = report.launcher
        tty = tty_of(launcher.pid, launcher.started_ms, self._proc) if launcher.node == self._node else None
        if tty == 0:
            return replace(report, attached=False)
        terminal = None if tty is None else terminal_of(tty)
        if terminal is None or terminal.uid != entry.submission.uid:
            return report  # none that is seen here: a container has its own
        return replace(report, quiet_s=max(0.0, time.time() - terminal.input_ms / 1000))

    def _begun_ms(self, pid: int) -> int | None:
        try:
            stat = parse_stat((self._proc / str(pid) / "stat").read_bytes())
            boot_ms = parse_boot_ms((self._proc / "stat").read_bytes())
        except (OSError, ValueError):
            return None
        return None if stat.is_gone else started_ms(stat, boot_ms, os.sysconf("SC_CLK_TCK"))


def _is_owner(caller: Caller, entry: JobRecord) -> bool:
    """Whether the caller is the job's owner, and not an operator on its behalf."""
    return caller.uid is not None and caller.uid == entry.submission.uid

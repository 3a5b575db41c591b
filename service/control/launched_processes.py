"""Which processes in containers are a job's by the kernel's word alone: its launcher and what that started.

In a container of root's a uid is whatever the image says, so attribution can't tell whose its processes are.
The service knows one of them, the launcher, which the kernel names as the other end of its socket
(``service.control.peer_processes``). What descends from that is the job's, whatever it calls itself, and
stays so when its parent has ended. No pid that anybody told is taken for that.
"""

import os
import socket
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path

from advisor.jobs.model import Launcher
from collector.model import GpuUuid, Holder, JobId, NodeName, ProcessKey
from collector.procfs.cgroup_folders import GroupFolders
from collector.procfs.cgroups import placement
from collector.procfs.proc_files import Stat, is_same_start, parse_boot_ms, parse_stat, read_file

PROC = Path("/proc")

MOST_OF_ONE = 4_096
"""Processes of one job that are looked after: a node's GPUs have fewer, and each costs two reads a look."""


class LaunchedProcesses:
    """Reads /proc. Safe from any thread; ``note`` may block for a moment while ``of`` looks."""

    def __init__(self, proc: Path = PROC) -> None:
        self._proc = proc
        self._node = NodeName(socket.gethostname())
        self._guard = threading.Lock()
        self._launchers: dict[JobId, int] = {}
        self._known: dict[JobId, dict[int, int]] = {}
        self.guests: Callable[[], Mapping[GpuUuid, tuple[Holder, ...]]] = dict
        """For ``sent_in``: put here by what knows the jobs, which is made later."""

    def sent_in(self) -> Mapping[GpuUuid, tuple[Holder, ...]]:
        """The background jobs that were sent into the idle gaps of each GPU."""
        return self.guests()

    def note(self, job: JobId, launcher: Launcher) -> None:
        """The kernel named this launcher of a job; of no interest where it runs in no container."""
        stat, group = self._stat(launcher.pid), read_file(self._proc / str(launcher.pid) / "cgroup")
        if stat is None or group is None or not self._is_launcher(stat, launcher):
            return
        place = placement(group.decode("utf-8", "replace"), GroupFolders(self._proc).look)
        if place.container is None and place.pod is None:
            return
        with self._guard:
            self._launchers[job] = launcher.pid
            self._known.setdefault(job, {})[launcher.pid] = stat.started_ticks

    def of(self, jobs: Collection[JobId]) -> Mapping[JobId, tuple[ProcessKey, ...]]:
        """The processes of these jobs that live, where they are known. Reads two small files of each."""
        with self._guard:
            self._look()
            boot_ms = self._boot_ms()
            return {
                job: tuple(sorted(self._key(pid, ticks, boot_ms) for pid, ticks in self._known[job].items()))
                for job in jobs
                if job in self._known
            }

    def _look(self) -> None:
        """Let go of the dead, and take in what the living have started since."""
        self._known = {job: self._living(own) for job, own in self._known.items()}
        self._known = {job: own for job, own in self._known.items() if own}
        self._launchers = {job: pid for job, pid in self._launchers.items() if job in self._known}
        for job, own in self._known.items():
            others = {pid for each, pid in self._launchers.items() if each != job}
            waiting = list(own)
            while waiting and len(own) < MOST_OF_ONE:
                for pid, ticks in self._started_by(waiting.pop()):
                    if pid not in own and pid not in others:
                        own[pid] = ticks
                        waiting.append(pid)
        self._leave_to_inner()

    def _leave_to_inner(self) -> None:
        """What a job within a job has started is the inner one's, also where that was named later."""
        for job, own in self._known.items():
            inner = [other for other, pid in self._launchers.items() if other != job and pid in own]
            for pid in {pid for other in inner for pid in self._known[other]}:
                own.pop(pid, None)

    def _living(self, own: Mapping[int, int]) -> dict[int, int]:
        stats = {pid: self._stat(pid) for pid in own}
        return {pid: ticks for pid, ticks in own.items() if (it := stats[pid]) and it.started_ticks == ticks}

    def _started_by(self, parent: int) -> Iterator[tuple[int, int]]:
        """The children of a process, of all its threads; one that ended meanwhile is none of them."""
        for children in (self._proc / str(parent) / "task").glob("*/children"):
            for pid in map(int, (read_file(children) or b"").split()):
                stat = self._stat(pid)
                if stat is not None and stat.parent_pid == parent:
                    yield pid, stat.started_ticks

    def _is_launcher(self, stat: Stat, launcher: Launcher) -> bool:
        begun_ms = self._key(launcher.pid, stat.started_ticks, self._boot_ms()).started_ms
        return launcher.node == self._node and is_same_start(begun_ms, launcher.started_ms)

    def _key(self, pid: int, ticks: int, boot_ms: int) -> ProcessKey:
        at_ms = boot_ms + ticks * 1000 // os.sysconf("SC_CLK_TCK")
        return ProcessKey(node=self._node, pid=pid, started_ms=at_ms)

    def _boot_ms(self) -> int:
        return parse_boot_ms(read_file(self._proc / "stat") or b"")

    def _stat(self, pid: int) -> Stat | None:
        """A process that runs; ``None`` for none, and for one that is only to be reaped."""
        try:
            stat = parse_stat(read_file(self._proc / str(pid) / "stat") or b"")
        except ValueError:
            return None
        return None if stat.is_gone else stat

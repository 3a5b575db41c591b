"""The door from pids to processes: looks each process up once, again after 30 s, and then only that it lives.

Whether it listens meanwhile is looked for every ten minutes, which reads no libraries.
Sixteen known processes cost sixteen access(2) calls a look. Use it from one thread; it holds one
descriptor a process and gives it back when the process is gone or was not asked for in ten minutes.
"""

import logging
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from collector.model import NodeName, Process, ProcessKey
from collector.procfs.accounts import account_name
from collector.procfs.cgroup_folders import GroupFolders
from collector.procfs.job_root import Kin
from collector.procfs.owners import lender_of
from collector.procfs.proc_files import (
    Denied,
    Folder,
    Gone,
    Hidden,
    absence,
    open_folder,
    parse_boot_ms,
    read_link,
    view_of,
)
from collector.procfs.process_info import (
    Machine,
    describe,
    looked_again,
    looked_for_ports,
    read_kin,
    read_stat,
    unseen,
)
from collector.procfs.seats import seated

log = logging.getLogger(__name__)

PROC = Path("/proc")

SECOND_LOOK_MS = 30_000
"""Frameworks are imported lazily: what a process maps in its first seconds is not all of it."""

FORGET_MS = 600_000
"""A process that no driver has named for so long gives up its open folder in /proc."""

LOOK_FOR_PORTS_MS = 600_000
"""A server listens once its model is loaded, minutes after it started; until then one looks again."""

MOST_ANCESTORS = 16

FAULT_CHARS = 200
"""Of an error's text, which may quote what the process says."""

NOT_SHOWN_TO_USE_A_GPU = (
    "pid namespace: not the host's, and nothing shows that this pid uses a GPU, "
    "so it may be another process; give the container the host's pids (--pid=host)"
)


def signal_zero(pid: int) -> bool | None:
    """Whether a process with this pid exists, seen or not: kill(2) tells hidden (EPERM) from gone (ESRCH)."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    except OverflowError:
        return None
    return True


@dataclass(slots=True)
class _Known:
    process: Process
    folder: Folder | None
    asked_ms: int
    look_again_ms: int | None
    ports_again_ms: int


class ProcessTable:
    """Who is behind a pid, for the pids of one /proc.

    ``host_pids``: the driver's pids are those of this /proc (``None``: find out). Where they are not, a
    process counts only if it shows signs of GPU use, because the same pid means somebody else there.
    ``exists`` is asked only where ``root`` shows our own pid namespace.
    Raises OSError or ValueError when ``root`` has no readable ``stat``.
    """

    def __init__(
        self,
        node: NodeName,
        root: Path = PROC,
        *,
        host_pids: bool | None = None,
        user_name: Callable[[int], str | None] = account_name,
        exists: Callable[[int], bool | None] = signal_zero,
        seated: Callable[[], frozenset[int] | None] = seated,
        lender: Callable[[int], str | None] = lender_of,
    ) -> None:
        self._root = root
        self._machine = Machine(
            root=root,
            node=node,
            boot_ms=parse_boot_ms((root / "stat").read_bytes()),
            ticks_per_s=os.sysconf("SC_CLK_TCK"),
            user_name=lru_cache(maxsize=4096)(user_name),
            group_folders=GroupFolders(root).look,
            seated=seated,
            lender=lru_cache(maxsize=4096)(lender),
        )
        self._view = view_of(root)
        self._has_host_pids = self._view.has_host_pids if host_pids is None else host_pids
        self._exists = exists
        self._known: dict[int, _Known] = {}
        self._swept_ms = 0

    def look(self, pids: Iterable[int], now_ms: int) -> dict[int, Process]:
        """A process for each pid that is not gone; one that may not be seen says so in ``unreadable``.

        The same object comes back while nothing changed. Does not block, but for a new user's name.
        """
        processes: dict[int, Process] = {}
        for pid in pids:
            entry = self._known.get(pid)
            if entry is None or not self._is_current(entry, now_ms):
                try:
                    entry = self._look_up(pid, entry, now_ms)
                except Exception as error:  # of one process: the others are looked at all the same
                    key = ProcessKey(node=self._machine.node, pid=pid, started_ms=now_ms)
                    processes[pid] = unseen(key, _fault(pid, error))
                    continue
            if entry is not None:
                entry.asked_ms = now_ms
                processes[pid] = entry.process
        if now_ms - self._swept_ms >= FORGET_MS:
            self._sweep(now_ms)
        return processes

    def has_settled(self, pids: Iterable[int]) -> bool:
        """Whether a look within ten minutes can say nothing new of these pids while their processes run."""
        entries = [self._known.get(pid) for pid in pids]
        return all(one is not None and one.folder and one.look_again_ms is None for one in entries)

    def close(self) -> None:
        """Give every descriptor back; the table can be used again afterwards."""
        for pid in tuple(self._known):
            self._forget(pid)

    def _is_current(self, entry: _Known, now_ms: int) -> bool:
        if entry.folder is None or not entry.folder.is_there():
            return False
        return now_ms < (entry.ports_again_ms if entry.look_again_ms is None else entry.look_again_ms)

    def _look_up(self, pid: int, before: _Known | None, now_ms: int) -> _Known | None:
        if before is not None and before.folder is not None and before.folder.is_there():
            if before.look_again_ms is not None:
                return self._second_look(before, before.folder)
            return self._look_for_ports(before, before.folder, now_ms)
        folder = open_folder(self._root, pid)
        if isinstance(folder, Denied):
            return self._remember(pid, self._absent(pid, before, now_ms), None, now_ms)
        process = self._describe(folder)
        if process is None:
            folder.close()
            return self._remember(pid, self._absent(pid, before, now_ms), None, now_ms)
        return self._remember(pid, process, folder, now_ms)

    def _second_look(self, entry: _Known, folder: Folder) -> _Known:
        entry.look_again_ms = None
        process = self._describe(folder, entry.process)
        if process is not None:
            entry.process = looked_again(entry.process, process)
        return entry

    def _look_for_ports(self, entry: _Known, folder: Folder, now_ms: int) -> _Known:
        entry.ports_again_ms = now_ms + LOOK_FOR_PORTS_MS
        try:
            entry.process = looked_for_ports(entry.process, folder, self._machine, self._ancestors)
        except Exception as error:  # it stays as it was described
            _fault(folder.pid, error)
        return entry

    def _describe(self, folder: Folder, before: Process | None = None) -> Process | None:
        """The process, or ``None`` when not even its ``stat`` can be read; ``before`` where Fallow trips."""
        stat = read_stat(folder)
        if isinstance(stat, Denied):
            return None
        try:
            process = describe(folder, stat, self._machine, self._ancestors)
        except ProcessLookupError:
            return None
        except Exception as error:
            why = _fault(folder.pid, error)
            if before is not None:
                return before
            started_ms = self._machine.started_ms(stat)
            key = ProcessKey(node=self._machine.node, pid=folder.pid, started_ms=started_ms)
            return unseen(key, why)
        if self._has_host_pids is False and not (process.cuda_mapped or process.device_open):
            return unseen(process.key, NOT_SHOWN_TO_USE_A_GPU)
        return process

    def _ancestors(self, kin: Kin) -> list[Kin]:
        line: list[Kin] = []
        while kin.parent_pid > 1 and len(line) < MOST_ANCESTORS:
            folder = open_folder(self._root, kin.parent_pid)
            if isinstance(folder, Denied):
                break
            parent = read_kin(folder, self._machine)
            folder.close()
            if isinstance(parent, Denied):
                break
            line.append(parent)
            kin = parent
        return line

    def _absent(self, pid: int, before: _Known | None, now_ms: int) -> Process | None:
        match absence(self._view, exists=self._exists(pid) if self._is_our_namespace() else None):
            case Gone():
                return None
            case Hidden(reason=reason):
                was_unseen = before is not None and before.folder is None
                started_ms = before.process.key.started_ms if before and was_unseen else now_ms
                key = ProcessKey(node=self._machine.node, pid=pid, started_ms=started_ms)
                return unseen(key, f"{reason}; started_ms is when it was first seen")

    def _is_our_namespace(self) -> bool:
        return read_link(self._root / "self") == str(os.getpid())

    def _remember(
        self, pid: int, process: Process | None, folder: Folder | None, now_ms: int
    ) -> _Known | None:
        self._forget(pid)
        if process is None:
            return None
        again_ms = None if folder is None else now_ms + SECOND_LOOK_MS
        entry = _Known(
            process=process,
            folder=folder,
            asked_ms=now_ms,
            look_again_ms=again_ms,
            ports_again_ms=now_ms + LOOK_FOR_PORTS_MS,
        )
        self._known[pid] = entry
        return entry

    def _forget(self, pid: int) -> None:
        entry = self._known.pop(pid, None)
        if entry is not None and entry.folder is not None:
            entry.folder.close()

    def _sweep(self, now_ms: int) -> None:
        self._swept_ms = now_ms
        for pid in [pid for pid, entry in self._known.items() if now_ms - entry.asked_ms >= FORGET_MS]:
            self._forget(pid)


def _fault(pid: int, error: Exception) -> str:
    """Log what Fallow tripped over in one process, with its traceback; what is said with the process."""
    log.error("process %d could not be described: %r", pid, error, exc_info=error)
    return f"description: a fault in Fallow: {error!r}"[:FAULT_CHARS]

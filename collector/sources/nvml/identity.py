"""Which process a pid is: its start time, and whether it still runs, at one system call for all of them.

A pidfd stays with its process when the pid is used again, and one ``poll`` over all of them says who has
ended; /proc is read once for each process. Where there are no pidfds, /proc is read each time. Effects
only; what is concluded from it is in ``process_list``.
"""

import contextlib
import os
import select
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from collector.procfs.proc_files import Denied, open_folder, parse_boot_ms, parse_stat
from collector.sources.nvml.process_list import Presence

HOST_PID_NAMESPACE = "pid:[4026531836]"
"""PROC_PID_INIT_INO, the kernel's fixed number of the first pid namespace."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """A pid as found now; ``started_ms`` is None when it may not be looked at, or is not there."""

    presence: Presence
    started_ms: int | None = None


_ABSENT = Seen(presence=Presence.ABSENT)


class ProcessStarts:
    """Remembers the processes it was asked about while they run; ``close`` gives back its descriptors.

    ``foreign``: pids here are not the driver's, so that the same number may be somebody else; a process
    then counts only when it is seen to hold a GPU's device file open.
    """

    def __init__(self, proc: Path = Path("/proc"), *, foreign: bool = False) -> None:
        self._proc = proc
        self._foreign = foreign
        self._boot_ms = parse_boot_ms((proc / "stat").read_bytes())
        self._ticks_per_s = os.sysconf("SC_CLK_TCK")
        self._known: dict[int, tuple[int, Seen]] = {}
        self._pids: dict[int, int] = {}
        self._poll = select.poll()

    def look(self, pids: Iterable[int]) -> Mapping[int, Seen]:
        """Each pid as it is now; those not asked about any more are forgotten."""
        distinct = set(pids)
        for descriptor, _ in self._poll.poll(0) if self._pids else ():
            self._forget(self._pids[descriptor])
        for pid in self._known.keys() - distinct:
            self._forget(pid)
        return {pid: self._known[pid][1] if pid in self._known else self._first_look(pid) for pid in distinct}

    def close(self) -> None:
        """Close all descriptors; safe to call twice."""
        for pid in tuple(self._known):
            self._forget(pid)

    def _first_look(self, pid: int) -> Seen:
        if pid <= 0:
            return _ABSENT
        descriptor = None
        with contextlib.suppress(OSError, AttributeError, OverflowError):
            descriptor = os.pidfd_open(pid)
        start = self._read(pid)
        if descriptor is None:
            return start
        if start is _ABSENT:
            os.close(descriptor)
            return start
        self._known[pid] = (descriptor, start)
        self._pids[descriptor] = pid
        self._poll.register(descriptor, select.POLLIN)
        return start

    def _read(self, pid: int) -> Seen:
        try:
            stat = parse_stat((self._proc / str(pid) / "stat").read_bytes())
        except PermissionError:
            return Seen(presence=Presence.HIDDEN)
        except (OSError, ValueError):
            return Seen(presence=Presence.HIDDEN) if _runs(pid) else _ABSENT
        if stat.is_gone:
            return _ABSENT
        if self._foreign and not self._holds_gpu(pid):
            return _ABSENT
        started = self._boot_ms + stat.started_ticks * 1000 // self._ticks_per_s
        return Seen(presence=Presence.PRESENT, started_ms=started)

    def _holds_gpu(self, pid: int) -> bool:
        folder = open_folder(self._proc, pid)
        if isinstance(folder, Denied):
            return False
        try:
            return folder.holds_open("/dev/nvidia") is True
        finally:
            folder.close()

    def _forget(self, pid: int) -> None:
        descriptor, _ = self._known.pop(pid)
        del self._pids[descriptor]
        self._poll.unregister(descriptor)
        os.close(descriptor)


def shares_host_pids(proc: Path = Path("/proc")) -> bool | None:
    """Whether pids here are the host's; elsewhere the driver's pids mean nothing. ``None`` if unknown."""
    try:
        return (proc / "self" / "ns" / "pid").readlink().name == HOST_PID_NAMESPACE
    except OSError:
        return None


def _runs(pid: int) -> bool:
    """With hidepid a process is invisible in /proc, yet there: the kernel still refuses us its signals."""
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except (ProcessLookupError, OverflowError):
        return False
    return True

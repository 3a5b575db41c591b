"""Whose a process is, now and by the kernel's word, and that it is still the process that was meant.

Its folder in /proc is kept open: what is read through it is that process's or nothing, also when its number
went to another process since (proc(5)). While it can be read, the number is its own.
"""

import os
from dataclasses import dataclass
from pathlib import Path

from collector.procfs.accounts import unmapped_uid
from collector.procfs.proc_files import (
    Denied,
    Folder,
    is_same_start,
    open_folder,
    parse_boot_ms,
    parse_gids,
    parse_groups,
    parse_stat,
    parse_uids,
    read_file,
    started_ms,
)

PROC = Path("/proc")
ROOT_UID = 0


class NobodysToAct(Exception):
    """Nobody can be named in whose name something may be done to the process; the message says why."""


@dataclass(frozen=True, slots=True)
class Account:
    """What a process may do by its numbers: its user, its group, and the groups beside that one."""

    uid: int
    gid: int
    groups: tuple[int, ...]


class OwnedProcess:
    """The process of this pid that began at this time, UTC ms. Close it with ``close``.

    Raises ``NobodysToAct`` where it is gone.
    """

    def __init__(self, pid: int, begun_ms: int, proc: Path = PROC) -> None:
        folder = open_folder(proc, pid)
        if isinstance(folder, Denied):
            raise NobodysToAct(f"process {pid} is gone")
        self._folder: Folder = folder
        self._pid, self._begun_ms, self._proc = pid, begun_ms, proc

    def account(self) -> Account:
        """Whose it is now. Raises ``NobodysToAct``: it is gone, another one, root's, or of two accounts.

        A set-uid program is of two: what it may, its user may not.
        """
        stat, status = self._folder.read("stat"), self._folder.read("status")
        if isinstance(stat, Denied) or isinstance(status, Denied):
            raise NobodysToAct(f"process {self._pid} is gone")
        boot_ms = parse_boot_ms(read_file(self._proc / "stat") or b"btime 0")
        begun_ms = started_ms(parse_stat(stat), boot_ms, os.sysconf("SC_CLK_TCK"))
        if not is_same_start(begun_ms, self._begun_ms):
            raise NobodysToAct(f"process {self._pid} is another one by now")
        uids, gids = set(parse_uids(status)), set(parse_gids(status))
        if len(uids) != 1 or len(gids) != 1:
            raise NobodysToAct(f"process {self._pid} is of two accounts at once (a set-uid program)")
        (uid,), (gid,) = uids, gids
        if uid == ROOT_UID or uid == unmapped_uid():
            raise NobodysToAct(f"process {self._pid} is root's, or nobody knows whose")
        return Account(uid, gid, parse_groups(status))

    def close(self) -> None:
        """Let go of it."""
        self._folder.close()

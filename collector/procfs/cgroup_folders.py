"""Who owns the folders of a control group: how far down its path the names are root's word.

Whoever owns a folder of a cgroup file system may make others in it under any name (cgroups(7), delegation).
So the parts of a path count from the top down to the first folder that isn't root's, that one included: its
name was given in a folder of root's.
"""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from collector.procfs.proc_files import read_file

_ESCAPED = re.compile(r"\\([0-7]{3})")
"""How mountinfo writes blanks and backslashes (proc_pid_mountinfo(5))."""

_NO_CONTROLLERS = frozenset(
    {"rw", "ro", "xattr", "noprefix", "clone_children", "cpuset_v2_mode", "favordynmods"}
)
"""Options of a version 1 mount beside its controllers and ``name=`` (cgroups(7))."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Folders:
    """Of a path's parts that are no ``..``, how many bear a name that root gave: ``by_root``.

    What lies below those is uid ``beneath``'s; ``None``: all of it is root's.
    """

    by_root: int
    beneath: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Mount:
    controllers: frozenset[str]
    root: tuple[str, ...]
    at: str


class GroupFolders:
    """The cgroup file systems that are mounted where this process runs; asked for one path at a time."""

    def __init__(self, proc: Path) -> None:
        text = (read_file(proc / "self" / "mountinfo") or b"").decode("utf-8", "replace")
        self._mounts = tuple(_mounts(text))

    def look(self, hierarchy: str, path: str) -> Folders | None:
        """Whose the folders of ``path`` are; ``None`` where they can't be looked at, or are gone.

        ``hierarchy`` is what stands between the colons of a line of /proc/PID/cgroup: empty for version 2.
        """
        parts = _parts(path)
        for mount in self._mounts:
            if mount.controllers != frozenset(filter(None, hierarchy.split(","))):
                continue
            if parts[: len(mount.root)] == mount.root:
                return _folders(mount, parts)
        return None


def _folders(mount: _Mount, parts: tuple[str, ...]) -> Folders | None:
    ups = sum(part == ".." for part in parts)
    here = mount.at
    for count, part in enumerate(parts[len(mount.root) :], start=len(mount.root) + 1):
        if part == "..":
            return None
        here = f"{here}/{part}"
        try:
            owner = os.lstat(here).st_uid
        except OSError:
            return None
        if owner != 0:
            return Folders(by_root=count - ups, beneath=owner)
    return Folders(by_root=len(parts) - ups)


def _mounts(mountinfo: str) -> Iterator[_Mount]:
    for line in mountinfo.splitlines():
        before, _, after = line.partition(" - ")
        fields, kind = before.split(), after.split()
        if len(fields) < 5 or len(kind) < 3 or kind[0] not in ("cgroup", "cgroup2"):
            continue
        named = {
            option
            for option in kind[2].split(",")
            if option not in _NO_CONTROLLERS and not option.startswith("release_agent=")
        }
        yield _Mount(
            controllers=frozenset() if kind[0] == "cgroup2" else frozenset(named),
            root=_parts(_plain(fields[3])),
            at=_plain(fields[4]),
        )


def _parts(path: str) -> tuple[str, ...]:
    return tuple(part for part in path.split("/") if part)


def _plain(text: str) -> str:
    return _ESCAPED.sub(lambda match: chr(int(match[1], 8)), text)

"""What it means that a pid from the driver cannot be read here: gone, hidden, or of another namespace."""

import re
from dataclasses import dataclass
from pathlib import Path

from collector.procfs.files import read_file, read_link
from collector.procfs.stat import parse_stat

INITIAL_PID_NAMESPACE = "pid:[4026531836]"
"""PROC_PID_INIT_INO in the kernel's include/linux/proc_ns.h: the inode of the host's pid namespace."""

_HIDEPID = re.compile(r"\bhidepid=(?:1|2|4|noaccess|invisible|ptraceable)\b")


@dataclass(frozen=True, slots=True, kw_only=True)
class Gone:
    """The process has ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hidden:
    """The process exists and this user may not see it, or nobody can tell; ``reason`` says which."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """What one /proc can show: whether its pids are the host's, and whether it hides other people's."""

    has_host_pids: bool | None
    hides_pids: bool


def view_of(root: Path) -> View:
    """What ``root`` can show, as far as this user can find out.

    The host's pid namespace is known by its inode, or by the kernel's own thread 2, which no other
    namespace has; the second also holds for a host's /proc mounted into a container.
    """
    mounts = read_file(root / "self" / "mountinfo") or b""
    return View(
        has_host_pids=_has_host_pids(root), hides_pids=_hides_pids(mounts.decode("utf-8", "replace"), root)
    )


def absence(view: View, *, exists: bool | None) -> Gone | Hidden:
    """Why a pid that the driver names cannot be read; ``exists`` is what kill(pid, 0) said, if it could."""
    if exists:
        why = "/proc is mounted with hidepid" if view.hides_pids else "it exists, and /proc does not show it"
        return Hidden(reason=f"hidden: {why}; run as root, or in the group that gid= of the mount names")
    if view.has_host_pids is False:
        return Hidden(
            reason="pid namespace: the driver's pid is not in this container; give it the host's (--pid=host)"
        )
    if exists is None and view.hides_pids:
        return Hidden(reason="hidden: /proc is mounted with hidepid, and the pid cannot be asked for")
    return Gone()


def _has_host_pids(root: Path) -> bool | None:
    second = read_file(root / "2" / "stat")
    if second is not None and _is_kernel_thread(second):
        return True
    namespace = read_link(root / "self" / "ns" / "pid")
    return None if namespace is None else namespace == INITIAL_PID_NAMESPACE


def _is_kernel_thread(stat: bytes) -> bool:
    try:
        fields = parse_stat(stat)
    except ValueError:
        return False
    return fields.name == "kthreadd" and fields.parent_pid == 0


def _hides_pids(mountinfo: str, root: Path) -> bool:
    """Whether the mount at ``root`` hides pids; the last mount on a point is the one that is seen."""
    lines = [line for line in mountinfo.splitlines() if line.split()[4:5] == [str(root)]]
    return bool(lines) and _HIDEPID.search(lines[-1]) is not None

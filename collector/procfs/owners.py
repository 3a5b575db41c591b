"""Whether a process is a person's own: of the person's uid, or of one that is mapped to it.

A rootless container runs its processes as uids of a range that /etc/subuid lends to its user (subuid(5)).
Where such ranges come from elsewhere, the map of the process's user namespace says whose it is
(user_namespaces(7)): unprivileged, only one's own uid can be mapped into a namespace, beside ranges that one
was lent.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

from collector.procfs.accounts import account_name, name_of, nameless
from collector.procfs.proc_files import parse_uid, read_file

PROC = Path("/proc")
SUBUID = Path("/etc/subuid")
ALL_UIDS = 2**32 - 1
"""The length of the map of a namespace that maps nothing: everybody's."""


def belongs_to(pid: int, uid: int, proc: Path = PROC, subuid: Path = SUBUID) -> bool:
    """Whether a process that runs is this person's; no, where that cannot be read. Blocks briefly."""
    status = read_file(proc / str(pid) / "status")
    own = None if status is None else parse_uid(status)
    if own is None:
        return False
    if own == uid:
        return True
    if uid == 0:  # what root runs as somebody else is that one's
        return False
    return any(own in lent for lent in lent_uids(uid, subuid)) or _is_mapped(own, uid, pid, proc)


def lent_uids(uid: int, subuid: Path = SUBUID) -> tuple[range, ...]:
    """The ranges of uids that the machine lends to a person."""
    names = {str(uid), account_name(uid)}
    return tuple(lent for owner, lent in lent_ranges(subuid) if owner in names)


def lender_of(uid: int, subuid: Path = SUBUID) -> str | None:
    """Whom a uid without an account was lent to, by name; ``None``: nobody, or root for its containers."""
    for owner, lent in lent_ranges(subuid):
        if uid in lent:
            name = name_of(int(owner)) if owner.isdecimal() else owner
            return None if name == "root" else name
    return None


def whose_uid(
    uid: int,
    user_name: Callable[[int], str | None] = account_name,
    lender: Callable[[int], str | None] = lender_of,
) -> str:
    """The person whose uid it is, of a process as of a caller: its account, who was lent it, or its number.

    Blocks as ``account_name`` does.
    """
    return user_name(uid) or lender(uid) or nameless(uid)


def is_lent(uid: int | None, subuid: Path = SUBUID) -> bool:
    """Whether a uid is called as the person who was lent it, and is no account of its own. Blocks so too."""
    return uid is not None and lender_of(uid, subuid) is not None and account_name(uid) is None


def lent_ranges(subuid: Path) -> Iterator[tuple[str, range]]:
    """Who was lent which uids, in the file's order: by name or by number (subuid(5))."""
    for line in (read_file(subuid) or b"").decode("utf-8", "replace").splitlines():
        owner, _, numbers = line.partition(":")
        first, _, count = numbers.partition(":")
        if first.isdecimal() and count.strip().isdecimal():
            yield owner, range(int(first), int(first) + int(count))


def _is_mapped(own: int, uid: int, pid: int, proc: Path) -> bool:
    """Whether its user namespace, another one than ours, maps this person's uid beside its own one."""
    uid_map = read_file(proc / str(pid) / "uid_map") or b""
    outside = list(_outside(uid_map))
    if uid_map == read_file(proc / "self" / "uid_map") or any(len(each) >= ALL_UIDS for each in outside):
        return False
    return any(uid in each for each in outside) and any(own in each for each in outside)


def _outside(uid_map: bytes) -> Iterator[range]:
    for line in uid_map.decode("ascii", "replace").splitlines():
        words = line.split()
        if len(words) == 3 and all(each.isdecimal() for each in words):
            yield range(int(words[1]), int(words[1]) + int(words[2]))

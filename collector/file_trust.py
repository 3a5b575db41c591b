"""Whether what lies in the file system may be believed: whose it is, and who else could have put it there.

A path is walked from ``/`` by descriptors, link by link. Every folder on the way must belong to somebody who
is trusted and be closed to everybody else, as sshd's StrictModes asks of a home (sshd_config(5)). What passed
cannot be exchanged afterwards by anybody else, so it may then be opened by its name. A sticky folder (/tmp)
may be on the way, because nobody can move there what isn't theirs; it is no place to read from by itself.
What lies below a folder that only its owner may enter nobody else can write, whatever its mode says.
"""

import errno
import os
import pwd
import stat
from collections import deque
from dataclasses import dataclass
from grp import getgrgid
from pathlib import Path
from shlex import quote

from collector.procfs.accounts import name_of, unmapped_uid

ROOT_UID = 0
MOST_LINKS = 40
"""As the kernel follows at most (path_resolution(7))."""
LARGEST_BYTES = 16 * 1024 * 1024
"""More than any file that is read whole here has, a store's configuration or a template: a bound."""
OTHERS_PASS = stat.S_IXGRP | stat.S_IXOTH
ACCESS_LIST = "system.posix_acl_access"
"""Where a file has one, its group's bits are the most that anybody named in it has (acl(5))."""
NO_ACCESS_LIST = (errno.ENODATA, errno.ENOTSUP)


@dataclass(frozen=True, slots=True, kw_only=True)
class Distrust:
    """Why something isn't believed: the ``place`` at fault, what it is, and what is wrong.

    ``owner`` is set where it is somebody else's; ``on_the_way`` where what was wanted lies below it.
    """

    place: Path
    kind: str
    because: str
    owner: str | None = None
    on_the_way: bool = False
    chmod: str = "go-w"

    def __str__(self) -> str:
        return f"the {self.kind} {self.place} {self.because}"

    def remedy(self, owner: str) -> str | None:
        """The command that mends it, so that it is ``owner``'s; ``None`` for somebody's folder on the way."""
        place = quote(str(self.place))
        if self.owner is None:
            return f"chmod {self.chmod} {place}"
        return None if self.on_the_way else f"chown {'-R ' * (self.kind == 'folder')}{owner} {place}"


def distrust(path: Path, trusted: frozenset[int]) -> Distrust | None:
    """What is wrong with a file or folder, or on the way to it; ``None`` where ``trusted`` uids alone decide.

    Raises OSError where it is not there, or may not be looked at.
    """
    entry = _walked(path, trusted)
    if isinstance(entry, Distrust):
        return entry
    os.close(entry.descriptor)
    return None


def distrust_way(path: Path, trusted: frozenset[int], root: Path = Path("/")) -> Distrust | None:
    """The same of the folders that lead to what may not be there yet, a sticky one too. Raises OSError.

    ``root`` is the file system's root as another process has it (/proc/PID/root, proc(5)).
    """
    entry = _walked(path.parent, trusted, on_the_way=True, root=root)
    if isinstance(entry, Distrust):
        return entry
    os.close(entry.descriptor)
    return None


def distrust_inside(folder: Path, trusted: frozenset[int]) -> Distrust | None:
    """The same of a folder, and of what lies directly in it, as far as that may be listed. Raises OSError.

    A socket is there for everybody: who answers at it is asked when it is connected to.
    """
    entry = _walked(folder, trusted)
    if isinstance(entry, Distrust):
        return entry
    opened = entry.descriptor
    try:
        for name in os.listdir(f"/proc/self/fd/{opened}"):  # noqa: PTH208 (a descriptor, not a path)
            fault = _entry_fault(opened, name, folder / name, trusted, closed=entry.closed)
            if fault is not None:
                return fault
    except PermissionError:
        return None
    finally:
        os.close(opened)
    return None


def read_trusted(path: Path, trusted: frozenset[int]) -> bytes | Distrust:
    """What a file holds, up to LARGEST_BYTES of it, or why it isn't believed. Raises OSError.

    What is examined is what is read, whatever becomes of the name meanwhile.
    """
    entry = _walked(path, trusted)
    if isinstance(entry, Distrust):
        return entry
    try:
        if stat.S_ISDIR(os.fstat(entry.descriptor).st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        with open(f"/proc/self/fd/{entry.descriptor}", "rb") as file:  # noqa: PTH123 (no path)
            return file.read(LARGEST_BYTES)
    finally:
        os.close(entry.descriptor)


@dataclass(frozen=True, slots=True)
class _Found:
    """What a path leads to: a descriptor that cannot be read through, and must be closed.

    ``closed``: it lies below a folder that only its owner may enter, or is one.
    """

    descriptor: int
    closed: bool


def _walked(
    path: Path, trusted: frozenset[int], *, on_the_way: bool = False, root: Path = Path("/")
) -> _Found | Distrust:
    parts = deque(path.absolute().parts)
    here, at, links, closed = -1, Path("/"), 0, False
    try:
        while parts:
            name = parts.popleft()
            if name == os.pardir and at == Path("/"):
                continue  # as the kernel has it: there is nothing above the root
            step = _step(here, name, root)
            closed = closed and name not in (os.pardir, "/")
            at = Path("/") if name == "/" else at / name
            status = os.fstat(step)
            if stat.S_ISLNK(status.st_mode):
                fault, closed = _foreign(status, at, "link", trusted, on_the_way=True), False
                target = os.readlink("", dir_fd=step)
                os.close(step)
                links += 1
                if links > MOST_LINKS:
                    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
                parts.extendleft(reversed(Path(target).parts))
                at = at.parent
            else:
                fault = _fault(step, status, at, trusted, closed=closed, on_the_way=on_the_way or bool(parts))
                closed = closed or _is_closed(status)
                if here >= 0:
                    os.close(here)
                here = step
            if fault is not None:
                return fault
        ended, here = here, -1
        return _Found(ended, closed)
    finally:
        if here >= 0:
            os.close(here)


def _step(here: int, name: str, root: Path = Path("/")) -> int:
    """A descriptor of one name in an open folder. A folder that is mounted when it is entered is entered."""
    flags = os.O_PATH | os.O_CLOEXEC
    if name == "/":
        return os.open(root, flags | os.O_DIRECTORY)
    flags |= os.O_NOFOLLOW
    try:
        return os.open(name, flags | os.O_DIRECTORY, dir_fd=here)
    except NotADirectoryError:
        return os.open(name, flags, dir_fd=here)


def _entry_fault(
    folder: int, name: str, place: Path, trusted: frozenset[int], *, closed: bool
) -> Distrust | None:
    try:
        entry = _step(folder, name)
    except FileNotFoundError:  # gone since it was listed
        return None
    try:
        status = os.fstat(entry)
        kind = stat.S_IFMT(status.st_mode)
        if kind == stat.S_IFLNK:
            return _link_fault(place, trusted)
        closed = closed or kind == stat.S_IFSOCK
        return _fault(entry, status, place, trusted, closed=closed, on_the_way=False)
    finally:
        os.close(entry)


def _link_fault(place: Path, trusted: frozenset[int]) -> Distrust | None:
    """What is wrong with a link or with what it leads to; nothing where it leads nowhere."""
    try:
        return distrust(place, trusted)
    except OSError:
        return None


def _fault(
    descriptor: int,
    status: os.stat_result,
    place: Path,
    trusted: frozenset[int],
    *,
    closed: bool,
    on_the_way: bool,
) -> Distrust | None:
    """What is wrong with one folder or file by itself; ``closed``: nobody but its owner gets there."""
    kind, mode = _kind(status), status.st_mode
    foreign = _foreign(status, place, kind, trusted, on_the_way=on_the_way)
    if foreign is not None or closed or (on_the_way and mode & stat.S_ISVTX):
        return foreign
    if stat.S_ISCHR(mode) and status.st_uid == ROOT_UID:
        return None  # /dev/null: nobody can leave anything there
    if mode & stat.S_IWOTH:
        return Distrust(
            place=place,
            kind=kind,
            because=f"can be written by everybody (mode {stat.S_IMODE(mode):04o})",
            on_the_way=on_the_way,
        )
    if mode & stat.S_IWGRP and not _is_private(descriptor, status):
        return Distrust(
            place=place,
            kind=kind,
            because=f"can be written by {_sharers(status.st_gid)} (mode {stat.S_IMODE(mode):04o})",
            on_the_way=on_the_way,
            chmod="g-w",
        )
    return None


def _foreign(
    status: os.stat_result, place: Path, kind: str, trusted: frozenset[int], *, on_the_way: bool
) -> Distrust | None:
    """Distrust of what belongs to somebody else.

    In a user namespace that knows some uids only, root's own folders appear as nobody's: they may be on the
    way. Whoever owns one can lead elsewhere from there, but only to what is somebody's who is trusted.
    """
    if status.st_uid in trusted or (on_the_way and status.st_uid == unmapped_uid()):
        return None
    owner = name_of(status.st_uid)
    return Distrust(place=place, kind=kind, because=f"belongs to {owner}", owner=owner, on_the_way=on_the_way)


def _is_closed(status: os.stat_result) -> bool:
    """Whether it is a folder that only its owner may enter."""
    return stat.S_ISDIR(status.st_mode) and not status.st_mode & OTHERS_PASS


def _kind(status: os.stat_result) -> str:
    if stat.S_ISDIR(status.st_mode):
        return "folder"
    return "socket" if stat.S_ISSOCK(status.st_mode) else "file"


def _sharers(gid: int) -> str:
    try:
        return f"the group {getgrgid(gid).gr_name}"
    except KeyError:
        return f"the group {gid}"


def _is_private(descriptor: int, status: os.stat_result) -> bool:
    """Whether its group is its owner's own, with nobody else in it, and no access list names others."""
    try:
        owner, group = pwd.getpwuid(status.st_uid), getgrgid(status.st_gid)
    except KeyError:
        return False
    return (
        (group.gr_name, group.gr_gid) == (owner.pw_name, owner.pw_gid)
        and set(group.gr_mem) <= {owner.pw_name}
        and not any(each.pw_gid == group.gr_gid and each.pw_uid != owner.pw_uid for each in pwd.getpwall())
        and not _has_access_list(descriptor)
    )


def _has_access_list(descriptor: int) -> bool:
    try:
        os.getxattr(f"/proc/self/fd/{descriptor}", ACCESS_LIST)
    except OSError as error:
        return error.errno not in NO_ACCESS_LIST
    return True

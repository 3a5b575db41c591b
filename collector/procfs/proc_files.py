"""The only hands on the file system: one process's folder under /proc, opened once and read from there.

A descriptor of ``/proc/PID`` belongs to one process for all time: when the process is gone, reading
through it fails, even if the pid was given to another one meanwhile. So nothing read through one
``Folder`` can mix two processes, and asking whether a process is still there costs one access(2)
(1.4 µs on a 2-core VM, 21 November 2026, against 8 µs to read ``stat`` again).

The few fields of ``/proc/PID/stat`` and ``/proc/PID/status`` that say who a process is.

What it means that a pid from the driver cannot be read here: gone, hidden, or of another namespace.
"""

import errno
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

START_SLACK_MS = 2000
"""btime in /proc/stat is rounded to seconds and follows corrections of the clock."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stat:
    """From ``/proc/PID/stat`` (proc_pid_stat(5)); ``started_ticks`` counts from boot.

    ``tty`` is the device number of the controlling terminal, 0 when there is none; ``foreground_group``
    is the process group that the terminal listens to, -1 without one.
    """

    name: str
    state: str
    parent_pid: int
    group: int
    session: int
    tty: int
    foreground_group: int
    threads: int
    started_ticks: int

    @property
    def is_gone(self) -> bool:
        """Whether nothing of it runs, and it is only to be reaped.

        A process whose first thread has ended is shown as a zombie (Z) while its others work on, and hold its
        memory and its GPUs; the kernel's count of its threads includes the first until the last has ended.
        """
        return self.state in ("Z", "X") and self.threads <= 1


def parse_stat(text: bytes) -> Stat:
    """The fields; the name may hold spaces and brackets, so it ends at the last one. Raises ValueError."""
    opened, closed = text.find(b"("), text.rfind(b")")
    if opened < 0 or closed < opened:
        raise ValueError(f"not a /proc/PID/stat line: {text[:80]!r}")
    # It begins with the third field of the manual page: so 17 here is num_threads, and 19 is starttime.
    rest = text[closed + 1 :].split()
    if len(rest) < 20:
        raise ValueError(f"a /proc/PID/stat line with {len(rest) + 2} fields: {text[:80]!r}")
    return Stat(
        name=text[opened + 1 : closed].decode("utf-8", "replace"),
        state=rest[0].decode(),
        parent_pid=int(rest[1]),
        group=int(rest[2]),
        session=int(rest[3]),
        tty=int(rest[4]),
        foreground_group=int(rest[5]),
        threads=int(rest[17]),
        started_ticks=int(rest[19]),
    )


def started_ms(stat: Stat, boot_ms: int, ticks_per_s: int) -> int:
    """When the process started, UTC; the kernel counts in ticks (10 ms) from boot."""
    return boot_ms + stat.started_ticks * 1000 // ticks_per_s


def parse_uid(status: bytes) -> int | None:
    """The real user id in ``/proc/PID/status``."""
    return _first_number(status, b"Uid:")


def parse_uids(status: bytes) -> tuple[int, ...]:
    """The real, effective, saved and file system uid there; they differ in a set-uid program."""
    return _numbers(status, b"Uid:")


def parse_gids(status: bytes) -> tuple[int, ...]:
    """The real, effective, saved and file system gid there; they differ in a set-gid program."""
    return _numbers(status, b"Gid:")


def parse_groups(status: bytes) -> tuple[int, ...]:
    """The groups there beside the process's own."""
    return _numbers(status, b"Groups:")


def parse_boot_ms(stat: bytes) -> int:
    """When the machine booted, from ``btime`` in ``/proc/stat``, UTC milliseconds. Raises ValueError."""
    seconds = _first_number(stat, b"btime")
    if seconds is None:
        raise ValueError("no btime line in /proc/stat")
    return seconds * 1000


def is_same_start(one_ms: int, other_ms: int) -> bool:
    """Whether two reckonings of one start time agree: the boot's own time moves as the clock is corrected."""
    return abs(one_ms - other_ms) <= START_SLACK_MS


def _numbers(text: bytes, label: bytes) -> tuple[int, ...]:
    line = next((each for each in text.splitlines() if each.startswith(label)), label)
    return tuple(int(each) for each in line.split()[1:])


def _first_number(text: bytes, label: bytes) -> int | None:
    for line in text.splitlines():
        if line.startswith(label):
            return int(line.split()[1])
    return None


LARGEST_BYTES = 64 * 1024 * 1024
"""More than any map seen (a training with 40,000 mappings has 5 MB); a bound, not a measure."""

MOST_DESCRIPTORS = 4096
"""How many open files of a process are looked at: a server may have a hundred thousand."""

MOST_NEAR_DESCRIPTORS = 256
"""Of each process near one: there are up to eighty, and they may share thousands of files."""

MOST_COMMAND_BYTES = 1 << 16
"""Of a command line: four times what is searched of it. The kernel takes six megabytes, of every process
near one that is looked at."""

MOST_ENVIRONMENT_BYTES = 1 << 20
"""Eight times the longest variable that the kernel takes; a site's modules set a tenth of it."""

MOST_THREADS = 16
"""So many of a process whose first thread has ended are gone through for one that lives."""

_OF_MEMORY = frozenset({"cmdline", "environ", "maps"})
"""Files that are empty or missing once the first thread has ended."""

_SOCKET = "socket:["


@dataclass(frozen=True, slots=True, kw_only=True)
class Denied:
    """A file that could not be read, and why; ``gone`` when the process itself was not there."""

    reason: str
    gone: bool = False


@dataclass(frozen=True, slots=True)
class Folder:
    """An open ``/proc/PID``; close it with ``close``."""

    pid: int
    descriptor: int

    def is_there(self) -> bool:
        """Whether the process still exists; a zombie does."""
        return os.access("stat", os.F_OK, dir_fd=self.descriptor)

    def read(self, name: str) -> bytes | Denied:
        """The whole of one file, up to LARGEST_BYTES."""
        return self.read_start(name, LARGEST_BYTES)

    def read_start(
        self, name: str, most: int, is_enough: Callable[[bytes], bool] | None = None
    ) -> bytes | Denied:
        """The first ``most`` bytes of a file, or fewer once ``is_enough`` of what a read(2) brought."""
        content = self._read(name, most, is_enough)
        is_missing = isinstance(content, Denied) and content.gone
        if name in _OF_MEMORY and (not content or is_missing) and (thread := self._other_thread()):
            return self._read(f"{thread}/{name}", most, is_enough)
        return content

    def _read(self, name: str, most: int, is_enough: Callable[[bytes], bool] | None = None) -> bytes | Denied:
        try:
            descriptor = os.open(name, os.O_RDONLY | os.O_CLOEXEC, dir_fd=self.descriptor)
            with os.fdopen(descriptor, "rb", buffering=0) as file:
                return _read_all(file.fileno(), most, is_enough)
        except OSError as error:
            return _denied(error)

    def _other_thread(self) -> str | None:
        """A thread that lives where the first has ended, as a path: there is what was the process's.

        ``None`` where the first lives, and where none does.
        """
        text = self._read("stat", LARGEST_BYTES)
        if isinstance(text, Denied) or (stat := parse_stat(text)).state != "Z" or stat.is_gone:
            return None
        try:
            with _listed(self, "task", MOST_THREADS) as (_, names):
                return next((f"task/{each}" for each in names if each != str(self.pid)), None)
        except OSError:
            return None

    def command(self) -> bytes | Denied:
        """The start of its command line."""
        return self.read_start("cmdline", MOST_COMMAND_BYTES)

    def sockets(self, most: int = MOST_DESCRIPTORS) -> tuple[int, ...] | Denied:
        """The inodes of its sockets, among its first ``most`` files: who listens, did so early."""
        try:
            with self._open_files(most) as (descriptor, names):
                targets = [_target(name, descriptor) for name in names[:most]]
        except OSError as error:
            return _denied(error)
        inodes = [each[len(_SOCKET) : -1] for each in targets if each.startswith(_SOCKET)]
        return tuple(int(inode) for inode in inodes if inode.isdigit())

    def holds_open(self, prefix: str) -> bool | Denied:
        """Whether one of its open files starts with ``prefix`` followed by a digit."""
        try:
            with self._open_files(MOST_DESCRIPTORS) as (descriptor, names):
                if any(_points_at(name, descriptor, prefix) for name in names[:MOST_DESCRIPTORS]):
                    return True
        except OSError as error:
            return _denied(error)
        if len(names) > MOST_DESCRIPTORS:
            return Denied(reason=f"more open files than the {MOST_DESCRIPTORS} that are looked at")
        return False

    @contextmanager
    def _open_files(self, most: int) -> Iterator[tuple[int, list[str]]]:
        """The folder of its open files, and ``most`` names in it, or one more. Raises OSError."""
        with _listed(self, "fd", most) as descriptors:
            if descriptors[1] or not (thread := self._other_thread()):
                yield descriptors
                return
        with _listed(self, f"{thread}/fd", most) as descriptors:
            yield descriptors

    def close(self) -> None:
        """Give the descriptor back; once only."""
        os.close(self.descriptor)


def open_folder(root: Path, pid: int) -> Folder | Denied:
    """The folder of ``pid`` under ``root``, or why it could not be opened."""
    try:
        flags = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
        return Folder(pid, os.open(f"{root}/{pid}", flags))
    except OSError as error:
        return _denied(error)


def read_file(path: Path) -> bytes | None:
    """A small file that is not a process's, or ``None`` when it cannot be read."""
    try:
        return path.read_bytes()
    except OSError:
        return None


def read_link(path: Path) -> str | None:
    """Where a link points, or ``None`` when it cannot be read."""
    try:
        return str(path.readlink())
    except OSError:
        return None


@contextmanager
def _listed(folder: Folder, path: str, most: int) -> Iterator[tuple[int, list[str]]]:
    """A folder in a process's, and ``most`` names in it, or one more. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=folder.descriptor)
    try:
        with os.scandir(descriptor) as entries:
            names = [entry.name for entry in islice(entries, most + 1)]
        yield descriptor, names
    finally:
        os.close(descriptor)


def _read_all(descriptor: int, most: int, is_enough: Callable[[bytes], bool] | None) -> bytes:
    parts: list[bytes] = []
    size = 0
    while size < most and (part := os.read(descriptor, 1 << 16)):
        parts.append(part)
        size += len(part)
        if is_enough is not None and is_enough(part):
            break
    return b"".join(parts)


def _target(name: str, folder: int) -> str:
    try:
        return os.readlink(name, dir_fd=folder)
    except FileNotFoundError:  # closed since it was listed
        return ""


def _points_at(name: str, folder: int, prefix: str) -> bool:
    target = _target(name, folder)
    return target.startswith(prefix) and target[len(prefix) : len(prefix) + 1].isdigit()


def _denied(error: OSError) -> Denied:
    match error.errno:
        case errno.EACCES | errno.EPERM:
            return Denied(reason="permission denied")
        case errno.ENOENT | errno.ESRCH:
            return Denied(reason="no such process", gone=True)
        case _:
            return Denied(reason=(error.strerror or str(error)).lower())


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

"""The only hands on the file system: one process's folder under /proc, opened once and read from there.

A descriptor of ``/proc/PID`` belongs to one process for all time: when the process is gone, reading
through it fails, even if the pid was given to another one meanwhile. So nothing read through one
``Folder`` can mix two processes, and asking whether a process is still there costs one access(2)
(1.4 µs on a 2-core VM, 21 November 2026, against 8 µs to read ``stat`` again).
"""

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from collector.procfs.stat import parse_stat

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
        found = self._read(name, most, is_enough)
        is_missing = isinstance(found, Denied) and found.gone
        if name in _OF_MEMORY and (not found or is_missing) and (thread := self._other_thread()):
            return self._read(f"{thread}/{name}", most, is_enough)
        return found

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
        with _listed(self, "fd", most) as found:
            if found[1] or not (thread := self._other_thread()):
                yield found
                return
        with _listed(self, f"{thread}/fd", most) as found:
            yield found

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

"""What can go wrong with the store as a whole, said so that a person knows what to do next.

    StoreError
    ├── StoreLocked       another process owns the file
    ├── StoreNewer        a newer Fallow (or DuckDB) wrote the file
    ├── StoreOlder        an older Fallow wrote the file, and only the service brings it up to date
    ├── StoreDamaged      the file, or a sealed day, cannot be read
    ├── StoreUnwritable   the folder or file may not be written
    ├── StoreMissing      there is no store at this path, and reading does not make one
    ├── StoreMixed        real GPUs were to go into a simulated store, or simulated ones into a real one
    ├── StoreClosed       it was closed: what comes after that is not written
    ├── ArchiveAway       archived days cannot be read, or sealed ones not be copied to the bucket, now
    ├── ExportTooLarge    an export would take more than it may; nothing of it is left
    ├── StoreShort        the engine needs more memory than it may take; what was committed before is safe
    └── StoreFull         no room on the disk; what was committed before is safe

``translated`` is the one place where the engine's exceptions become these.
"""

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb

_FULL = ("No space left", "out of disk", "Disk quota", "File too large", "error=28", "errno 28")
_NEWER = ("newer version", "older version of DuckDB", "version number")
_CUT = ("checksum", "Could not read enough bytes", "replaying WAL", "Failed to read WAL")
"""A block or a log that is not what was written, or is not there: the file was cut off, or is damaged."""
_DENIED = ("Permission denied", "Read-only file system", "read-only")


class StoreError(Exception):
    """The store could not do what was asked; the message says what, where, and what to do."""


class StoreLocked(StoreError):
    """Another process owns the file."""


class StoreNewer(StoreError):
    """The file was written by a newer Fallow or a newer DuckDB."""


class StoreOlder(StoreError):
    """The file was last written by an older Fallow, and reading does not change it."""


class StoreDamaged(StoreError):
    """The file, or a part of it, cannot be read."""


class StoreUnwritable(StoreError):
    """The folder or the file may not be written."""


class StoreMissing(StoreError):
    """There is no store at this path."""


class StoreMixed(StoreError):
    """Real and simulated GPUs were to go into one store."""


class StoreClosed(StoreError):
    """The store was let go of before: whoever owns the file now must not be written beside."""


class StoreShort(StoreError):
    """The engine may not take as much memory as it needs: what was attempted did not happen."""


class ArchiveAway(StoreError):
    """The bucket of archived days fails, or holds something else than it was given."""


class ExportTooLarge(StoreError):
    """The files would be larger than they may be."""


class ExportNoRoom(ExportTooLarge):
    """The files would leave the disk too little."""


class StoreFull(StoreError):
    """The disk is full: the tick in flight is lost, everything before it is kept."""


SALVAGED = ".salvaged"
"""Behind the store's name: the new file of a salvage, whole, until it takes that name."""


def refuse_half_salvaged(path: Path) -> None:
    """Raise StoreDamaged where a salvage was cut short between two renames: a store opened now would be the
    damaged one, or an empty new one."""
    ready = path.with_name(path.name + SALVAGED)
    if ready.exists():
        raise StoreDamaged(
            f"opening the store: a salvage of {path} was cut short, and {ready} is to take its place; "
            "`fallow store salvage --yes` ends it"
        )


@contextmanager
def translated(doing: str, path: Path) -> Iterator[None]:
    """Turn the engine's and the system's exceptions into ours; ``doing`` is what was attempted."""
    try:
        yield
    except duckdb.Error as error:
        ours = _classify(doing, path, str(error), error)
        if ours is None:
            raise
        raise ours from error
    except OSError as error:
        found = f"{error.strerror or error} ({error.filename or path})"
        if error.errno in (errno.ENOSPC, errno.EFBIG, errno.EDQUOT):
            raise _full(doing, path, found) from error
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS, errno.EEXIST, errno.ENOTDIR):
            raise _unwritable(doing, path, found) from error
        raise


def locked(doing: str, path: Path, found: str) -> StoreLocked:
    """The exception for a file that another process has open."""
    return StoreLocked(
        f"{doing}: {path} belongs to another process, usually the running service; "
        f"ask it over HTTP, stop it, or choose another folder with --data. Found: {found}"
    )


def _classify(doing: str, path: Path, found: str, error: duckdb.Error) -> StoreError | None:
    if any(sign in found for sign in _FULL):
        return _full(doing, path, found)
    if isinstance(error, duckdb.OutOfMemoryException):
        return StoreShort(
            f"{doing}: the engine of {path} needs more memory than it may take; what was committed before is "
            f"kept. Raise [store] memory_mib. Found: {found.partition(chr(10))[0]}"
        )
    if "Could not set lock" in found or "different configuration than existing" in found:
        return locked(doing, path, found)
    if any(sign in found for sign in _NEWER):
        return StoreNewer(
            f"{doing}: {path} was written by a newer DuckDB; update Fallow. "
            f"Nothing was changed. Found: {found}"
        )
    if any(sign in found for sign in _DENIED):
        return _unwritable(doing, path, found)
    if (
        isinstance(error, duckdb.FatalException)
        or "not a valid DuckDB database" in found
        or "Corrupt" in found
        or any(sign in found for sign in _CUT)
    ):
        return StoreDamaged(
            f"{doing}: {path} cannot be read. `fallow store check` says what is damaged, `fallow store "
            "salvage` keeps what can be read; or keep a copy of it, and restore a backup or start afresh. "
            f"Found: {found.partition(chr(10))[0]}"
        )
    return None


def _unwritable(doing: str, path: Path, found: str) -> StoreUnwritable:
    return StoreUnwritable(
        f"{doing}: {path} may not be written; give its folder to the service's user, "
        f"or choose another with --data. Found: {found}"
    )


def _full(doing: str, path: Path, found: str) -> StoreFull:
    return StoreFull(
        f"{doing}: no room left for {path}; everything committed before is kept. "
        f"Free some space or shorten the retention. Found: {found}"
    )

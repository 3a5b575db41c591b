"""Opening DuckDB's file with our settings, and one transaction on it."""

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import duckdb

READER_WAITS = 20
READER_WAIT_S = 0.25
"""A reading verb has the file open for well under these five seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How much of the machine the store may take: it is a guest beside other people's jobs."""

    memory: str = "1GB"
    threads: int = 2
    temporary: str = "4GiB"
    """The most that questions which need more than ``memory`` put aside on the disk, all together: four times
    the usual memory. DuckDB's own bound is nine tenths of what the disk has free."""
    wal_bytes: int = 256 * 1024 * 1024
    """The length of the write-ahead log at which a tick pays for a checkpoint; call ``checkpoint`` before."""


def connect_soon(path: Path, limits: Limits) -> duckdb.DuckDBPyConnection:
    """The owner's connection; a reading verb that has the file open at this moment is waited for."""
    for _ in range(READER_WAITS):
        try:
            return connect(path, limits, read_only=False)
        except duckdb.IOException as error:
            if "Could not set lock" not in str(error):
                raise
        time.sleep(READER_WAIT_S)
    return connect(path, limits, read_only=False)


def connect(path: Path, limits: Limits, *, read_only: bool) -> duckdb.DuckDBPyConnection:
    """The file, opened. Blocks while its log is played back. Raises what DuckDB raises."""
    settings: dict[str, str | bool | int | float | list[str]] = {
        "threads": limits.threads,
        "memory_limit": limits.memory,
        "temp_directory": str(path.parent / "tmp"),
        "max_temp_directory_size": limits.temporary,
        "file_search_path": str(path.parent),
        "wal_autocheckpoint": f"{limits.wal_bytes}B",
        "autoinstall_known_extensions": False,
        "autoload_known_extensions": False,
        "allocator_background_threads": not read_only,  # or what sealing a day took is never given back
    }
    return duckdb.connect(str(path), read_only=read_only, config=settings)


@contextmanager
def transaction(connection: duckdb.DuckDBPyConnection) -> Iterator[None]:
    """The block as one transaction: committed at its end, undone by what it raises."""
    connection.execute("BEGIN")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        with suppress(duckdb.Error):
            connection.execute("ROLLBACK")
        raise

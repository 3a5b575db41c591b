"""What the store's file and its log take on the disk."""

from dataclasses import dataclass
from pathlib import Path

import duckdb

from collector.store.log_damage import log_path
from collector.store.statements import statement


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSize:
    """What the store's file takes; ``free_bytes`` of it are free for reuse."""

    file_bytes: int
    free_bytes: int
    log_bytes: int


def file_size(connection: duckdb.DuckDBPyConnection, path: Path) -> FileSize:
    """The sizes as they are now. Raises OSError, duckdb.Error."""
    row = connection.execute(statement("file_size")).fetchone()
    block, _, free = row if row else (0, 0, 0)
    wal = log_path(path)
    return FileSize(
        file_bytes=path.stat().st_size,
        free_bytes=block * free,
        log_bytes=wal.stat().st_size if wal.exists() else 0,
    )

"""The one file and its owner: opening, one transaction a tick, readers that never block it.

DuckDB lets one process write a file, or many read it. ``Store`` is safe to call from several threads:
writers take turns, and every ``reader()`` is a connection of its own with its own snapshot.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

import duckdb

from collector.batch import History
from collector.model import Gap, Tick
from collector.store import history as history_rows
from collector.store import ticks
from collector.store.errors import StoreMissing, translated
from collector.store.gaps import stopped_gaps
from collector.store.migrations import applied_migrations, migrate, refuse_newer

FILE_NAME = "fallow.duckdb"
SEALED_FOLDER = "sealed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How much of the machine the store may take: it is a guest beside other people's jobs."""

    memory: str = "1GB"
    threads: int = 2
    wal_bytes: int = 256 * 1024 * 1024
    """The length of the write-ahead log at which a tick pays for a checkpoint; call ``checkpoint`` before."""


def open_store(path: Path, limits: Limits | None = None) -> "Store":
    """The store at ``path`` (the file; made if missing), migrated and owned until closed.

    Raises StoreLocked, StoreNewer, StoreDamaged, StoreUnwritable, StoreFull.
    """
    with translated("opening the store", path):
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists() and path.stat().st_size == 0:
            path.unlink()
        return Store(path, _connect(path, limits or Limits(), read_only=False), limits or Limits(), False)


def open_read_only(path: Path, limits: Limits | None = None) -> "Store":
    """The store at ``path`` for reading, while no service runs.

    Raises StoreMissing, StoreLocked when a service owns it, StoreNewer, StoreDamaged.
    """
    if not path.is_file():
        raise StoreMissing(f"reading the store: there is no {path}; start the service once, or give --data")
    with translated("reading the store", path):
        return Store(path, _connect(path, limits or Limits(), read_only=True), limits or Limits(), True)


class Store:
    """One open file. Use ``open_store`` or ``open_read_only``; close it, or use it in a ``with``."""

    def __init__(
        self, path: Path, connection: duckdb.DuckDBPyConnection, limits: Limits, read_only: bool
    ) -> None:
        self.path = path
        self.read_only = read_only
        self._limits = limits
        self._connection = connection
        self._lock = threading.RLock()
        if read_only:
            refuse_newer(applied_migrations(connection), path)
        else:
            migrate(connection, path)
        self._live = ticks.read_live(connection)

    def __enter__(self) -> "Store":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Write everything into the file and let go of it; safe to call twice."""
        with self._lock:
            self._connection.close()

    def reader(self) -> duckdb.DuckDBPyConnection:
        """A connection for named queries, for one other thread; close it after use. Never blocks a tick."""
        return self._connection.cursor()

    def gap_since_last_tick(self, now_ms: int, width_ms: int) -> tuple[Gap, ...]:
        """What would be missing if ticks began again now; the first tick stores the same."""
        return stopped_gaps(self._live.book.last_ticks, at_ms=now_ms, width_ms=width_ms)

    def write_tick(self, tick: Tick) -> None:
        """Commit all that the tick brings in one transaction, roll-ups included.

        Raises StoreFull or StoreDamaged; then nothing of this tick is stored and the next may be tried.
        """
        with self._writing("writing a tick"):
            ticks.write_tick(self._connection, self._live, tick)

    def write_history(self, history: History) -> int:
        """Store a stretch of the past; the number of samples that were not there. Safe to repeat."""
        with self._writing("writing history"):
            return history_rows.write_history(self._connection, self._live, history)

    @contextmanager
    def _writing(self, doing: str) -> Iterator[None]:
        with self._lock, translated(doing, self.path):
            self._connection.execute("BEGIN")
            try:
                yield
                self._connection.execute("COMMIT")
            except BaseException:
                self._recover()
                raise

    def _recover(self) -> None:
        """Back to what is committed; an engine that gave up is opened again."""
        with suppress(duckdb.Error):
            self._connection.execute("ROLLBACK")
        try:
            self._live = ticks.read_live(self._connection)
        except duckdb.Error:
            self._connection.close()
            self._connection = _connect(self.path, self._limits, read_only=False)
            self._live = ticks.read_live(self._connection)


def _connect(path: Path, limits: Limits, *, read_only: bool) -> duckdb.DuckDBPyConnection:
    settings: dict[str, str | bool | int | float | list[str]] = {
        "threads": limits.threads,
        "memory_limit": limits.memory,
        "temp_directory": str(path.parent / "tmp"),
        "file_search_path": str(path.parent),
        "wal_autocheckpoint": f"{limits.wal_bytes}B",
        "autoinstall_known_extensions": False,
        "autoload_known_extensions": False,
    }
    return duckdb.connect(str(path), read_only=read_only, config=settings)

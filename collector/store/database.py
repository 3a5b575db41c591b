"""The one file and its owner: opening, one transaction a tick, readers that never block it.

DuckDB lets one process write a file, or many read it. ``Store`` is safe to call from several threads:
writers take turns, and every ``reader()`` is a connection of its own with its own snapshot.
"""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import TypeVar
from weakref import WeakSet

import duckdb

from collector.arrow import History
from collector.managers.slurm.sacct_text import AccountedRun
from collector.model import Gap
from collector.reading import Tick
from collector.store import accounted, judgements, ledger_inputs, ticks
from collector.store import history as history_rows
from collector.store.archive import reaching
from collector.store.connection import Limits, connect, transaction
from collector.store.doubts import AttributionConflicts, read_doubts, write_doubts
from collector.store.errors import StoreClosed, StoreMissing, StoreUnwritable, translated
from collector.store.export import ExportBounds, Exported, Format, export
from collector.store.file_size import FileSize, file_size
from collector.store.gaps import stopped_gaps
from collector.store.judgements import Judgement
from collector.store.ledger_inputs import FindingsWritten
from collector.store.log_damage import DamagedLog, connect_past_damage, lost_tail, write_lost
from collector.store.migrations import applied_migrations, migrate, refuse_newer, refuse_older
from collector.store.nodes import write_late, write_marks
from collector.store.origin import Origin, refuse_other
from collector.store.ownership import Ownership
from collector.store.retention import Dropped, Retention, drop_expired
from collector.store.rollups import any_finished, read_marks
from collector.store.sealed_check import damaged_days, refuse_damaged, replace_damaged, set_aside
from collector.store.sealing import (
    SealedDay,
    broken_days,
    days_to_seal,
    remove_files,
    renew_view,
    seal_day,
    sweep,
)
from collector.store.standing import InstalledGpus, write_standings
from collector.store.together import GroupCommit

__all__ = ["FileSize", "Limits", "Store", "open_read_only", "open_store"]

T = TypeVar("T")

FILE_NAME = "fallow.duckdb"
KEPT_AT_HAND = "16MiB"


def open_store(path: Path, limits: Limits | None = None) -> "Store":
    """The store at ``path`` (the file; made if missing), migrated and owned until closed.

    Raises StoreLocked, StoreNewer, StoreDamaged, StoreUnwritable, StoreFull.
    """
    with translated("opening the store", path):
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_dir():
            raise StoreUnwritable(f"opening the store: {path} is a folder; move it away: the store is a file")
        if path.exists() and path.stat().st_size == 0:
            path.unlink()
        is_new = not path.exists()
        ownership = Ownership(path)
        if is_new:  # a lock of a store that was moved away says nothing of this one
            ownership.note_tick(None)
        return Store(path, limits or Limits(), ownership)


def open_read_only(path: Path, limits: Limits | None = None) -> "Store":
    """The store at ``path`` for reading, while no service runs.

    Raises StoreMissing, StoreLocked when a service owns it, StoreNewer, StoreOlder, StoreDamaged.
    """
    if not path.is_file():
        raise StoreMissing(f"reading the store: there is no {path}; start the service once, or give --data")
    with translated("reading the store", path):
        return Store(path, limits or Limits(), None)


class Store:
    """One open file. Use ``open_store`` or ``open_read_only``; close it, or use it in a ``with``."""

    def __init__(self, path: Path, limits: Limits, ownership: Ownership | None) -> None:
        self.path = path
        self.folder = path.parent
        self.read_only = ownership is None
        self.remarks: tuple[str, ...] = ()
        """What the opening found that a person should know; for the log."""
        self._limits = limits
        self._ownership = ownership
        self._lock = threading.RLock()
        self._lost = False
        self._closed = False
        self._chores = threading.Lock()
        self._together = GroupCommit(self.writing)
        self._reading = threading.Lock()
        self._readers: WeakSet[duckdb.DuckDBPyConnection] = WeakSet()
        with ExitStack() as undo:
            if ownership is not None:
                undo.callback(ownership.release)
            damaged = self._connect()
            undo.callback(self._connection.close)
            self._prepare()
            self._tell_lost(damaged)
            undo.pop_all()

    def __enter__(self) -> "Store":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Write everything into the file and let go of it; safe to call twice."""
        with self._lock:
            self._closed = True
            self._connection.close()
            if self._ownership is not None:
                self._ownership.release()

    def reader(self) -> duckdb.DuckDBPyConnection:
        """A connection for named queries, for one other thread; close it after use. Never blocks a tick."""
        made = self._connection.cursor()
        with self._reading:
            self._readers.add(made)
        return made

    def hurry(self) -> None:
        """Cut short what readers ask now: ``duckdb.InterruptException`` for them. Never blocks."""
        with self._reading:
            readers = tuple(self._readers)
        for each in readers:
            with suppress(duckdb.Error):
                each.interrupt()

    def gap_since_last_tick(self, now_ms: int, width_ms: int) -> tuple[Gap, ...]:
        """What would be missing if ticks began again now; the first tick stores the same."""
        return stopped_gaps(self._live.book.last_ticks, at_ms=now_ms, width_ms=width_ms)

    @property
    def origin(self) -> Origin | None:
        """Whether its GPUs are real or simulated; ``None`` before the first."""
        return self._live.origin.origin

    def must_take(self, wanted: Origin) -> None:
        """Raise StoreMixed where GPUs of this origin may not go into it."""
        refuse_other(self.origin, wanted)

    def is_simulated(self, uuid: str) -> bool:
        """Whether a GPU of it is an invented one, on which nothing real can run."""
        return self._live.origin.is_simulated(uuid)

    def write_tick(self, tick: Tick) -> None:
        """Commit all that the tick brings in one transaction; then, in another, the minutes it completes.

        Raises StoreFull or StoreDamaged. A tick that fails leaves nothing behind, and the next may be tried;
        a roll-up that fails is made up for by the next tick.
        """
        with self._writing("writing a tick"):
            write_late(self._connection, self._live, tick)
            ticks.write_tick(self._connection, self._live, tick)
            write_doubts(self._connection, self._live.registry, self._doubts, tick)
            write_standings(self._connection, len(self._live.registry.gpu_ids), self._standings, tick)
            write_marks(self._connection, tick)
        if self._ownership is not None and not tick.is_after_all:
            self._ownership.note_tick(tick.at_ms)  # the same ticks as the store's own newest_tick
        if any_finished(self._live.marks, tick.at_ms):
            with self._writing("rolling up a minute"):
                ticks.close_minutes(self._connection, self._live, tick.at_ms)

    def write_history(self, history: History) -> int:
        """Store a stretch of the past; the number of samples that were not there. Safe to repeat."""
        with self._writing("writing history"):
            added = history_rows.write_history(self._connection, self._live, history)
            if added or history.removed_ms:
                self._standings.standings = {}
            if history.intruded:
                self._doubts = read_doubts(self._connection, self._live.ticked_ms)
            return added

    def write_accounted(self, manager: str, runs: Sequence[AccountedRun]) -> tuple[int, int]:
        """Store runs of a manager's accounting; how many are new, and how many have means now."""
        with self._writing("storing runs of the accounting"):
            return accounted.write_accounted(self._connection, self._live.registry, manager, runs)

    def seal_days(self, before_ms: int) -> tuple[SealedDay, ...]:
        """Move whole UTC days before ``before_ms`` to Parquet, a transaction a day; ticks go on meanwhile."""
        sealed = []
        with self._chores, translated("sealing a day", self.path), self.reader() as connection:
            sweep(connection, self.folder)
            for day_ms in days_to_seal(connection, before_ms):
                with transaction(connection):
                    day = seal_day(connection, self.folder, day_ms)
                if day is not None:
                    sealed.append(day)
        return tuple(sealed)

    def mend_sealed(self, span: tuple[int, int] | None = None) -> tuple[str, ...]:
        """Look through the sealed days (of a span, UTC ms); of a damaged one use the rest. What to tell."""
        told = []
        with self._chores, translated("looking through sealed days", self.path), self.reader() as connection:
            for found in damaged_days(connection, self.folder, span):
                with transaction(connection):
                    told.append(replace_damaged(connection, self.folder, found))
                set_aside(self.folder, found)
        return tuple(told)

    def apply_retention(self, retention: Retention, now_ms: int) -> Dropped:
        """Let go of what is older than the retention says; files go last."""
        with self._chores:
            with self._writing("applying the retention"):
                dropped = drop_expired(self._connection, self.folder, retention, now_ms)
                self._live.marks = read_marks(self._connection)
            remove_files(self.folder, dropped.files)
        return dropped

    def checkpoint(self) -> FileSize:
        """Fold the write-ahead log into the file and give freed blocks back for reuse; what the file takes.

        Call it between ticks. A reader in the middle of a query makes it a no-op until the next call.
        """
        with self._lock, translated("folding the log into the file", self.path):
            with suppress(duckdb.TransactionException):
                self._connection.execute("CHECKPOINT")
            return file_size(self._connection, self.path)

    def shed(self) -> bool:
        """Have the engine drop the file's blocks that it keeps at hand; false, with nothing done, while
        somebody reads: a query that needs memory in that moment would fail.

        The system's page cache holds them as well. The engine keeps them until its limit is reached, so a
        service that is asked now this, now that would grow for days up to the size of its file.
        """
        with self._lock, self._reading:
            if self._closed or self._lost or len(self._readers):
                return False
            try:
                with suppress(duckdb.OutOfMemoryException):  # what is left is in use
                    self._connection.execute(f"SET memory_limit = '{KEPT_AT_HAND}'")
            finally:
                self._connection.execute(f"SET memory_limit = '{self._limits.memory}'")
            return True

    def export(
        self, out: Path, kind: Format, from_ms: int, to_ms: int, bounds: ExportBounds | None = None
    ) -> Exported:
        """Write samples, allocations and gpus of a span to files in ``out``; see ``docs/schema.md``."""
        with translated("exporting", out):
            if not self.read_only:
                self.mend_sealed((from_ms, to_ms))
            with self.reader() as connection:
                if self.read_only:
                    refuse_damaged(connection, self.folder, (from_ms, to_ms))
                simulated, span = self.origin is Origin.SIMULATED, (from_ms, to_ms)
                with reaching(connection, *span):
                    return export(connection, out, kind, span, simulated=simulated, bounds=bounds)

    def write_judgement(self, judgement: Judgement, at_ms: int, *, of_past: bool = False) -> FindingsWritten:
        """Make the newest judgement this one, all of it or nothing: findings are opened, refreshed or closed
        by (kind, uuid, job), the rest is replaced. A GPU or job that the store does not know raises KeyError.
        """
        with self._writing("writing a judgement"):
            return judgements.write_judgement(self._connection, judgement, at_ms, of_past=of_past)

    def set_prices(self, prices: Mapping[str, tuple[float, str]]) -> None:
        """Replace the price list: model (``*``: all others) to price of a GPU-hour and currency."""
        with self._writing("setting prices"):
            ledger_inputs.set_prices(self._connection, prices)

    def leases(self) -> tuple[dict[str, object], ...]:
        """The leases in force; times in UTC ms."""
        with self.reader() as connection:
            return ledger_inputs.open_leases(connection)

    def imported_ranges(self, origin: str) -> tuple[tuple[int, int], ...]:
        """The half-open ranges, UTC ms, that were imported from an origin."""
        with self.reader() as connection:
            return ledger_inputs.imported_ranges(connection, origin)

    def note_import(self, origin: str, from_ms: int, to_ms: int, rows_added: int) -> None:
        """Record that a range of an origin is imported."""
        with self._writing("noting an import"):
            ledger_inputs.note_import(self._connection, origin, (from_ms, to_ms), rows_added)

    def _connect(self) -> DamagedLog | None:
        """Open the engine; the log where it was damaged."""
        if self.read_only:
            self._connection = connect(self.path, self._limits, read_only=True)
            return None
        self._connection, damaged = connect_past_damage(self.path, self._limits)
        return damaged

    def _prepare(self) -> None:
        """Bring the file up to date, clear up after a crash, and learn where things stand."""
        if self.read_only:
            applied = applied_migrations(self._connection)
            refuse_newer(applied, self.path)
            refuse_older(applied, self.path)
        else:
            migrate(self._connection, self.path)
            with transaction(self._connection):
                aside = sweep(self._connection, self.folder)
                missing = renew_view(self._connection, self.folder)
            self.remarks = (*(f"set aside {path}: no record explains it" for path in aside), *missing)
        self._remember()

    def _tell_lost(self, damaged: DamagedLog | None) -> None:
        """Write down as gaps what the end of the log should have brought, and say so."""
        if self._ownership is None:
            return
        owner = self._ownership
        lost = lost_tail(self._connection, owner.noted_ms, damaged, owner.cut_ms)
        if lost is not None:
            with transaction(self._connection):
                write_lost(self._connection, self._live, lost)
            self.remarks = (*self.remarks, lost.sentence)
        self._ownership.note_tick(None)

    def _remember(self) -> None:
        """Learn from the file where things stand."""
        self._live = ticks.read_live(self._connection)
        self.names = self._live.registry.names  # of nodes, for any thread
        self._standings = InstalledGpus()
        self._doubts = (
            AttributionConflicts(intruding=frozenset(), unread=frozenset(), looked_ms=None)
            if self.read_only
            else read_doubts(self._connection, self._live.ticked_ms)
        )

    @contextmanager
    def writing(self, doing: str) -> Iterator[duckdb.DuckDBPyConnection]:
        """One transaction for rows that others own (the journal, the register); durable when the block ends.

        ``doing`` completes error messages. Waits for a tick that is being committed. Raises StoreFull or
        StoreDamaged; then nothing of the block is stored.
        """
        with self._writing(doing):
            yield self._connection

    def together(self, doing: str, work: Callable[[duckdb.DuckDBPyConnection], T]) -> T:
        """What ``work`` returns, durable; it shares the transaction of others that come at the same time.

        ``work`` only reads and writes rows: it may run on another's thread, and again when one of those that
        share it failed, for then each is done by itself. Raises as ``writing`` does.
        """
        return self._together.do(doing, work)

    @property
    def crowd(self) -> int:
        """How many such changes wait for the next transaction."""
        return self._together.waiting

    @contextmanager
    def _writing(self, doing: str) -> Iterator[None]:
        with self._lock, translated(doing, self.path):
            if self._closed:
                raise StoreClosed(f"{doing}: {self.path} was closed, and may be another's by now")
            if self._lost:
                self._reopen()
            try:
                self._connection.execute("BEGIN")
                yield
                self._connection.execute("COMMIT")
            except BaseException:
                self._recover()
                raise
            if self._ownership is not None:
                self._ownership.note_commit()

    def _recover(self) -> None:
        """Back to what is committed, without days that broke; an engine that gave up is opened again."""
        with suppress(duckdb.Error):
            self._connection.execute("ROLLBACK")
        with suppress(duckdb.Error), transaction(self._connection):
            if broken_days(self._connection, self.folder):
                renew_view(self._connection, self.folder)
        try:
            self._remember()
        except duckdb.Error:
            self._reopen()

    def _reopen(self) -> None:
        """Open an engine that gave up again; where that fails as well, the next change tries once more."""
        self._lost = True
        self._connection.close()
        damaged = self._connect()
        self._remember()
        self._tell_lost(damaged)
        self._lost = False

"""A write-ahead log that cannot be played back: set aside whole, its sound beginning kept in its place.

DuckDB checks each entry of the log and refuses the file when one is wrong; one whose length is wrong, or that
ends too early, it takes for the end of the log without a word. So what is lost is learnt from elsewhere: the
owner notes beside the file which tick it committed last (``collector.store.ownership``).
"""

import logging
import os
import re
import shutil
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import duckdb

from collector.model import Gap
from collector.store.connection import Limits, connect, connect_soon
from collector.store.errors import refuse_half_salvaged
from collector.store.gaps import write_gaps
from collector.store.statements import statement
from collector.store.ticks import Live

log = logging.getLogger(__name__)

SIGN = "replaying WAL"
"""What every message of DuckDB 1 and 2 about a log that cannot be played back holds."""
_POSITION = re.compile(r"entry at byte position (\d+)")
COPY_BYTES = 1 << 20
REASON = "what was measured is lost: the end of the store's log could not be read"


@dataclass(frozen=True, slots=True, kw_only=True)
class DamagedLog:
    """A log that was set aside: where it is kept, and what DuckDB found."""

    aside: Path
    found: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LostTail:
    """What the log should have brought and did not: the time after ``from_ms`` up to ``to_ms``, UTC.

    ``from_ms`` is the newest tick that is kept, ``None`` where none is; ``damaged`` the log, where it was set
    aside, ``None`` where it only ended too early.
    """

    from_ms: int | None
    to_ms: int
    damaged: DamagedLog | None = None
    has_ticks: bool = True
    """Whether a tick is among it: where none is, nothing that was measured is lost."""

    @property
    def sentence(self) -> str:
        """What a person should know."""
        since = "its beginning" if self.from_ms is None else _clock(self.from_ms)
        kept = "" if self.damaged is None else f" The damaged log is kept as {self.damaged.aside}."
        return (
            f"The end of the store's log could not be read: what was written after {since}, up to "
            f"{_clock(self.to_ms)}, is lost. What was measured then is unknown, and jobs stand as they did "
            f"before; launchers say anew where theirs are.{kept}"
        )


def log_path(path: Path) -> Path:
    """The write-ahead log of a store's file."""
    return path.with_name(f"{path.name}.wal")


def is_log_damage(error: BaseException) -> bool:
    """Whether an engine could not be opened because of its log."""
    return isinstance(error, duckdb.Error) and SIGN in str(error)


def connect_past_damage(path: Path, limits: Limits) -> tuple[duckdb.DuckDBPyConnection, DamagedLog | None]:
    """The owner's connection; a log that cannot be played back is set aside, and said. Raises duckdb.Error.

    First its sound beginning takes its place; where that cannot be played back either, none does. Raises
    StoreDamaged beside what an interrupted salvage left.
    """
    refuse_half_salvaged(path)
    try:
        return connect_soon(path, limits), None
    except duckdb.Error as error:
        if not is_log_damage(error):
            raise
        damaged = cut_damaged_log(path, str(error))
    note_damaged_log(damaged)
    try:
        connection = connect(path, limits, read_only=False)
    except duckdb.Error as error:
        if not is_log_damage(error):
            raise
        log.error("its beginning cannot be played back either: %s", error)
        # Only the copy of its beginning goes: the log itself was renamed before.
        log_path(path).unlink()
        connection = connect(path, limits, read_only=False)
    connection.execute("CHECKPOINT")
    return connection, damaged


def lost_tail(
    connection: duckdb.DuckDBPyConnection,
    noted_ms: int | None,
    damaged: DamagedLog | None,
    cut_ms: int | None = None,
) -> LostTail | None:
    """What an opening did not find of what was committed.

    ``noted_ms`` is the newest tick that was; ``cut_ms`` when something was, where the log is shorter now.
    """
    row = connection.execute(statement("newest_tick")).fetchone()
    newest_ms = row[0] if row else None
    if noted_ms is not None and (newest_ms is None or noted_ms > newest_ms):
        return LostTail(from_ms=newest_ms, to_ms=noted_ms, damaged=damaged)
    if damaged is None and cut_ms is not None:
        return LostTail(from_ms=newest_ms, to_ms=max(cut_ms, newest_ms or 0), has_ticks=False)
    if damaged is None:
        return None
    written_ms = round(damaged.aside.stat().st_mtime * 1000)
    return LostTail(from_ms=newest_ms, to_ms=max(written_ms, newest_ms or 0), damaged=damaged)


def write_lost(connection: duckdb.DuckDBPyConnection, live: Live, lost: LostTail) -> None:
    """A gap for each source, in the caller's transaction, and a line in the log; what comes after is told as
    any other stop."""
    log.error("%s", lost.sentence)
    if not lost.has_ticks:
        return
    gaps = [
        Gap(source=source, from_ms=last_ms, to_ms=lost.to_ms, reason=REASON)
        for source, last_ms in sorted(live.book.last_ticks.items())
        if last_ms < lost.to_ms
    ]
    write_gaps(connection, gaps, live.registry, live.book)
    for gap in gaps:
        live.book.last_ticks[gap.source] = gap.to_ms


def note_damaged_log(damaged: DamagedLog) -> None:
    """Say in the log where a damaged one is kept."""
    log.error("the store's log cannot be played back, and is kept as %s: %s", damaged.aside, damaged.found)


def cut_damaged_log(path: Path, found: str) -> DamagedLog:
    """Rename the log, and put what lies before its first wrong entry in its place."""
    wal = log_path(path)
    aside = aside_name(wal)
    wal.rename(aside)
    position = _POSITION.search(found)
    if position is not None:
        # Under another name until it is whole: after a crash amid the copy DuckDB would play half of it back.
        draft = wal.with_name(f"{wal.name}.salvaging")
        _copy_beginning(aside, draft, int(position[1]))
        draft.rename(wal)
    return DamagedLog(aside=aside, found=found.splitlines()[0])


def _copy_beginning(source: Path, target: Path, count: int) -> None:
    with source.open("rb") as given, target.open("wb") as out:
        while count > 0 and (piece := given.read(min(count, COPY_BYTES))):
            out.write(piece)
            count -= len(piece)
        out.flush()
        os.fsync(out.fileno())
    shutil.copymode(source, target)


def aside_name(damaged: Path) -> Path:
    """A free name beside its own, with the time, under which a damaged file is kept."""
    wanted = damaged.with_name(f"{damaged.name}.damaged-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}")
    number, name = 1, wanted
    while name.exists():
        number += 1
        name = wanted.with_name(f"{wanted.name}-{number}")
    return name


def _clock(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")

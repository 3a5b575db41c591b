"""Turns "who holds what at this tick" into intervals: opens what is new, closes what is gone.

An allocation seen at one tick and not at the next ended at the first of the two; a new one began there. So
handing a GPU over leaves neither a hole nor an overlap; what ended just where it begins again goes on. After
a pause longer than RESUME_MS nobody knows what went on: everything is closed at the last tick before it, and
begins again with the tick after it. Where the clock was set back nothing is held ahead of it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from operator import attrgetter

import duckdb
import pyarrow as pa

from collector.model import Allocation, Holder
from collector.store.statements import statement

RESUME_MS = 300_000
Claim = tuple[int, int, float, str]
"""GPU id, holder id, share, source."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What a tick means for the intervals."""

    closed: frozenset[Claim]
    closed_at_ms: int
    opened: frozenset[Claim]
    opened_at_ms: int


def claims_of(
    allocations: Iterable[Allocation], gpu_ids: Mapping[str, int], holder_ids: Mapping[str, int]
) -> frozenset[Claim]:
    """The allocations by their ids."""
    return frozenset((gpu_ids[a.uuid], holder_ids[a.holder.job], a.share, a.source) for a in allocations)


@dataclass(frozen=True, slots=True)
class Said:
    """The allocations of a tick, attribute by attribute, so that an unchanged tick is told at a glance."""

    uuids: list[str]
    holders: list[Holder]
    shares: list[float]
    sources: list[str]


def said_by(allocations: tuple[Allocation, ...]) -> Said:
    """The attributes of the allocations, in their order."""
    return Said(
        list(map(attrgetter("uuid"), allocations)),
        list(map(attrgetter("holder"), allocations)),
        list(map(attrgetter("share"), allocations)),
        list(map(attrgetter("source"), allocations)),
    )


def change(
    held: frozenset[Claim],
    wanted: frozenset[Claim],
    *,
    at_ms: int,
    width_ms: int,
    looked_ms: int | None,
    ticked_ms: int | None,
) -> Change:
    """What to close and open. ``looked_ms``: the last tick that knew the allocations; ``ticked_ms``: any."""
    began_ms = at_ms - width_ms
    if looked_ms is None or ticked_ms is None:
        return Change(
            closed=held - wanted, closed_at_ms=began_ms, opened=wanted - held, opened_at_ms=began_ms
        )
    if at_ms - ticked_ms > max(RESUME_MS, 3 * width_ms):
        return Change(closed=held, closed_at_ms=ticked_ms, opened=wanted, opened_at_ms=began_ms)
    if at_ms - looked_ms <= 3 * width_ms:
        began_ms = looked_ms
    return Change(
        closed=held - wanted,
        closed_at_ms=min(looked_ms, at_ms),
        opened=wanted - held,
        opened_at_ms=min(began_ms, at_ms),
    )


def write_change(connection: duckdb.DuckDBPyConnection, change: Change) -> None:
    """Close and open intervals, in the caller's transaction."""
    if change.closed:
        connection.register("closing", _table(change.closed))
        connection.execute(statement("close_allocations"), {"to_ms": change.closed_at_ms})
        connection.execute(statement("see_holders"), {"at_ms": change.closed_at_ms})
        connection.unregister("closing")
    if change.opened:
        connection.register("opening", _table(change.opened))
        connection.execute(statement("reopen_allocations"), {"from_ms": change.opened_at_ms})
        connection.execute(statement("open_allocations"), {"from_ms": change.opened_at_ms})
        connection.unregister("opening")


def set_back(connection: duckdb.DuckDBPyConnection, at_ms: int) -> None:
    """The clock was set back to ``at_ms``: what ended ahead of it has ended, what lasts has begun."""
    connection.execute(statement("clear_ahead_allocations"), {"at_ms": at_ms})
    connection.execute(statement("set_back_allocations"), {"at_ms": at_ms})


def read_open(connection: duckdb.DuckDBPyConnection) -> frozenset[Claim]:
    """The open intervals that the store has."""
    return frozenset(
        connection.execute(
            "SELECT gpu_id, holder_id, share, source FROM allocations WHERE to_ts IS NULL"
        ).fetchall()
    )


def _table(claims: frozenset[Claim]) -> pa.Table:
    columns = zip(*sorted(claims), strict=True)
    kinds = (pa.int32(), pa.int32(), pa.float64(), pa.string())
    names = ("gpu_id", "holder_id", "share", "source")
    return pa.table(
        {n: pa.array(column, type=kind) for n, kind, column in zip(names, kinds, columns, strict=True)}
    )

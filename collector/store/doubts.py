"""What attribution says of single processes, as intervals: intrusions, and claims that could not be read.

Runs inside the caller's transaction. What is there at one tick and not at the next ended at the first of the
two. After a pause longer than RESUME_MS nobody knows what went on: everything is closed at the last tick
before it, and begins again with the tick after it, as allocations do.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import duckdb

from collector.arrow import IntrudedInterval
from collector.model import (
    Process,
    ProcessKey,
)
from collector.reading import Tick
from collector.store.allocations import RESUME_MS
from collector.store.registry import Registry
from collector.store.statements import statement

Intruding = tuple[int, int]
"""GPU id, process id."""
Unread = tuple[int, str]
"""Process id, reason."""


@dataclass(slots=True, kw_only=True)
class AttributionConflicts:
    """The open intervals, and the last tick at which anybody looked (UTC ms)."""

    intruding: frozenset[Intruding]
    unread: frozenset[Unread]
    looked_ms: int | None


def read_doubts(connection: duckdb.DuckDBPyConnection, looked_ms: int | None) -> AttributionConflicts:
    """The open intervals that the store has; ``looked_ms`` is its last tick."""
    intruding = connection.execute("SELECT gpu_id, process_id FROM intrusions WHERE to_ts IS NULL").fetchall()
    unread = connection.execute(
        "SELECT process_id, reason FROM unclear_claims WHERE to_ts IS NULL"
    ).fetchall()
    return AttributionConflicts(
        intruding=frozenset((row[0], row[1]) for row in intruding),
        unread=frozenset((row[0], row[1]) for row in unread),
        looked_ms=looked_ms,
    )


def write_doubts(
    connection: duckdb.DuckDBPyConnection, registry: Registry, book: AttributionConflicts, tick: Tick
) -> None:
    """Open and close what the tick changes; a tick at which nobody looked changes nothing."""
    if tick.allocations is None:
        return
    keys = {intrusion.key for intrusion in tick.intrusions} | {key for key, _ in tick.unclear}
    ids = _process_ids(registry, keys, tick.at_ms) if keys else {}
    intruding = frozenset(
        (registry.gpu_ids[each.uuid], ids[each.key])
        for each in tick.intrusions
        if each.uuid in registry.gpu_ids
    )
    unread = frozenset((ids[key], reason) for key, reason in tick.unclear)
    last_ms = book.looked_ms if book.looked_ms is not None else tick.at_ms - tick.width_ms
    paused = tick.at_ms - last_ms > max(RESUME_MS, 3 * tick.width_ms)
    from_ms = tick.at_ms - tick.width_ms if paused else min(last_ms, tick.at_ms)
    for gpu_id, process_id in book.intruding if paused else book.intruding - intruding:
        row = {"gpu_id": gpu_id, "process_id": process_id, "to_ms": last_ms}
        connection.execute(statement("close_intrusions"), row)
    for process_id, reason in book.unread if paused else book.unread - unread:
        told = {"process_id": process_id, "reason": reason, "to_ms": last_ms}
        connection.execute(statement("close_unclear_claims"), told)
    _open(connection, intruding if paused else intruding - book.intruding, from_ms)
    _open_unread(connection, unread if paused else unread - book.unread, from_ms)
    book.intruding, book.unread, book.looked_ms = intruding, unread, tick.at_ms


def write_intruded(
    connection: duckdb.DuckDBPyConnection, registry: Registry, found: Iterable[IntrudedInterval], at_ms: int
) -> None:
    """Add the intrusions of a past; one that overlaps with what is there of the same is not added again."""
    for each in found:
        gpu_id = registry.gpu_ids.get(each.intrusion.uuid)
        if gpu_id is None:
            continue
        ids = _process_ids(registry, {each.intrusion.key}, at_ms)
        row = {"gpu_id": gpu_id, "process_id": ids[each.intrusion.key]}
        connection.execute(statement("add_intrusion"), {**row, "from_ms": each.from_ms, "to_ms": each.to_ms})


def _open(connection: duckdb.DuckDBPyConnection, found: frozenset[Intruding], from_ms: int) -> None:
    """Begin them; what ended just there, as a past that was filled in does, goes on."""
    for gpu_id, process_id in sorted(found):
        row = {"gpu_id": gpu_id, "process_id": process_id, "from_ms": from_ms, "to_ms": None}
        connection.execute(statement("add_intrusion"), row)


def _open_unread(connection: duckdb.DuckDBPyConnection, found: frozenset[Unread], from_ms: int) -> None:
    if found:
        processes, reasons = zip(*sorted(found), strict=True)
        row = {"process_ids": list(processes), "reasons": list(reasons), "from_ms": from_ms}
        connection.execute(statement("open_unclear_claims"), row)


def _process_ids(registry: Registry, keys: set[ProcessKey], at_ms: int) -> dict[ProcessKey, int]:
    """Their ids; what is known of a process already stays as it is."""
    return registry.process_ids((Process(key=key) for key in sorted(keys)), at_ms)

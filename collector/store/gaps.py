"""When nothing was measured, and why: one row a stretch of blindness, however many ticks it lasts.

Pure decisions on top, the writing below. A source that cannot be read gets its gap here, so the loop need
not make one.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import duckdb

from collector.model import (
    NODES_SOURCE,
    Gap,
    Unavailable,
)
from collector.reading import Tick
from collector.store.registry import Registry
from collector.store.statements import statement

NOT_RUNNING = "the service was not running"
_Key = tuple[str, str | None, int | None, str]


@dataclass(slots=True, kw_only=True)
class GapStore:
    """The gaps that may still go on, and when each source last ticked."""

    last_ticks: dict[str, int]
    open: dict[_Key, tuple[int, int]] = field(default_factory=dict)
    fresh: set[str] = field(default_factory=set)
    """Sources that have ticked since the store was opened."""


def stopped_gaps(last_ticks: Mapping[str, int], *, at_ms: int, width_ms: int) -> tuple[Gap, ...]:
    """A gap for each source that last ticked longer than two widths before the tick at ``at_ms`` began.

    Not of the nodes that push: they measure on while the service doesn't run, and what they miss they tell.
    """
    began_ms = at_ms - width_ms
    return tuple(
        Gap(source=source, from_ms=last_ms, to_ms=began_ms, reason=NOT_RUNNING)
        for source, last_ms in sorted(last_ticks.items())
        if began_ms - last_ms > 2 * width_ms and source != NODES_SOURCE
    )


def gaps_of(tick: Tick, book: GapStore) -> tuple[Gap, ...]:
    """All gaps that the tick brings: told ones, unreadable sources, and what the restart left."""
    started = {
        o.source: book.last_ticks[o.source] for o in tick.outcomes if _first_since_open(o.source, book)
    }
    found = [*stopped_gaps(started, at_ms=tick.at_ms, width_ms=tick.width_ms), *tick.gaps]
    for outcome in tick.outcomes:
        if isinstance(outcome, Unavailable):
            found.append(
                Gap(
                    source=outcome.source,
                    from_ms=max(book.last_ticks.get(outcome.source, 0), tick.at_ms - 2 * tick.width_ms),
                    to_ms=tick.at_ms,
                    reason=outcome.reason,
                )
            )
        else:
            found.extend(outcome.gaps)
    return tuple(found)


def write_gaps(
    connection: duckdb.DuckDBPyConnection, gaps: Iterable[Gap], registry: Registry, book: GapStore
) -> None:
    """Add gaps, or lengthen those that go on, in the caller's transaction."""
    for gap in gaps:
        gpu_id = registry.gpu_ids.get(gap.uuid) if gap.uuid is not None else None
        node = registry.names.of_node(gap.node, gap.cluster)
        key = (gap.source, node, gpu_id, gap.reason)
        known = book.open.get(key)
        row = {"source": gap.source, "node": node, "gpu_id": gpu_id, "reason": gap.reason}
        if known is not None and known[0] <= gap.from_ms <= known[1]:
            if gap.to_ms > known[1]:
                connection.execute(statement("extend_gap"), {**row, "from_ms": known[0], "to_ms": gap.to_ms})
                book.open[key] = (known[0], gap.to_ms)
            continue
        if gap.to_ms <= gap.from_ms:
            continue
        connection.execute(statement("insert_gap"), {**row, "from_ms": gap.from_ms, "to_ms": gap.to_ms})
        book.open[key] = (gap.from_ms, gap.to_ms)


def note_ticks(tick: Tick, book: GapStore) -> None:
    """Remember that these sources have ticked, and forget gaps that ended a while ago."""
    for outcome in tick.outcomes:
        book.last_ticks[outcome.source] = tick.at_ms
        book.fresh.add(outcome.source)
    horizon_ms = tick.at_ms - 3 * tick.width_ms
    book.open = {key: span for key, span in book.open.items() if span[1] >= horizon_ms}


def _first_since_open(source: str, book: GapStore) -> bool:
    return source in book.last_ticks and source not in book.fresh

"""GPUs that nobody holds and that are not free, as intervals: opens what is new, closes what is over.

Runs inside the caller's transaction. What is there at one tick and not at the next ended at the first of the
two. After a pause longer than RESUME_MS nobody knows what went on, as with allocations.
"""

from collections.abc import Iterable, Mapping

import duckdb

from collector.inventory.placement import withheld
from collector.model import (
    Gpu,
    NodeName,
    Withheld,
)
from collector.reading import Reading, Tick
from collector.store.allocations import RESUME_MS
from collector.store.statements import statement

Open = Mapping[int, tuple[str, str]]
"""The open intervals: GPU id to state and reason."""

LATELY_MS = 7 * 86_400_000
"""A node that a workload manager had a week ago it may have still; one of last year may be gone from it."""


def read_withheld(connection: duckdb.DuckDBPyConnection) -> Open:
    """The open intervals that the store has."""
    rows = connection.execute("SELECT gpu_id, state, reason FROM withheld WHERE to_ts IS NULL").fetchall()
    return {gpu_id: (state, reason) for gpu_id, state, reason in rows}


def with_unseen(tick: Tick, known: Iterable[Gpu]) -> tuple[Withheld, ...]:
    """What the tick withholds, and the GPUs ``known`` of nodes out of service that no source shows any more.

    A node that is down has no exporter that answers: its GPUs are withheld all the same. Pure.
    """
    if not tick.out_of_service:
        return tick.withheld
    readings = (outcome for outcome in tick.outcomes if isinstance(outcome, Reading))
    seen = {gpu.uuid for reading in readings for gpu in reading.gpus}
    seen |= {each.uuid for each in tick.withheld} | {each.uuid for each in tick.allocations or ()}
    return (*tick.withheld, *withheld(tick.out_of_service, (gpu for gpu in known if gpu.uuid not in seen)))


def write_withheld(
    connection: duckdb.DuckDBPyConnection,
    before: Open,
    tick: Tick,
    gpu_ids: Mapping[str, int],
    *,
    looked_ms: int | None,
) -> Open:
    """The open intervals after the tick. ``looked_ms``: the tick at which anybody looked last."""
    if tick.allocations is None:
        return before
    wanted = {
        gpu_ids[each.uuid]: (each.state.value, each.reason) for each in tick.withheld if each.uuid in gpu_ids
    }
    last_ms = tick.at_ms - tick.width_ms if looked_ms is None else min(looked_ms, tick.at_ms)
    paused = tick.at_ms - last_ms > max(RESUME_MS, 3 * tick.width_ms)
    over = [gpu_id for gpu_id, why in before.items() if paused or wanted.get(gpu_id) != why]
    new = [gpu_id for gpu_id, why in wanted.items() if paused or before.get(gpu_id) != why]
    if over:
        connection.execute(statement("close_withheld"), {"gpu_ids": over, "to_ms": last_ms})
    if new:
        row = {
            "gpu_ids": new,
            "states": [wanted[gpu_id][0] for gpu_id in new],
            "reasons": [wanted[gpu_id][1] for gpu_id in new],
            "from_ms": tick.at_ms - tick.width_ms if paused else last_ms,
        }
        connection.execute(statement("open_withheld"), row)
    return wanted


def given_out(connection: duckdb.DuckDBPyConnection, now_ms: int) -> dict[str, tuple[NodeName, ...]]:
    """The nodes whose GPUs each source of allocations gave out lately, by the source's name.

    A service that begins while Slurm is silent knows from here of whom it cannot tell.
    """
    found: dict[str, tuple[NodeName, ...]] = {}
    for source, node in connection.execute(
        statement("given_out"), {"since_ms": now_ms - LATELY_MS}
    ).fetchall():
        found[source] = (*found.get(source, ()), NodeName(node))
    return found

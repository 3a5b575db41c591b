"""Stores a stretch of the past in one piece: bulk, safe to repeat, rolled up at once.

Runs inside the caller's transaction. What a repeated history brings twice is recognised by (GPU, time) for
samples, by overlap for intervals, and by equality for the rest.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from collector.arrow import History
from collector.model import Gpu, JobId
from collector.store.accounted_users import name_told
from collector.store.allocations import read_open
from collector.store.bridges import bridges, redo_bridged
from collector.store.columns import stored_rows
from collector.store.cuts import Word, is_cut_anew
from collector.store.doubts import write_intruded
from collector.store.gaps import write_gaps
from collector.store.latest import grown, read_newest, stored_ends
from collector.store.origin import claim
from collector.store.rollups import BIN_MS, Stretch, close_finished, redo, start_marks
from collector.store.runs import named_intervals, run_at
from collector.store.silences import silences
from collector.store.standing import BOARD_GONE_MS, NODE_GONE_MS
from collector.store.statements import statement
from collector.store.ticks import Live, note_newest, note_outcomes, write_processes


def write_history(connection: duckdb.DuckDBPyConnection, live: Live, history: History) -> int:
    """The number of samples that were not there before."""
    history = _of_runs(live, history)
    first_ms, last_ms = _span(history)
    if history.gpus or len(history.samples):
        claim(connection, live.origin, history.source, first_ms)
    _register_gpus(live, history, first_ms, last_ms)
    _end_removed(connection, live, history)
    _note_idle_power(connection, live, history)
    holes = _merge_held(connection, live, history, gap_ms=_last_width_ms(history.samples, last_ms))
    for event in history.events:
        live.registry.register_uuids([event.uuid], history.source, first_ms)
        row = {
            "gpu_id": live.registry.id_at(event.uuid, event.at_ms),
            "kind": event.kind,
            "detail": event.detail,
        }
        connection.execute(statement("insert_event"), {"at_ms": event.at_ms, **row})
    write_gaps(connection, history.gaps, live.registry, live.book)
    if history.processes or history.process_samples:
        write_processes(connection, live, history.processes, history.process_samples, at_ms=last_ms)
    if history.owners:  # before the samples: what each process did is rolled up as its job's
        live.registry.note_owners(dict(history.owners))
    if history.intruded:  # before the samples: what an intruder used is not rolled up as its holder's
        at_ms = max(each.to_ms or each.from_ms for each in history.intruded)
        write_intruded(connection, live.registry, history.intruded, at_ms)
    if len(history.holder_samples):  # before the samples too: what each did is rolled up as their own
        _add_holder_samples(connection, live, history, first_ms, last_ms)
    added = _add_samples(connection, live, history, first_ms, last_ms) if len(history.samples) else 0
    if holes is not None and added:
        redo_bridged(connection, holes, (first_ms, last_ms), live.marks, live.reach)
    if added:
        connection.execute(statement("install_measured"))
        connection.execute(statement("end_replaced"))
    _note(connection, live, history, last_ms)
    return added


def _of_runs(live: Live, history: History) -> History:
    """The history with the ids that its jobs have in the store: several people may have used one."""
    told = pc.unique(history.holder_samples["job"]).to_pylist() if len(history.holder_samples) else []
    jobs = {*(i.allocation.holder.job for i in history.held), *(job for _, job in history.owners), *told}
    live.registry.known_holder_ids(jobs)
    held, several = named_intervals(history.held, live.registry.runs_of)

    def run(job: JobId, at_ms: int, uuid: str | None = None) -> JobId:
        if job in several:
            return run_at(several[job], at_ms, uuid)
        return (live.registry.runs_of(job) or [(job, None)])[-1][0]

    again = {job for job in jobs if job in several or len(live.registry.runs_of(job)) > 1}
    if not again:
        return history
    owners = tuple((key, run(job, key.started_ms) if job in again else job) for key, job in history.owners)
    samples = history.holder_samples
    if again & set(told):
        rows = zip(*(samples[name].to_pylist() for name in ("job", "at_ms", "uuid")), strict=True)
        names = [run(job, at_ms, uuid) if job in again else job for job, at_ms, uuid in rows]
        place = samples.schema.get_field_index("job")
        samples = samples.set_column(place, "job", pa.array(names, pa.string()))
    return replace(history, held=held, owners=owners, holder_samples=samples)


def _span(history: History) -> tuple[int, int]:
    """First start and last end of what the history covers, UTC ms."""
    if len(history.samples):
        ends = history.samples["at_ms"]
        starts = pc.subtract(ends, history.samples["width_ms"].cast(pa.int64()))
        return pc.min(starts).as_py(), pc.max(ends).as_py()
    edges = [edge for held in history.held for edge in (held.from_ms, held.to_ms) if edge is not None]
    edges += [event.at_ms for event in history.events]
    edges += [edge for gap in history.gaps for edge in (gap.from_ms, gap.to_ms)]
    return min(edges, default=0), max(edges, default=0)


def _register_gpus(live: Live, history: History, first_ms: int, last_ms: int) -> None:
    """A new GPU with samples counts from its first one, which adding them finds; others as told, or from
    the start.

    One that was cut otherwise before it was known is another row until then.
    """
    registry = live.registry
    measured = set(pc.unique(history.samples["uuid"]).to_pylist()) if len(history.samples) else set()
    for gpu in history.gpus:
        known = registry.since(gpu.uuid)
        if known is not None and known[1] >= last_ms and gpu.uuid in measured and is_cut_anew(known[0], gpu):
            registry.register_former(gpu, history.source, last_ms, known[1] // BIN_MS * BIN_MS)
    decide = partial(_cut_ms, live, history)
    since: dict[int, list[Gpu]] = {last_ms: []}
    for gpu in history.gpus:
        told_ms = last_ms if gpu.uuid in measured else history.installed_ms.get(gpu.uuid, first_ms)
        since.setdefault(max(first_ms, told_ms), []).append(gpu)
    for at_ms, gpus in sorted(since.items(), reverse=True):
        registry.register_gpus(gpus, history.source, at_ms, decide)


def _end_removed(connection: duckdb.DuckDBPyConnection, live: Live, history: History) -> None:
    """End the time of GPUs that were taken out; of one of which more was measured later it goes on."""
    for uuid, to_ms in history.removed_ms.items():
        if uuid in live.registry.gpu_ids:
            connection.execute(statement("end_removed"), {"uuid": uuid, "to_ms": to_ms})


def _note_idle_power(connection: duckdb.DuckDBPyConnection, live: Live, history: History) -> None:
    """Keep what GPUs are told to draw when idle, before their samples are judged by it."""
    for uuid, power_mw in history.idle_power_mw.items():
        if uuid in live.registry.gpu_ids:
            connection.execute(statement("note_idle_power"), {"uuid": uuid, "power_mw": power_mw})


def _cut_ms(live: Live, history: History, old: Gpu, _: Word, fresh: Mapping[str, Gpu]) -> int | None:
    """When in the history a GPU was cut as it is at its end; ``None`` where more is known of it already."""
    first_ms, _last_ms = _span(history)
    gpu_id = live.registry.gpu_ids[old.uuid]
    if gpu_id < len(live.newest_ms) and live.newest_ms[gpu_id] > first_ms:
        return None
    own = [uuid for uuid, gpu in fresh.items() if gpu.parent_uuid == old.uuid]
    rows = history.samples.filter(pc.is_in(history.samples["uuid"], pa.array(own, pa.string())))
    start_ms = _span(replace(history, samples=rows))[0] if len(rows) else first_ms
    return start_ms // BIN_MS * BIN_MS


def _add_samples(
    connection: duckdb.DuckDBPyConnection, live: Live, history: History, first_ms: int, last_ms: int
) -> int:
    ids = live.registry.row_ids(history.samples, history.source, last_ms)
    rows = stored_rows(history.samples, ids)
    gpu_ids = tuple(sorted(pc.unique(rows["gpu_id"]).to_pylist()))
    live.recent_ms = 0
    live.note_widths(pc.max(rows["width_ms"]).as_py())
    live.registry.install_earlier(rows)
    silent = _silences(live, rows)
    connection.register("incoming", rows)
    bounds = {"from_ms": first_ms, "to_ms": last_ms, "kept_ms": live.marks.samples_from_ms}
    counted = connection.execute(statement("insert_history"), bounds).fetchone()
    connection.execute(statement("add_told_latest"))
    connection.unregister("incoming")
    live.newest = read_newest(connection)
    live.newest_ms = stored_ends(connection, live.newest)
    if live.marks.minutes_to_ms is None:
        live.marks = start_marks(connection, first_ms)
    stretch = Stretch(from_ms=first_ms, to_ms=last_ms, gpu_ids=gpu_ids)
    redo(connection, stretch, live.marks, live.reach)
    if silent:
        back = tuple(gpu_id for gpu_id, _, _ in silent)
        before = Stretch(from_ms=min(from_ms for _, from_ms, _ in silent), to_ms=first_ms, gpu_ids=back)
        redo(connection, before, live.marks, live.reach)
    live.marks = close_finished(connection, live.marks, at_ms=last_ms, reach=live.reach)
    left_out = {"source": history.source, "node_ms": NODE_GONE_MS, "board_ms": BOARD_GONE_MS}
    connection.execute(statement("end_unlisted_past"), left_out)
    return int(counted[0]) if counted else 0


def _silences(live: Live, rows: pa.Table) -> list[tuple[int, int, int]]:
    """GPUs that were silent from their newest sample so far until the first of these."""
    ids = rows["gpu_id"].to_numpy()
    starts = rows["ts"].cast(pa.int64()).to_numpy() // 1000 - rows["width_ms"].to_numpy()
    gpu_ids, place = np.unique(ids, return_inverse=True)
    first = np.full(len(gpu_ids), np.iinfo(np.int64).max)
    np.minimum.at(first, place, starts)
    if not len(gpu_ids):
        return []
    return silences(grown(live.newest_ms, int(gpu_ids[-1])), gpu_ids, first, longest_ms=None)


def _add_holder_samples(
    connection: duckdb.DuckDBPyConnection, live: Live, history: History, first_ms: int, last_ms: int
) -> None:
    """Append what holders did; a holder that no allocation names is nobody's to charge."""
    told = history.holder_samples
    jobs = pc.unique(told["job"]).to_pylist()
    known = live.registry.known_holder_ids(jobs)
    told = told.filter(pc.is_in(told["job"], pa.array(list(known), pa.string())))
    incoming = pa.table(
        {
            "at_ms": told["at_ms"],
            "gpu_id": live.registry.row_ids(told, history.source, last_ms),
            "holder_id": pa.array([known[job] for job in told["job"].to_pylist()], pa.int32()),
            "width_ms": told["width_ms"],
            "gpu_utilization_e4": pc.round(pc.multiply(told["gpu_utilization_ratio"], 1e4)).cast(pa.int16()),
            "memory_used_bytes": told["memory_used_bytes"],
        }
    )
    connection.register("incoming", incoming)
    bounds = {"from_ms": first_ms, "to_ms": last_ms}
    connection.execute(statement("insert_past_holder_samples"), bounds)
    connection.unregister("incoming")


def _last_width_ms(samples: pa.Table, last_ms: int) -> int:
    """The width of the newest sample; 0 where there is none."""
    newest = samples.filter(pc.equal(samples["at_ms"], last_ms)) if len(samples) else samples
    return int(pc.max(newest["width_ms"]).as_py()) if len(newest) else 0


def _merge_held(
    connection: duckdb.DuckDBPyConnection, live: Live, history: History, *, gap_ms: int
) -> pa.Table | None:
    """Add who held what; the holes that were bridged, if anything was held."""
    held = history.held
    if not held:
        return None
    allocations = [interval.allocation for interval in held]
    first_ms = min(interval.from_ms for interval in held)
    live.registry.register_uuids({a.uuid for a in allocations}, "allocations", first_ms)
    since_ms: dict[str, int] = {}
    for interval in held:  # one history may be of a thousand nodes: each job is as old as its own first hold
        job = interval.allocation.holder.job
        since_ms[job] = min(interval.from_ms, since_ms.get(job, interval.from_ms))
    named = {a.holder.job: a.holder for a in allocations}.values()
    holders = live.registry.holder_ids(named, first_ms, since_ms)
    parts = [
        (interval.allocation, *span)
        for interval in held
        for span in live.registry.cuts.spans(
            live.registry.gpu_ids[interval.allocation.uuid], interval.from_ms, interval.to_ms
        )
    ]
    table = pa.table(
        {
            "gpu_id": pa.array([gpu_id for _, gpu_id, _, _ in parts], pa.int32()),
            "holder_id": pa.array([holders[a.holder.job] for a, *_ in parts], pa.int32()),
            "share": pa.array([a.share for a, *_ in parts], pa.float64()),
            "source": pa.array([a.source.value for a, *_ in parts], pa.string()),
            "from_ms": pa.array([from_ms for _, _, from_ms, _ in parts], pa.int64()),
            "to_ms": pa.array([to_ms for *_, to_ms in parts], pa.int64()),
        }
    )
    holes = bridges(connection, table, history, {gpu_id: a.uuid for a, gpu_id, _, _ in parts})
    connection.register("incoming", pa.concat_tables([table, holes]))
    connection.execute(statement("merge_allocations"), {"gap_ms": gap_ms})
    connection.execute(statement("clear_merged_allocations"))
    connection.execute("INSERT INTO allocations BY NAME SELECT * FROM merged_allocations")
    connection.execute("DROP TABLE merged_allocations")
    connection.unregister("incoming")
    name_told(connection, live.registry, named)
    live.held = read_open(connection)
    live.said = None
    return holes


def _note(connection: duckdb.DuckDBPyConnection, live: Live, history: History, last_ms: int) -> None:
    """Leave a tick at the history's end: up to here the source is known, and no gap is to be told."""
    if live.book.last_ticks.get(history.source, -1) >= last_ms:
        return
    row = {"source": history.source, "duration_ms": 0.0, "gpus": len(history.gpus), "reason": None}
    note_outcomes(connection, last_ms, [row])
    live.book.last_ticks[history.source] = last_ms
    if live.ticked_ms is None or last_ms > live.ticked_ms:
        note_newest(connection, last_ms)
    live.ticked_ms = max(live.ticked_ms or last_ms, last_ms)
    live.looked_ms = max(live.looked_ms or last_ms, last_ms)

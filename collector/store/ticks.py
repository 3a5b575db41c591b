"""What one tick changes in the store, inside the caller's transaction.

``Live`` is the store's memory of where things stand; when a transaction fails it is read anew, because it
may have run ahead of what was committed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import duckdb
import numpy as np
import pyarrow as pa

from collector.arrow import fitting, to_table
from collector.model import (
    Allocation,
    Holder,
    HolderSample,
    JobId,
    Process,
    ProcessKey,
    ProcessSample,
)
from collector.reading import Reading, Tick
from collector.store.accounted_users import check_opened
from collector.store.allocations import (
    RESUME_MS,
    Claim,
    Said,
    change,
    claims_of,
    read_open,
    said_by,
    set_back,
    write_change,
)
from collector.store.columns import ratio_e4, stored_rows
from collector.store.cuts import due_ms
from collector.store.gaps import GapStore, gaps_of, note_ticks, write_gaps
from collector.store.holder_samples import write_holder_samples
from collector.store.latest import Newest, Times, ends_by, follow, grown, read_newest, stored_ends
from collector.store.managed import Managed, read_managed, write_looks
from collector.store.origin import OriginMark, claim, read_mark
from collector.store.registry import Registry
from collector.store.rollups import (
    Marks,
    Reach,
    Stretch,
    close_finished,
    reach_of,
    read_marks,
    redo,
    start_marks,
)
from collector.store.runs import Naming, run_now
from collector.store.silences import silences
from collector.store.statements import feed, statement
from collector.store.withheld import Open, read_withheld, with_unseen, write_withheld

LEAST_WIDTH_MS = 10_000
_Ids = np.ndarray[tuple[int], np.dtype[np.int32]]


@dataclass(slots=True, kw_only=True)
class Live:
    """Where things stand: ids, open intervals, newest samples, marks."""

    registry: Registry
    held: frozenset[Claim]
    looked_ms: int | None
    ticked_ms: int | None
    marks: Marks
    newest: Newest
    newest_ms: Times
    """When each GPU's last stored sample ended; ahead of ``newest`` until the tick is written, and after the
    clock was set back until it is there again."""
    widest_ms: int
    book: GapStore
    origin: OriginMark
    withheld: Open = field(default_factory=dict)
    managed: Managed = field(default_factory=Managed)
    said: Said | None = None
    several: Mapping[JobId, Mapping[str, JobId]] = field(default_factory=dict)
    """Of ids that several people used, the run that each GPU has; see ``runs``."""
    owned: Mapping[ProcessKey, JobId] = field(default_factory=dict)
    recent_ms: int = 0

    @property
    def reach(self) -> Reach:
        """How far around a stretch samples matter now."""
        return reach_of(self.widest_ms, max(self.recent_ms, LEAST_WIDTH_MS))

    def note_widths(self, widest_ms: int) -> None:
        """Remember how wide the samples are that came now."""
        self.recent_ms = max(self.recent_ms, widest_ms)
        self.widest_ms = max(self.widest_ms, widest_ms)


def read_live(connection: duckdb.DuckDBPyConnection) -> Live:
    """What the file says; costs a look at the small tables."""
    last_ticks = dict(connection.execute(statement("last_ticks")).fetchall())
    ticked_ms = max(last_ticks.values(), default=None)
    newest = read_newest(connection)
    return Live(
        registry=Registry(connection),
        held=read_open(connection),
        looked_ms=ticked_ms,
        ticked_ms=ticked_ms,
        marks=read_marks(connection),
        newest=newest,
        newest_ms=stored_ends(connection, newest),
        widest_ms=_widest_ms(connection),
        book=GapStore(last_ticks=last_ticks),
        origin=read_mark(connection),
        withheld=read_withheld(connection),
        managed=read_managed(connection),
    )


def write_tick(connection: duckdb.DuckDBPyConnection, live: Live, tick: Tick) -> None:
    """Everything that the tick brings: dimensions, samples, intervals, gaps; late samples' roll-ups."""
    live.recent_ms = 0
    readings = [outcome for outcome in tick.outcomes if isinstance(outcome, Reading)]
    late = [_write_reading(connection, live, reading, tick) for reading in readings]
    late += _cut_anew(live, tick.at_ms)
    live.newest = follow(connection, live.newest, ends_by(connection, live.newest_ms, tick.at_ms))
    if live.ticked_ms is not None and tick.at_ms < live.ticked_ms:
        set_back(connection, tick.at_ms)
    live.withheld = write_withheld(
        connection,
        live.withheld,
        replace(tick, withheld=with_unseen(tick, live.registry.gpus)),
        live.registry.gpu_ids,
        looked_ms=live.looked_ms,
    )
    _write_allocations(connection, live, tick)
    _write_owners(live, tick)
    told = [sample for reading in readings for sample in reading.holder_samples]
    write_holder_samples(connection, live.registry, _of_runs(live, told))
    write_looks(connection, live.managed, readings, tick.at_ms)
    write_gaps(connection, gaps_of(tick, live.book), live.registry, live.book)
    note_ticks(tick, live.book)
    _write_outcomes(connection, tick)
    if not tick.is_after_all:
        note_newest(connection, tick.at_ms)
    for stretch in late:
        if stretch is not None:
            redo(connection, stretch, live.marks, live.reach)
    live.ticked_ms = tick.at_ms


def close_minutes(connection: duckdb.DuckDBPyConnection, live: Live, at_ms: int) -> None:
    """Roll up what is complete at ``at_ms``; for a transaction of its own, after the tick's.

    A crash between the two loses nothing: the watermark says what is missing, and the next tick adds it.
    """
    live.marks = close_finished(connection, live.marks, at_ms=at_ms, reach=live.reach)


def add_samples(connection: duckdb.DuckDBPyConnection, live: Live, stored: pa.Table) -> Stretch | None:
    """Append rows of the table ``samples``; a (GPU, time) that is there stays as it is.

    Returns the stretch before the marks that must be rolled up again, if any.
    """
    rows, ids, ends = _distinct(stored)
    live.newest_ms = grown(live.newest_ms, int(ids.max()))
    widths = rows["width_ms"].to_numpy()
    starts = ends - widths
    live.note_widths(int(widths.max()))
    early = starts < live.registry.installed_ms[ids]
    if early.any():
        live.registry.install_earlier(rows.filter(pa.array(early)))
    if live.marks.minutes_to_ms is None:
        live.marks = start_marks(connection, int(starts.min()))
    ahead = ends > live.newest_ms[ids]
    mark_ms = live.marks.minutes_to_ms or 0
    back = [span for span in silences(live.newest_ms, ids, starts) if span[1] < mark_ms]
    if ahead.all():
        _append(connection, live, rows, ids, ends)
    elif ahead.any():
        _append(connection, live, rows.filter(pa.array(ahead)), ids[ahead], ends[ahead])
    before = ahead & (starts < mark_ms)
    spans = back + list(
        zip(ids[before].tolist(), starts[before].tolist(), ends[before].tolist(), strict=True)
    )
    if not ahead.all():
        late = _insert_late(connection, rows.filter(pa.array(~ahead)), ends[~ahead], live.marks)
        spans += [span for span in late if span[1] < mark_ms]
    return _stretch(spans)


def _write_reading(
    connection: duckdb.DuckDBPyConnection, live: Live, reading: Reading, tick: Tick
) -> Stretch | None:
    began_ms = tick.at_ms - tick.width_ms
    if reading.gpus or reading.samples:
        claim(connection, live.origin, reading.source, tick.at_ms)
    rivals = frozenset(outcome.source for outcome in tick.outcomes) - {reading.source}
    decide = partial(due_ms, connection, live.registry.cuts, samples=reading.samples)
    live.registry.register_gpus(reading.gpus, reading.source, began_ms, decide, rivals)
    late = None
    if reading.samples:
        samples = to_table(reading.samples)
        ids = live.registry.row_ids(samples, reading.source, began_ms)
        late = add_samples(connection, live, stored_rows(samples, ids))
    if reading.processes is not None or reading.process_samples is not None:
        write_processes(
            connection, live, reading.processes or (), reading.process_samples or (), at_ms=tick.at_ms
        )
    for event in reading.events:
        live.registry.register_uuids([event.uuid], reading.source, began_ms)
        row = {
            "gpu_id": live.registry.id_at(event.uuid, event.at_ms),
            "kind": event.kind,
            "detail": event.detail,
        }
        connection.execute(statement("insert_event"), {"at_ms": event.at_ms, **row})
    return late


def _cut_anew(live: Live, at_ms: int) -> list[Stretch]:
    """What must be rolled up again of GPUs that the tick cut anew; who holds them is said anew."""
    made, live.registry.cuts.made = live.registry.cuts.made, []
    if made:
        live.said = None
    return [Stretch(from_ms=one.until_ms, to_ms=at_ms, gpu_ids=(one.gpu_id,)) for one in made]


def write_processes(
    connection: duckdb.DuckDBPyConnection,
    live: Live,
    processes: tuple[Process, ...],
    samples: tuple[ProcessSample, ...],
    *,
    at_ms: int,
) -> None:
    """Register processes and append what they did; a sample of an undescribed process registers its key."""
    described = {process.key: process for process in processes}
    bare = {s.key: Process(key=s.key) for s in samples if s.key not in described}
    ids = live.registry.process_ids([*described.values(), *bare.values()], at_ms)
    if not samples:
        return
    live.registry.register_uuids({s.uuid for s in samples}, "processes", at_ms)
    id_at = live.registry.id_at
    table = pa.table(
        {
            "at_ms": pa.array([s.at_ms for s in samples], pa.int64()),
            "gpu_id": pa.array([id_at(s.uuid, s.at_ms) for s in samples], pa.int32()),
            "process_id": pa.array([ids[s.key] for s in samples], pa.int32()),
            "width_ms": pa.array([s.width_ms for s in samples], pa.int32()),
            "process_type": pa.array([s.type.value for s in samples], pa.string()),
            "memory_used_bytes": pa.array(
                fitting([s.memory_used_bytes for s in samples], pa.int64()), pa.int64()
            ),
            "sm_e4": pa.array([ratio_e4(s.sm_ratio) for s in samples], pa.int16()),
        }
    )
    feed(connection, "insert_process_samples", table)


def _write_allocations(connection: duckdb.DuckDBPyConnection, live: Live, tick: Tick) -> None:
    if tick.allocations is None:
        return
    said = said_by(tick.allocations)
    paused = live.ticked_ms is None or tick.at_ms - live.ticked_ms > max(RESUME_MS, 3 * tick.width_ms)
    if said == live.said and not paused:
        live.looked_ms = tick.at_ms
        return
    live.said = said
    began_ms = tick.at_ms - tick.width_ms
    live.registry.register_uuids(said.uuids, "allocations", began_ms)
    allocations = _named(live, tick.allocations, began_ms, paused=paused)
    holders: dict[str, Holder] = {a.holder.job: a.holder for a in allocations}
    ids = live.registry.holder_ids(holders.values(), tick.at_ms)
    wanted = claims_of(allocations, live.registry.gpu_ids, ids)
    decided = change(
        live.held,
        wanted,
        at_ms=tick.at_ms,
        width_ms=tick.width_ms,
        looked_ms=live.looked_ms,
        ticked_ms=live.ticked_ms,
    )
    write_change(connection, decided)
    check_opened(connection, live.registry, decided.opened, holders)
    live.held = wanted
    live.looked_ms = tick.at_ms


def _named(live: Live, allocations: Sequence[Allocation], since_ms: int, *, paused: bool) -> list[Allocation]:
    """The allocations under the ids that their jobs have in the store; all GPUs are registered."""
    registry = live.registry
    known = registry.known_holder_ids({each.holder.job for each in allocations})
    held = set() if paused else {(gpu_id, holder_id) for gpu_id, holder_id, _, _ in live.held}

    def goes_on(job: JobId, uuid: str) -> bool:
        holder_id = known.get(job) or registry.known_holder_ids([job]).get(job)
        return (registry.gpu_ids[uuid], holder_id) in held

    naming = Naming(registry.runs_of, goes_on)
    named = [naming.named(each, since_ms) for each in allocations]
    live.several = {**live.several, **naming.several}
    return named


def _of_runs(live: Live, samples: list[HolderSample]) -> list[HolderSample]:
    if not live.several:
        return samples
    return [replace(each, job=run_now(live.several, each.job, each.uuid)) for each in samples]


def _write_owners(live: Live, tick: Tick) -> None:
    """Note whose each process is, where that is news; a process not yet registered is news until it is."""
    if tick.allocations is None:
        return
    owners = {key: run_now(live.several, job) for key, job in tick.owners}
    news = {key: job for key, job in owners.items() if live.owned.get(key) != job}
    ids = live.registry.note_owners(news)
    live.owned = {key: job for key, job in owners.items() if key not in news or key in ids}


def _write_outcomes(connection: duckdb.DuckDBPyConnection, tick: Tick) -> None:
    rows = [
        {
            "source": outcome.source,
            "duration_ms": outcome.duration_ms,
            "gpus": len(outcome.samples) if isinstance(outcome, Reading) else 0,
            "reason": None if isinstance(outcome, Reading) else outcome.reason,
        }
        for outcome in tick.outcomes
    ]
    note_outcomes(connection, tick.at_ms, rows)


def note_outcomes(
    connection: duckdb.DuckDBPyConnection, at_ms: int, rows: Sequence[Mapping[str, object]]
) -> None:
    """How sources did (source, duration_ms, gpus, reason), in one statement: there may be hundreds."""
    if rows:
        columns = {name: [row[name] for row in rows] for name in ("source", "duration_ms", "gpus", "reason")}
        connection.execute(statement("insert_ticks"), {"at_ms": at_ms, **columns})


def note_newest(connection: duckdb.DuckDBPyConnection, at_ms: int) -> None:
    """This tick came last, whether or not anything was measured in it."""
    connection.execute(statement("set_newest_tick"), {"at_ms": at_ms})


def _distinct(
    rows: pa.Table,
) -> tuple[pa.Table, _Ids, Times]:
    """The rows without repeated (GPU, time), the first kept, with their ids and end times in ms."""
    ids = rows["gpu_id"].to_numpy()
    ends = rows["ts"].cast(pa.int64()).to_numpy() // 1000
    if np.bincount(ids).max() == 1:
        return rows, ids, ends
    # One number for both: 42 bits hold milliseconds until the year 2109, and leave 21 for two million GPUs.
    _, first = np.unique(ids.astype(np.int64) << 42 | ends, return_index=True)
    keep = np.sort(first)
    return rows.take(pa.array(keep)), ids[keep], ends[keep]


def _append(
    connection: duckdb.DuckDBPyConnection, live: Live, fresh: pa.Table, ids: _Ids, ends: Times
) -> None:
    """Append rows newer than all that is stored of their GPUs."""
    feed(connection, "insert_samples", fresh)
    np.maximum.at(live.newest_ms, ids, ends)


def _insert_late(
    connection: duckdb.DuckDBPyConnection,
    rows: pa.Table,
    ends: Times,
    marks: Marks,
) -> list[tuple[int, int, int]]:
    connection.register("incoming", rows)
    bounds = {"from_ms": int(ends.min()), "to_ms": int(ends.max()), "kept_ms": marks.samples_from_ms}
    added = connection.execute(statement("insert_late_samples"), bounds).fetchall()
    connection.unregister("incoming")
    return added


def _stretch(spans: list[tuple[int, int, int]]) -> Stretch | None:
    if not spans:
        return None
    return Stretch(
        from_ms=min(span[1] for span in spans),
        to_ms=max(span[2] for span in spans),
        gpu_ids=tuple(sorted({span[0] for span in spans})),
    )


def _widest_ms(connection: duckdb.DuckDBPyConnection) -> int:
    row = connection.execute(
        "SELECT greatest((SELECT max(width_ms) FROM samples), (SELECT max(widest_ms) FROM sealed))"
    ).fetchone()
    return int(row[0] or 0) if row else 0

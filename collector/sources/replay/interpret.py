"""Raw rows to a recording, as a mapping says; whatever makes no sense is refused row by row. Pure."""

from collections.abc import Iterable, Iterator
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from collector.arrow import SAMPLE_SCHEMA, HeldInterval
from collector.metrics import METRICS
from collector.model import Allocation, Basis, ClaimSource, Gap, Gpu, GpuUuid, Holder, JobId, NodeName
from collector.sources.replay.cells import cell, is_missing, moments, names, numbers, words
from collector.sources.replay.errors import SET_BACK, BadMapping, Fault, RecordingUseless, Refused, refused
from collector.sources.replay.file import Raw
from collector.sources.replay.instants import HOLE_WIDTHS, of_one_instant, usual_step_ms
from collector.sources.replay.mapping import ColumnMapping, HolderColumns, Measure, require_columns
from collector.sources.replay.recording import Recording
from collector.sources.replay.set_back import SetBack, overlapping, summed
from collector.sources.replay.shared_rows import SharedRows, holder_samples, merged
from collector.sources.replay.xid_events import xid_events

USUAL_WIDTH_MS = 60_000
"""The width of rows when neither the mapping nor a second row says."""
_EARLIEST_MS, _LATEST_MS = 946_684_800_000, 4_102_444_800_000  # 2000 and 2100
_AHEAD_MS = 86_400_000  # a time without a zone may be 14 hours ahead of UTC
_SLACK = 0.005  # exporters round: 100.3% is 1, 140% is nonsense
_MOST = {metric.name: metric.most for metric in METRICS if metric.most is not None}
_LEAST = {"temperature_c": -100.0, "width_ms": 1.0}
_PREFIX = {ClaimSource.KUBERNETES: "pod:", ClaimSource.SLURM: "slurm:"}

Marks = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]
Places = npt.NDArray[np.int64]
_T = TypeVar("_T")


def interpret(raw: Raw, mapping: ColumnMapping, path: str, now_ms: int | None = None) -> Recording:
    """The recording in ``raw``, without rows of after ``now_ms``. Raises BadMapping and RecordingUseless."""
    require_columns(mapping, raw.table.column_names, path)
    rows = _Rows(raw, mapping)
    rows.refuse_unplaced()
    _plausible(rows, mapping, path)
    rows.refuse_far(now_ms)
    rows.refuse_set_back()
    measured = {m.field: rows.measure(m) for m in mapping.measures}
    rows.join_instants()
    shared = rows.merge_holders(measured)
    if not rows.good.any():
        raise RecordingUseless(f"replaying {path}: no row made sense; {refused(rows.all_faults())}")
    kept = np.flatnonzero(rows.good)
    kept = kept[np.argsort(rows.at_ms[kept], kind="stable")]
    width = measured.pop("width_ms", np.full(len(rows.good), np.nan))
    placed = np.union1d(kept, np.array(rows.malformed, np.int64))  # who made no sense tells the step too
    step_ms = usual_step_ms(rows.gpu_codes[placed], rows.at_ms[placed])
    usual = mapping.width_ms or step_ms or USUAL_WIDTH_MS
    widths = np.where(np.isnan(width), usual, width).astype(np.int32)
    width_ms = widths[kept]
    samples = _table(rows, kept, width_ms, {name: values[kept] for name, values in measured.items()})
    skipped = refused(rows.all_faults(), rows.set_back)
    jobs = rows.job_names()
    return Recording(
        path=path,
        samples=samples,
        gpus=tuple(_gpus(rows, kept, mapping)),
        held=() if mapping.holder is None else tuple(_held(rows, shared, widths, mapping.holder, jobs)),
        holder_samples=holder_samples(shared, rows.uuids, jobs, rows.at_ms, widths),
        events=tuple(xid_events(samples)),
        gaps=(
            *_notice(skipped, int((rows.at_ms[kept] - width_ms).min()), usual),
            *_gaps(rows, kept, width_ms, usual),
        ),
        refused=skipped,
    )


class _Rows:
    """The rows of a file while they are being judged: ``good`` shrinks, ``faults`` grow."""

    def __init__(self, raw: Raw, mapping: ColumnMapping) -> None:
        self.raw = raw
        self.good: Marks = np.ones(raw.table.num_rows, np.bool_)
        self.faults: list[Fault] = []
        self.mapping = mapping
        time = raw.table[mapping.time]
        self.times = moments(time) if mapping.time_unit_ms is None else numbers(time)
        exact = self.times.values * (mapping.time_unit_ms or 1.0) + mapping.origin_ms
        self.at_ms = np.rint(np.nan_to_num(exact, nan=0.0)).astype(np.int64)
        self.nodes: pa.Array = _nodes(raw.table, mapping)
        self.uuids: pa.Array = _uuids(raw.table, mapping, self.nodes)
        codes = self.uuids.dictionary_encode().indices
        self.gpu_codes: Places = pc.fill_null(codes, -1).to_numpy(zero_copy_only=False).astype(np.int64)
        self.jobs: Places = _jobs(raw.table, mapping)
        self.malformed: list[int] = []
        self.set_back: tuple[SetBack, ...] = ()

    def all_faults(self) -> Iterable[Fault]:
        return (*self.raw.faults, *self.faults)

    def refuse(self, which: Marks, column: str, says: str, *, placed: bool = True) -> None:
        for row in np.flatnonzero(which & self.good):
            if placed:
                self.malformed.append(int(row))
            found = cell(self.raw.table[column], int(row))
            self.faults.append(
                Fault(
                    line=int(self.raw.lines[row]),
                    reason=f"{column}: {found!r} {says}",
                    uuid=self.uuids[int(row)].as_py() if placed else None,
                    at_ms=int(self.at_ms[row]) if placed else None,
                )
            )
        self.good &= ~which

    def refuse_unplaced(self) -> None:
        """Rows without a time or a GPU belong nowhere."""
        self.refuse(self.times.bad | self.times.missing, self.mapping.time, "is no time", placed=False)
        missing = pc.is_null(self.uuids).to_numpy(zero_copy_only=False)
        self.refuse(missing, self.mapping.gpu, "names no GPU", placed=False)

    def refuse_far(self, now_ms: int | None) -> None:
        """A time that was never set, or is yet to come, would stretch the recording over years."""
        far = (self.at_ms < _EARLIEST_MS) | (self.at_ms > _LATEST_MS)
        self.refuse(far, self.mapping.time, "lies outside the years 2000 to 2100", placed=False)
        ahead = self.at_ms > (now_ms or _LATEST_MS) + _AHEAD_MS
        self.refuse(ahead, self.mapping.time, "is yet to come: a clock leapt", placed=False)

    def refuse_set_back(self) -> None:
        """Of two stretches of a log that have one time, as after its clock was set back, the first counts."""
        over, steps = overlapping(self.gpu_codes, self.jobs, self.at_ms, self.good)
        self.set_back = tuple(summed(steps, self.at_ms, over, self.raw.lines))
        self.refuse(over, self.mapping.time, SET_BACK, placed=False)

    def measure(self, measure: Measure) -> Floats:
        """The field's values, NaN where not measured; rows with nonsense are refused."""
        column = numbers(self.raw.table[measure.column])
        self.refuse(column.bad, measure.column, "is no number")
        values = column.values * measure.factor
        low, high = _bounds(measure.field)
        with np.errstate(invalid="ignore"):
            outside = (values < low - _SLACK) | (values > high + _SLACK)
        self.refuse(outside, measure.column, f"is out of range for {measure.field}")
        clipped: Floats = np.clip(values, low, high)
        return clipped

    def job_names(self) -> list[str | None]:
        """Whose each row is, as a job's id; ``None`` where it names nobody."""
        holder = self.mapping.holder
        if holder is None:
            return [None] * len(self.good)
        prefix = _PREFIX.get(holder.source, "replay:")
        named = names(self.raw.table[holder.job]).to_pylist()
        return [name if name is None or ":" in name else prefix + name for name in named]

    def join_instants(self) -> None:
        """Give the rows of several holders of one GPU that were read in one interval one time."""
        good = np.flatnonzero(self.good)
        width_ms = self.mapping.width_ms
        self.at_ms[good] = of_one_instant(self.gpu_codes[good], self.jobs[good], self.at_ms[good], width_ms)

    def merge_holders(self, measured: dict[str, Floats]) -> SharedRows:
        """Make one sample of the rows that name several holders of one GPU and time, and keep what is theirs.

        Of two rows of one GPU, time and holder the first counts.
        """
        rows, moment = self.by_moment(np.flatnonzero(self.good))
        same = (np.diff(moment) == 0) & (np.diff(self.jobs[rows]) == 0)
        repeated = np.zeros(len(self.good), np.bool_)
        repeated[rows[1:][same]] = True
        self.refuse(repeated, self.mapping.time, "was there before for this GPU", placed=False)
        self._refuse_beside_malformed()
        rows, moment = self.by_moment(np.flatnonzero(self.good))
        shared = merged(rows, moment, self.jobs, measured, self.mapping.memory_total_bytes)
        self.good[shared.others] = False
        return shared

    def by_moment(self, rows: Places) -> tuple[Places, Places]:
        """``rows`` by GPU, time and job, then as in the file; and a number for each GPU and time, from 0."""
        codes, at_ms = self.gpu_codes[rows], self.at_ms[rows]
        order = np.lexsort((rows, self.jobs[rows], at_ms, codes))
        new = (np.diff(codes[order], prepend=-2) != 0) | (np.diff(at_ms[order], prepend=-1) != 0)
        return rows[order], np.cumsum(new) - 1

    def _refuse_beside_malformed(self) -> None:
        """Where one holder's row was refused, the others would have its part of the GPU too."""
        rows = np.flatnonzero(self.good)
        places, moment = self.by_moment(np.concatenate([rows, np.array(self.malformed, np.int64)]))
        spoiled = np.isin(moment, moment[~self.good[places]])
        beside = np.zeros(len(self.good), np.bool_)
        for number in np.unique(moment[spoiled]):
            members = places[moment == number]
            if len(np.unique(self.jobs[members])) > 1:
                beside[members] = True
        self.refuse(beside, self.mapping.time, "is beside a malformed row of this GPU and time")


def _plausible(rows: _Rows, mapping: ColumnMapping, path: str) -> None:
    if not rows.good.any():
        return
    middle = int(np.median(rows.at_ms[rows.good]))
    if not _EARLIEST_MS <= middle <= _LATEST_MS:
        raise BadMapping(
            f"replaying {path}: the column {mapping.time!r} gives the year "
            f"{1970 + middle / 31_556_952_000:.0f}. If it counts from a start, give time an origin, such as "
            'origin = "2026-03-02T00:00:00Z"; if not, correct its unit (ms, s or iso).'
        )


def _bounds(field: str) -> tuple[float, float]:
    if field.endswith("_ratio"):
        return 0.0, 1.0
    bits = SAMPLE_SCHEMA.field(field).type.bit_width
    most = 2.0**53 if bits == 64 else float(2 ** (bits - 1) - 1)
    return _LEAST.get(field, 0.0), _MOST.get(field, most)


def _table(
    rows: _Rows, kept: Places, width_ms: npt.NDArray[np.int32], measured: dict[str, Floats]
) -> pa.Table:
    columns: dict[str, pa.Array] = {
        "uuid": rows.uuids.take(pa.array(kept)),
        "at_ms": pa.array(rows.at_ms[kept]),
        "width_ms": pa.array(width_ms),
    }
    for name, values in measured.items():
        kind = SAMPLE_SCHEMA.field(name).type
        whole = values if pa.types.is_floating(kind) else np.rint(values)
        columns[name] = pa.array(whole, mask=np.isnan(values), type=pa.float64()).cast(kind)
    if "flags" in rows.raw.table.column_names:
        columns["flags"] = words(rows.raw.table["flags"]).take(pa.array(kept))
    if "utilization_ratio" not in columns:
        columns |= _best(columns, len(kept))
    arrays = [columns.get(f.name, pa.nulls(len(kept), f.type)) for f in SAMPLE_SCHEMA]
    return pa.Table.from_arrays(
        [a.cast(f.type) for a, f in zip(arrays, SAMPLE_SCHEMA, strict=True)], schema=SAMPLE_SCHEMA
    )


def _best(columns: dict[str, pa.Array], count: int) -> dict[str, pa.Array]:
    """The utilization on the highest rung that each row has, and the rung."""
    best, rung = pa.nulls(count, pa.float32()), pa.array(np.zeros(count, np.uint8))
    for name, step in (
        ("sm_active_ratio", Basis.SM_ACTIVE),
        ("graphics_active_ratio", Basis.GRAPHICS_ACTIVE),
        ("gpu_utilization_ratio", Basis.GPU_UTILIZATION),
    ):
        if name in columns:
            fresh = pc.and_(pc.is_null(best), pc.is_valid(columns[name]))
            rung = pc.if_else(fresh, pa.scalar(int(step), pa.uint8()), rung)
            best = pc.coalesce(best, columns[name])
    return {"utilization_ratio": best, "rung": rung}


def _nodes(table: pa.Table, mapping: ColumnMapping) -> pa.Array:
    named = pa.nulls(table.num_rows, pa.string()) if mapping.node is None else names(table[mapping.node])
    return pc.fill_null(named, mapping.node_name)


def _uuids(table: pa.Table, mapping: ColumnMapping, nodes: pa.Array) -> pa.Array:
    given = names(table[mapping.gpu])
    if not mapping.gpu_within_node:
        return given
    unique = pc.match_substring_regex(given, "^(GPU|MIG)-")
    return pc.if_else(unique, given, pc.binary_join_element_wise(nodes, given, "/"))


def _jobs(table: pa.Table, mapping: ColumnMapping) -> Places:
    """A number for each job, -1 where a row names none."""
    if mapping.holder is None:
        return np.full(table.num_rows, -1, np.int64)
    codes = names(table[mapping.holder.job]).dictionary_encode().indices
    numbered: Places = pc.fill_null(codes, -1).to_numpy(zero_copy_only=False).astype(np.int64)
    return numbered


def _gpus(rows: _Rows, kept: Places, mapping: ColumnMapping) -> Iterator[Gpu]:
    """Each GPU, on the node of its newest row, its model and memory by the newest that says them."""
    places = pa.array(kept)
    named = rows.uuids.take(places).to_pylist()
    found = dict(zip(named, rows.nodes.take(places).to_pylist(), strict=True))
    table = rows.raw.table
    models: dict[str, str] = {}
    if mapping.gpu_model is not None:
        told = pc.if_else(is_missing(table[mapping.gpu_model]), None, words(table[mapping.gpu_model]))
        models = _told(named, told.take(places).to_pylist())
    sizes: dict[str, float] = {}
    if mapping.gpu_memory is not None:
        values = numbers(table[mapping.gpu_memory.column]).values[kept] * mapping.gpu_memory.factor
        sizes = _told(named, [value if 0 < value < 2.0**53 else None for value in values.tolist()])
    for uuid, node in found.items():
        size = sizes.get(uuid)
        yield Gpu(
            uuid=GpuUuid(uuid),
            node=NodeName(node),
            model=models.get(uuid, mapping.model),
            memory_total_bytes=mapping.memory_total_bytes if size is None else round(size),
        )


def _told(named: list[str], values: list[_T | None]) -> dict[str, _T]:
    """The last that is said of each GPU."""
    return {uuid: value for uuid, value in zip(named, values, strict=True) if value is not None}


def _held(
    rows: _Rows,
    shared: SharedRows,
    widths: npt.NDArray[np.int32],
    holder: HolderColumns,
    jobs: list[str | None],
) -> Iterator[HeldInterval]:
    """An interval from the first to the last row of each unbroken turn of one job on one GPU."""
    turns = list(_turns(rows, shared))
    firsts = pa.array([first for first, _ in turns], pa.int64())
    users, projects, titles = (
        _names_at(rows.raw.table, column, firsts) for column in (holder.user, holder.project, holder.name)
    )
    for turn, (first, last) in enumerate(turns):
        yield HeldInterval(
            allocation=Allocation(
                uuid=GpuUuid(rows.uuids[first].as_py()),
                holder=Holder(
                    job=JobId(str(jobs[first])),
                    user=users[turn],
                    project=projects[turn],
                    name=titles[turn],
                ),
                share=float(shared.shares[first]),
                source=holder.source,
            ),
            from_ms=int(rows.at_ms[first]) - int(widths[first]),
            to_ms=int(rows.at_ms[last]),
        )


def _turns(rows: _Rows, shared: SharedRows) -> Iterator[tuple[int, int]]:
    """The first and last row of each turn, which ends where a GPU has a row of a time, but none of the job.

    It ends too where the job's share changes.
    """
    rows_there = np.flatnonzero(rows.good)
    places, moment = rows.by_moment(np.concatenate([rows_there, shared.others]))
    named = rows.jobs[places] >= 0
    places, moment = places[named], moment[named]
    if not len(places):
        return
    order = np.lexsort((moment, rows.jobs[places], rows.gpu_codes[places]))
    places, moment = places[order], moment[order]
    breaks = np.flatnonzero(
        (np.diff(rows.gpu_codes[places]) != 0)
        | (np.diff(rows.jobs[places]) != 0)
        | (np.diff(moment) != 1)
        | (np.diff(shared.shares[places]) != 0)
    )
    firsts = np.concatenate([[0], breaks + 1])
    lasts = np.concatenate([breaks, [len(places) - 1]])
    for first, last in zip(firsts, lasts, strict=True):
        yield int(places[first]), int(places[last])


def _names_at(table: pa.Table, column: str | None, rows: pa.Array) -> list[str | None]:
    named: list[str | None] = (
        [None] * len(rows) if column is None else names(table[column].take(rows)).to_pylist()
    )
    return named


def _notice(skipped: Refused, from_ms: int, usual_ms: int) -> Iterator[Gap]:
    """The count of what was skipped, told where gaps are told: just before the recording begins."""
    if skipped.rows:
        yield Gap(source="replay", from_ms=from_ms - usual_ms, to_ms=from_ms, reason=str(skipped))


def _gaps(rows: _Rows, kept: Places, width_ms: npt.NDArray[np.int32], usual_ms: int) -> Iterator[Gap]:
    """Where a GPU's rows are missing, and where a row was refused that had its place."""
    codes = rows.gpu_codes[kept]
    order = np.lexsort((rows.at_ms[kept], codes))
    at = rows.at_ms[kept][order]
    starts = at - width_ms[order]
    holes = (np.diff(codes[order]) == 0) & (np.diff(at) > HOLE_WIDTHS * width_ms[order][1:])
    for place in np.flatnonzero(holes):
        yield Gap(
            source="replay",
            from_ms=int(at[place]),
            to_ms=int(starts[place + 1]),
            reason="no row in the recording",
            uuid=GpuUuid(rows.uuids[int(kept[order[place]])].as_py()),
        )
    for fault in rows.faults:
        if fault.uuid is not None and fault.at_ms is not None:
            yield Gap(
                source="replay",
                from_ms=fault.at_ms - usual_ms,
                to_ms=fault.at_ms,
                reason="a malformed row in the recording",
                uuid=GpuUuid(fault.uuid),
            )

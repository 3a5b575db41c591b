"""Tables with a row for each holder of a GPU: which values are the holders' own, and which the GPU's. Pure.

As with an exporter (``collector.dcgm.readout``), a row that names no holder is the GPU's own. Without one, a
column that differs between the rows of one GPU and time is each holder's own part, and the GPU has their sum,
unless that is more than a GPU has. A column that nearly always repeats itself is the GPU's; where two reads
of it differ, the larger is taken. So it is with what nobody has a part of, such as power.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from collector.arrow import HOLDER_SAMPLE_SCHEMA

_USE = "gpu_utilization_ratio"
_OWN = (_USE, "memory_used_bytes")
"""What the store keeps of each holder."""
_WHOLE_RATIO = 1.005
"""Rounded percentages of what adds up to a whole may be half a percent more."""

Floats = npt.NDArray[np.float64]
Places = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedRows:
    """Rows with another of their GPU and time beside them; one of each is its sample, ``others`` the rest.

    ``tellers`` are those that name a holder. ``own``: what each of these tells of itself; NaN is not told.
    ``shares``: of each row of the table, what part of its GPU its holder has.
    """

    others: Places
    tellers: Places
    own: dict[str, Floats]
    shares: Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class _Groups:
    """Rows of one GPU and time each: ``firsts`` is where a group begins in ``rows``, ``of`` each row's group.

    ``named``: the row names a holder. ``heads``: the row whose sample the group becomes, the GPU's own if
    there is one (``has_device``).
    """

    rows: Places
    firsts: Places
    of: Places
    named: npt.NDArray[np.bool_]
    heads: Places
    has_device: npt.NDArray[np.bool_]


def merged(
    rows: Places, moment: Places, jobs: Places, measured: dict[str, Floats], memory_total_bytes: int | None
) -> SharedRows:
    """What rows of one GPU and time say together; ``measured`` then has the GPU's values in one of them.

    ``rows`` are places in the table, and ``moment`` numbers the GPU and time of each, ascending. ``jobs`` is
    -1 where a row of the table names nobody.
    """
    groups = _groups(rows, moment, jobs)
    shares = np.ones(len(jobs))
    own: dict[str, Floats] = {}
    if len(groups.rows):
        holders = np.add.reduceat(groups.named.astype(np.int64), groups.firsts)
        shares[groups.rows] = 1.0 / np.maximum(holders, 1)[groups.of]
    for name, values in measured.items() if len(groups.rows) else ():
        parts = np.where(groups.named, values[groups.rows], np.nan)
        of_device = np.where(groups.has_device, values[groups.heads], np.nan)
        are_parts = _can_be_part(name) and _differs(parts, groups.firsts)
        if name in _OWN:
            told = ~np.isnan(of_device) | are_parts
            own[name] = np.where(told[groups.of], parts, np.nan)[groups.named]
        whole = memory_total_bytes if name == "memory_used_bytes" else _whole(name)
        together = _sums(parts, groups.firsts, whole) if are_parts else np.fmax.reduceat(parts, groups.firsts)
        values[groups.heads] = np.where(np.isnan(of_device), together, of_device)
    if _USE in own:
        own[_USE] = _of_all_or_none(own[_USE], groups.of[groups.named])
    return SharedRows(
        others=np.setdiff1d(groups.rows, groups.heads),
        tellers=groups.rows[groups.named],
        own=own,
        shares=shares,
    )


def _groups(rows: Places, moment: Places, jobs: Places) -> _Groups:
    """The groups of more than one row."""
    sizes = np.bincount(moment) if len(moment) else np.zeros(0, np.int64)
    chosen = sizes[moment] > 1
    rows, sizes = rows[chosen], sizes[sizes > 1]
    of = np.repeat(np.arange(len(sizes)), sizes)
    firsts = (np.cumsum(sizes) - sizes).astype(np.int64)
    named = jobs[rows] >= 0
    heads, has_device = rows[firsts], np.zeros(len(sizes), np.bool_)
    heads[of[~named]] = rows[~named]
    has_device[of[~named]] = True
    return _Groups(rows=rows, firsts=firsts, of=of, named=named, heads=heads, has_device=has_device)


def holder_samples(
    shared: SharedRows,
    uuids: pa.Array,
    names: list[str | None],
    at_ms: Places,
    width_ms: npt.NDArray[np.int32],
) -> pa.Table:
    """What each holder did, in the order of time; a row of which nothing is told is left out."""
    told = np.zeros(len(shared.tellers), np.bool_)
    for values in shared.own.values():
        told |= ~np.isnan(values)
    chosen = np.flatnonzero(told)
    chosen = chosen[np.argsort(at_ms[shared.tellers[chosen]], kind="stable")]
    rows = shared.tellers[chosen]
    columns: dict[str, pa.Array] = {
        "uuid": uuids.take(pa.array(rows)),
        "job": pa.array([names[row] for row in rows], pa.string()),
        "at_ms": pa.array(at_ms[rows]),
        "width_ms": pa.array(width_ms[rows]),
    }
    for name in _OWN:
        values = shared.own.get(name, np.full(len(shared.tellers), np.nan))[chosen]
        kind = HOLDER_SAMPLE_SCHEMA.field(name).type
        whole = values if pa.types.is_floating(kind) else np.rint(values)
        columns[name] = pa.array(whole, mask=np.isnan(values), type=pa.float64()).cast(kind)
    arrays = [columns[each.name].cast(each.type) for each in HOLDER_SAMPLE_SCHEMA]
    return pa.Table.from_arrays(arrays, schema=HOLDER_SAMPLE_SCHEMA)


def _can_be_part(name: str) -> bool:
    """Whether holders may each have a part of this measure."""
    is_ratio = name.endswith("_ratio") and not name.endswith("_max_ratio")
    return is_ratio or name in ("memory_used_bytes", "process_count")


def _whole(name: str) -> float | None:
    return _WHOLE_RATIO if name.endswith("_ratio") else None


def _differs(parts: Floats, firsts: Places) -> bool:
    """Whether the rows differ in at least half of the groups in which any of them is above zero."""
    low, high = np.fmin.reduceat(parts, firsts), np.fmax.reduceat(parts, firsts)
    busy = high > 0
    return bool(busy.any()) and 2 * int((high[busy] > low[busy]).sum()) >= int(busy.sum())


def _sums(parts: Floats, firsts: Places, whole: float | None) -> Floats:
    """The sum of each group's parts, or the largest where that is more than ``whole``; NaN: none is known."""
    largest: Floats = np.fmax.reduceat(parts, firsts)
    total: Floats = np.add.reduceat(np.nan_to_num(parts, nan=0.0), firsts)
    fits = True if whole is None else total <= whole
    return np.where(np.isnan(largest), np.nan, np.where(fits, total, largest))


def _of_all_or_none(use: Floats, of: Places) -> Floats:
    """Beside somebody whose use is told, who is not told of would seem to have done nothing."""
    unknown = np.unique(of[np.isnan(use)])
    return np.where(np.isin(of, unknown), np.nan, use)

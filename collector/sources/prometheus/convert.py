"""Devices to one ``History``: samples, GPUs, who held them, what happened, what is missing. Pure.

Who held a device when, from the pods and jobs that its series were labelled with. Pure, in columns.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from collector.arrow import HOLDER_SAMPLE_SCHEMA, SAMPLE_SCHEMA, HeldInterval, History
from collector.dcgm.endpoint import XID
from collector.dcgm.labels import Claim, Identity
from collector.dcgm.mig import share_of
from collector.dcgm.readout import LADDER, RATIOS, SCALE_UNKNOWN, WHOLES
from collector.model import Allocation, Basis, Event, Gap, Gpu, GpuUuid
from collector.sources.nvml.convert import xid as xid_words
from collector.sources.prometheus.series import Device

Presence = npt.NDArray[np.bool_]


def held_intervals(
    uuid: GpuUuid,
    at_ms: npt.NDArray[np.int64],
    width_ms: npt.NDArray[np.int64],
    present: Mapping[Claim, Presence],
) -> Iterator[HeldInterval]:
    """Unbroken stretches of each claim with the same share; a hole in the samples ends a stretch.

    ``present`` says for each claim at which of the samples it stood on the labels. Claims at the same moment
    share evenly. A stretch begins where its first sample's width begins, so that stretches of one holder
    touch across the pieces of an import.
    """
    if not present:
        return
    together = np.sum(list(present.values()), axis=0)
    starts = at_ms - width_ms
    follows = np.concatenate([[False], starts[1:] == at_ms[:-1]])
    for claim, there in present.items():
        share = np.where(there, 1.0 / np.maximum(together, 1), 0.0)
        begins = there & ~(follows & np.concatenate([[False], share[1:] == share[:-1]]))
        firsts = np.flatnonzero(begins)
        ends = there & np.concatenate([begins[1:] | ~there[1:], [True]])
        for first, last in zip(firsts, np.flatnonzero(ends), strict=True):
            yield HeldInterval(
                allocation=Allocation(
                    uuid=uuid, holder=claim.holder, share=float(share[first]), source=claim.source
                ),
                from_ms=int(starts[first]),
                to_ms=int(at_ms[last]),
            )


NO_SAMPLES = "no samples in Prometheus"
BRIDGED_MS = 24 * 3_600_000
"""One holder on both sides of a hole of up to a day is one hold, as findings have it (``holds_at``): names of
pods come back after longer ones."""
_OF_HOLDERS = HOLDER_SAMPLE_SCHEMA.names[4:]
"""What is told of a holder; the columns before say of whom and when."""
_LIMITS = {pa.int16(): 2**15 - 1, pa.int32(): 2**31 - 1, pa.int64(): 2**63 - 1024}


def history_of(devices: Sequence[Device], *, source: str, from_ms: int) -> History:
    """What the devices did after ``from_ms``; earlier rows are there to tell widths and changes by."""
    shown = [(device, device.at_ms > from_ms) for device in devices]
    tables = [_table(device, keep) for device, keep in shown if keep.any()]
    parts: dict[GpuUuid, list[Device]] = {}
    for device in devices:
        if device.identity.parent is not None:
            parts.setdefault(device.identity.parent, []).append(device)
    return History(
        source=source,
        bridged_ms=BRIDGED_MS,
        gpus=tuple(_gpu(device, parts.get(device.identity.uuid, ())) for device, keep in shown if keep.any()),
        samples=pa.concat_tables(tables) if tables else SAMPLE_SCHEMA.empty_table(),
        held=tuple(
            interval
            for device, keep in shown
            for interval in held_intervals(
                device.identity.uuid,
                device.at_ms[keep],
                device.width_ms[keep],
                {claim: there[keep] for claim, there in device.present.items()},
            )
        ),
        events=tuple(event for device, keep in shown for event in _xids(device, keep)),
        gaps=tuple(gap for device, keep in shown for gap in _gaps(device, keep, source)),
        holder_samples=pa.concat_tables(
            [
                HOLDER_SAMPLE_SCHEMA.empty_table(),
                *(t for device, keep in shown for t in _of_holders(device, keep)),
            ]
        ),
    )


def _table(device: Device, keep: npt.NDArray[np.bool_]) -> pa.Table:
    rows = int(keep.sum())
    rung, utilization, flags = _ladder(device)
    columns = {
        "uuid": pa.repeat(pa.scalar(device.identity.uuid), rows),
        "at_ms": pa.array(device.at_ms[keep]),
        "width_ms": pa.array(device.width_ms[keep].astype(np.int32)),
        "rung": pa.array(rung[keep]),
        "utilization_ratio": _nullable(utilization[keep], "utilization_ratio"),
        "flags": pa.array(flags[keep], from_pandas=True, type=pa.string()),
    }
    for name in (*RATIOS, *WHOLES):
        if name in device.columns:
            columns[name] = _nullable(device.columns[name][keep], name)
    missing = [name for name in SAMPLE_SCHEMA.names if name not in columns]
    columns |= {name: pa.nulls(rows, SAMPLE_SCHEMA.field(name).type) for name in missing}
    return pa.table([columns[name] for name in SAMPLE_SCHEMA.names], schema=SAMPLE_SCHEMA)


def _of_holders(device: Device, keep: npt.NDArray[np.bool_]) -> Iterator[pa.Table]:
    """What each holder did, at the times at which that was told."""
    nothing = np.full(len(device.at_ms), np.nan)
    for claim, columns in device.of_holders.items():
        values = {name: columns.get(name, nothing) for name in _OF_HOLDERS}
        there = keep & ~np.all([np.isnan(column) for column in values.values()], axis=0)
        rows = int(there.sum())
        yield pa.table(
            [
                pa.repeat(pa.scalar(str(device.identity.uuid)), rows),
                pa.repeat(pa.scalar(str(claim.holder.job)), rows),
                pa.array(device.at_ms[there]),
                pa.array(device.width_ms[there].astype(np.int32)),
                *(_nullable(column[there], name) for name, column in values.items()),
            ],
            schema=HOLDER_SAMPLE_SCHEMA,
        )


def _ladder(
    device: Device,
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.float64], npt.NDArray[np.object_]]:
    """At each time the best measure of utilization there was, and the doubts about it."""
    rows = len(device.at_ms)
    rung = np.full(rows, int(Basis.UNKNOWN), np.uint8)
    utilization = np.full(rows, np.nan)
    for name, step in reversed(LADDER):
        column = device.columns.get(name)
        if column is not None:
            is_measured = ~np.isnan(column)
            rung[is_measured] = int(step)
            utilization = np.where(is_measured, np.minimum(column, 1.0), utilization)
    flags = np.full(rows, None, object)
    for name in RATIOS:
        if name in device.columns:
            _add_flag(flags, device.columns[name] > 1, f"{name.removesuffix('_ratio')}-above-1")
    unknown = device.columns.get("gpu_utilization_ratio")
    _add_flag(flags, device.undecided & (True if unknown is None else np.isnan(unknown)), SCALE_UNKNOWN)
    return rung, utilization, flags


def _add_flag(flags: npt.NDArray[np.object_], where: npt.NDArray[np.bool_], flag: str) -> None:
    for i in np.flatnonzero(where):
        flags[i] = flag if flags[i] is None else f"{flags[i]},{flag}"


def _nullable(values: npt.NDArray[np.float64], name: str) -> pa.Array:
    kind = SAMPLE_SCHEMA.field(name).type
    if name.endswith("_ratio"):
        return pa.array(np.minimum(values, 1.0).astype(np.float32), mask=np.isnan(values))
    rounded = np.rint(values)
    blank = ~(rounded <= _LIMITS[kind])
    return pa.array(np.where(blank, 0, rounded).astype(np.int64), mask=blank).cast(kind)


def _gpu(device: Device, parts: Iterable[Device]) -> Gpu:
    who = device.identity
    persistence = _newest(device, "persistence_mode")
    limit = _newest(device, "power_limit_mw")
    return Gpu(
        uuid=who.uuid,
        node=who.node,
        index=who.index,
        model=who.model,
        memory_total_bytes=_memory_total(device),
        driver_version=who.driver_version,
        power_limit_mw=None if limit is None else round(limit),
        parent_uuid=who.parent,
        mig_profile=who.profile,
        share_of_device=share_of(who, _at_the_end(device, parts)),
        persistence_mode=None if persistence is None else persistence > 0,
        gpu_instance=who.instance,
        cluster=who.cluster,
    )


def _at_the_end(board: Device, parts: Iterable[Device]) -> list[Identity]:
    """The instances that were there at the end: a board may have been partitioned anew on the way."""
    last = board.at_ms[-1]
    return [part.identity for part in parts if last <= part.at_ms[-1] + part.width_ms[-1]]


def _memory_total(device: Device) -> int | None:
    total, used, free = (
        _newest(device, name) for name in ("memory_total_bytes", "memory_used_bytes", "memory_free_bytes")
    )
    if total is not None:
        return round(total)
    if used is None or free is None:
        return None
    return round(used + free + (_newest(device, "memory_reserved_bytes") or 0))


def _newest(device: Device, name: str) -> float | None:
    column = device.columns.get(name)
    values = np.empty(0) if column is None else column[~np.isnan(column)]
    return float(values[-1]) if len(values) else None


def _xids(device: Device, keep: npt.NDArray[np.bool_]) -> Iterator[Event]:
    """XIDs that were not there at the scrape before."""
    column = device.columns.get("xid")
    if column is None:
        return
    places = np.flatnonzero(~np.isnan(column))
    for before, after in pairwise(places):
        if keep[after] and column[after] not in (0, column[before]):
            yield Event(
                uuid=device.identity.uuid,
                at_ms=int(device.at_ms[after]),
                kind=XID,
                detail=xid_words(int(column[after])),
            )


def _gaps(device: Device, keep: npt.NDArray[np.bool_], source: str) -> Iterator[Gap]:
    starts = device.at_ms - device.width_ms
    for i in np.flatnonzero(starts[1:] > device.at_ms[:-1]) + 1:
        if keep[i]:
            yield Gap(
                source=source,
                from_ms=int(device.at_ms[i - 1]),
                to_ms=int(starts[i]),
                reason=NO_SAMPLES,
                uuid=device.identity.uuid,
                node=device.identity.node,
                cluster=device.identity.cluster,
            )

"""The columnar form of samples: what a tick or a history brings to the store in one piece.

One schema for both, so that live ticks, replays, imports and the simulated cluster meet the store at one
door. Scaling to integers happens in the store; here values are as in ``collector.model``.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from operator import attrgetter
from typing import Any

import pyarrow as pa

from collector.metrics import METRICS
from collector.model import (
    Allocation,
    Event,
    Gap,
    Gpu,
    GpuSample,
    GpuUuid,
    HolderSample,
    Intrusion,
    JobId,
    Process,
    ProcessKey,
    ProcessSample,
)

_TYPES = {each.name: pa.type_for_alias(each.arrow) for each in METRICS if each.is_stored}
_TEXTS = ("uuid", "flags")

SIMULATED_COLUMN = "simulated"
"""The column that exported rows of a simulated cluster have besides: files travel without their store."""

SAMPLE_SCHEMA = pa.schema(
    [
        pa.field(each.name, _TYPES.get(each.name, pa.string()))
        for each in fields(GpuSample)
        if each.name in _TYPES or each.name in _TEXTS
    ]
)
"""One row a sample: the fields of ``GpuSample`` in their order; flags comma-joined."""

HOLDER_SAMPLE_SCHEMA = pa.schema(
    {
        "uuid": pa.string(),
        "job": pa.string(),
        "at_ms": pa.int64(),
        "width_ms": pa.int32(),
        "gpu_utilization_ratio": pa.float32(),
        "memory_used_bytes": pa.int64(),
    }
)
"""One row for what a holder did: the fields of ``HolderSample`` in their order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldInterval:
    """An allocation and its half-open interval ``[from_ms, to_ms)``, open-ended while it lasts."""

    allocation: Allocation
    from_ms: int
    to_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class IntrudedInterval:
    """An intrusion and its half-open interval ``[from_ms, to_ms)``, open-ended while it lasts."""

    intrusion: Intrusion
    from_ms: int
    to_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """A stretch of the past from one source, to be stored at once; rows already there are not stored again.

    ``samples`` has SAMPLE_SCHEMA (any column but ``uuid``, ``at_ms`` and ``width_ms`` may be missing and
    counts as not measured) and need not be sorted; ``holder_samples`` has HOLDER_SAMPLE_SCHEMA. ``owners``:
    the job of each process of which it is known. ``installed_ms``: since when a GPU without samples is there;
    without it, since the first of all samples. ``removed_ms``: when a GPU was taken out, if told.
    ``idle_power_mw``: the least that a GPU was ever seen to draw, if told. ``bridged_ms``: a hold goes on
    over so long a time without a sample of its GPU, where who holds a GPU is told with its samples alone.
    """

    source: str
    gpus: tuple[Gpu, ...]
    samples: pa.Table
    held: tuple[HeldInterval, ...] = ()
    processes: tuple[Process, ...] = ()
    process_samples: tuple[ProcessSample, ...] = ()
    events: tuple[Event, ...] = ()
    gaps: tuple[Gap, ...] = ()
    intruded: tuple[IntrudedInterval, ...] = ()
    owners: tuple[tuple[ProcessKey, JobId], ...] = ()
    holder_samples: pa.Table = field(default_factory=HOLDER_SAMPLE_SCHEMA.empty_table)
    installed_ms: Mapping[GpuUuid, int] = field(default_factory=dict)
    removed_ms: Mapping[GpuUuid, int] = field(default_factory=dict)
    idle_power_mw: Mapping[GpuUuid, int] = field(default_factory=dict)
    bridged_ms: int = 0


def to_table(samples: Iterable[GpuSample]) -> pa.Table:
    """The samples as a table of ``SAMPLE_SCHEMA``, in the order given."""
    rows = samples if isinstance(samples, tuple) else tuple(samples)
    columns = [_column(rows, each) for each in SAMPLE_SCHEMA]
    return pa.Table.from_arrays(columns, schema=SAMPLE_SCHEMA)


def to_holder_table(samples: Iterable[HolderSample]) -> pa.Table:
    """The samples of holders as a table of ``HOLDER_SAMPLE_SCHEMA``, in the order given."""
    rows = tuple(samples)
    columns = [_column(rows, each) for each in HOLDER_SAMPLE_SCHEMA]
    return pa.Table.from_arrays(columns, schema=HOLDER_SAMPLE_SCHEMA)


def _column(rows: tuple[GpuSample, ...] | tuple[HolderSample, ...], column: pa.Field) -> pa.Array:
    """One attribute of all rows; column by column, because it halves the time of row by row."""
    values = list(map(attrgetter(column.name), rows))
    try:
        return _array(values, column)
    except (pa.ArrowInvalid, OverflowError):
        return _array(fitting(values, column.type), column)


def fitting(values: Iterable[Any], kind: pa.DataType) -> list[Any]:
    """The values without the whole numbers that no column of this kind holds: those are not measured.

    A driver's garbage (4294967295 MHz) must cost the value, not the tick of all GPUs.
    """
    if not pa.types.is_signed_integer(kind):
        return list(values)
    most = 2 ** (kind.bit_width - 1) - 1
    return [value if value is None or -most <= value <= most else None for value in values]


def _array(values: list[Any], column: pa.Field) -> pa.Array:
    if column.name == "flags":
        values = [",".join(flags) or None for flags in values] if any(values) else [None] * len(values)
    if values and values[0] is values[-1] and values.count(values[0]) == len(values):
        return pa.repeat(pa.scalar(values[0], type=column.type), len(values))
    return pa.array(values, type=column.type)

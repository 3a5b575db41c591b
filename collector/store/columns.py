"""Samples on their way into the hot table: ratios become ten-thousandths, UUIDs become gpu ids.

Pure arithmetic on Arrow columns; what the columns mean is said in ``collector.model``.
"""

from contextlib import suppress

import pyarrow as pa
import pyarrow.compute as pc

from collector.arrow import SAMPLE_SCHEMA
from collector.metrics import METRICS

RATIO_SCALE = 10_000
"""A ratio is kept in ten-thousandths, in two bytes."""
MAX_SMALLINT = 32_767
"""The largest that two bytes hold: a ratio above 3.2767 is one that cannot be, and is cut there."""
MOST = 2**53
"""What counts more (9 PB, 285 years of 1 kW) is garbage: a sum of it fits nowhere, and stops the roll-ups."""
LEAST_WIDTH_MS = 1
"""No sample covers less: shares of its width are asked for."""
_ALWAYS = ("at_ms", "width_ms", "rung")
"""What every row has, whatever was measured."""
_COLUMNS = {each.name: each.column for each in METRICS if each.is_stored and each.name not in _ALWAYS}
"""A sample's measures, by field: their columns in the store."""
MEASURES = (*_COLUMNS, "flags")


def stored_name(name: str) -> str:
    """A sample field's column in the store: ``x_ratio`` is kept as ``x_e4``."""
    return _COLUMNS.get(name, name)


def distinct_uuids(samples: pa.Table) -> tuple[list[str], pa.Array]:
    """The UUIDs that occur, and for each row which of them it is about."""
    encoded = samples["uuid"].dictionary_encode().combine_chunks()
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.chunk(0) if encoded.num_chunks else pa.array([], pa.string()).dictionary_encode()
    return encoded.dictionary.to_pylist(), encoded.indices


def stored_rows(samples: pa.Table, gpu_ids: pa.Array) -> pa.Table:
    """The samples with the columns of the table ``samples``; ``gpu_ids`` has the id of each row's GPU."""
    rows = len(samples)
    columns = {
        "ts": _timestamps(samples["at_ms"]),
        "gpu_id": gpu_ids,
        "width_ms": pc.max_element_wise(samples["width_ms"].cast(pa.int32()), LEAST_WIDTH_MS),
        "rung": _column(samples, "rung", rows).fill_null(0),
    }
    for name in MEASURES:
        columns[stored_name(name)] = _column(samples, name, rows)
    return pa.table(columns)


def _column(samples: pa.Table, name: str, rows: int) -> pa.ChunkedArray | pa.Array:
    kind = pa.int16() if name.endswith("_ratio") else SAMPLE_SCHEMA.field(name).type
    if name not in samples.column_names:
        return pa.nulls(rows, kind)
    column = samples[name]
    if column.null_count == rows:
        return pa.nulls(rows, kind)
    if name.endswith("_ratio"):
        return _ten_thousandths(column)
    whole = column if column.type == kind else column.cast(kind)
    if kind == pa.int64() and pc.max(whole).as_py() > MOST:
        return pc.if_else(pc.less_equal(whole, MOST), whole, None)
    return whole


def _ten_thousandths(ratios: pa.ChunkedArray) -> pa.ChunkedArray:
    """Cut at what a column holds; what is no ratio at all (NaN, infinite, below 0) is not measured."""
    scaled = pc.round(pc.multiply(ratios, float(RATIO_SCALE)))
    with suppress(pa.ArrowInvalid):
        if pc.min(scaled).as_py() >= 0.0:
            return scaled.cast(pa.int16())
    is_ratio = pc.and_(pc.is_finite(scaled), pc.greater_equal(scaled, 0.0))
    cut = pc.min_element_wise(scaled, float(MAX_SMALLINT), skip_nulls=False)
    return pc.if_else(is_ratio, cut, None).cast(pa.int16())


def _timestamps(at_ms: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.multiply(at_ms.cast(pa.int64()), 1000).cast(pa.timestamp("us"))


def ratio_e4(ratio: float | None) -> int | None:
    """A ratio as the store keeps it, in ten-thousandths; at most what its column holds."""
    return None if ratio is None else min(round(ratio * RATIO_SCALE), MAX_SMALLINT)

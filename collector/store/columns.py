"""Samples on their way into the hot table: ratios become ten-thousandths, UUIDs become gpu ids.

Pure arithmetic on Arrow columns; what the columns mean is said in ``collector.model``.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from collector.batch import SAMPLE_SCHEMA

RATIO_SCALE = 10_000
MAX_SMALLINT = 32_767
_TYPES = {
    "rung": pa.uint8(),
    "temperature_c": pa.int16(),
    "sm_clock_mhz": pa.int16(),
    "memory_clock_mhz": pa.int16(),
    "power_mw": pa.int32(),
    "xid": pa.int32(),
    "process_count": pa.int16(),
    "flags": pa.string(),
}
MEASURES = tuple(name for name in SAMPLE_SCHEMA.names if name not in ("uuid", "at_ms", "width_ms", "rung"))


def stored_name(name: str) -> str:
    """A sample field's column in the store: ``x_ratio`` is kept as ``x_e4``."""
    return f"{name.removesuffix('_ratio')}_e4" if name.endswith("_ratio") else name


def stored_rows(samples: pa.Table, gpu_ids: Mapping[str, int]) -> pa.Table:
    """The samples with the columns of the table ``samples``; every UUID must have an id."""
    rows = len(samples)
    columns = {
        "ts": _timestamps(samples["at_ms"]),
        "gpu_id": _ids(samples["uuid"], gpu_ids),
        "width_ms": samples["width_ms"].cast(pa.int32()),
        "rung": _column(samples, "rung", rows).fill_null(0),
    }
    for name in MEASURES:
        columns[stored_name(name)] = _column(samples, name, rows)
    return pa.table(columns)


def _column(samples: pa.Table, name: str, rows: int) -> pa.ChunkedArray | pa.Array:
    kind = pa.int16() if name.endswith("_ratio") else _TYPES.get(name, pa.int64())
    if name not in samples.column_names:
        return pa.nulls(rows, kind)
    column = samples[name]
    if column.null_count == rows:
        return pa.nulls(rows, kind)
    if name.endswith("_ratio"):
        scaled = pc.round(pc.multiply(column.cast(pa.float64()), float(RATIO_SCALE)))
        return pc.min_element_wise(scaled, float(MAX_SMALLINT), skip_nulls=False).cast(kind)
    return column if column.type == kind else column.cast(kind)


def _timestamps(at_ms: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.multiply(at_ms.cast(pa.int64()), 1000).cast(pa.timestamp("us"))


def _ids(uuids: pa.ChunkedArray, gpu_ids: Mapping[str, int]) -> pa.Array:
    """Ids by dictionary: one look-up a distinct UUID, whatever the number of rows."""
    encoded = uuids.combine_chunks().dictionary_encode()
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.combine_chunks()
    distinct: Sequence[str] = encoded.dictionary.to_pylist()
    ids = np.fromiter((gpu_ids[uuid] for uuid in distinct), dtype=np.int32, count=len(distinct))
    return pa.array(ids[encoded.indices.to_numpy(zero_copy_only=False)])

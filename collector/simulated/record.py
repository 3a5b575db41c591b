"""From played columns to the collector's rows: one table for a history, samples for a live reading."""

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from collector.batch import SAMPLE_SCHEMA
from collector.model import Basis, Gpu, GpuSample
from collector.simulated.signal import Played


def table_of(played: Played, gpus: tuple[Gpu, ...], keep: npt.NDArray[np.bool_], width_ms: int) -> pa.Table:
    """The rows that were measured and are wanted (``keep``: one flag an instant), as SAMPLE_SCHEMA."""
    wanted = np.flatnonzero(played.measured & np.tile(keep, len(gpus)))
    count = len(wanted)
    whose = pa.DictionaryArray.from_arrays(
        pa.array(wanted // max(len(keep), 1), pa.int32()), pa.array([str(gpu.uuid) for gpu in gpus])
    )
    ready: dict[str, pa.Array] = {
        "uuid": whose.cast(pa.string()),
        "width_ms": pa.array(np.full(count, width_ms, np.int32)),
        "rung": pa.array(np.full(count, Basis.SM_ACTIVE, np.uint8)),
    }
    arrays = [
        ready[field.name] if field.name in ready else _array(played, wanted, field, count)
        for field in SAMPLE_SCHEMA
    ]
    return pa.Table.from_arrays(arrays, schema=SAMPLE_SCHEMA)


def samples_of(played: Played, gpus: tuple[Gpu, ...], width_ms: int) -> tuple[GpuSample, ...]:
    """One sample for each measured GPU of a single instant."""
    names = list(played.columns)
    rows = zip(*(values.tolist() for values in played.columns.values()), strict=True)
    return tuple(
        GpuSample(
            uuid=gpu.uuid,
            width_ms=width_ms,
            rung=Basis.SM_ACTIVE,
            memory_total_bytes=gpu.memory_total_bytes,
            **dict(zip(names, row, strict=True)),
        )
        for gpu, row, measured in zip(gpus, rows, played.measured.tolist(), strict=True)
        if measured
    )


def _array(played: Played, wanted: npt.NDArray[np.int64], field: pa.Field, count: int) -> pa.Array:
    values = played.columns.get(field.name)
    if values is None:
        return pa.nulls(count, field.type)
    return pa.array(values[wanted].astype(field.type.to_pandas_dtype()), field.type)

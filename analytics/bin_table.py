"""From the columns of the query ``assess_bins`` to bins: dense, oldest first, ``None`` where unmeasured."""

from math import isnan
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from analytics.model import Bins

_FLOATS = {
    "utilization": "utilization_ratio",
    "busiest": "busiest_ratio",
    "video": "video_ratio",
    "gpu_utilization": "gpu_utilization_ratio",
    "memory_controller": "memory_controller_ratio",
    "copies": "copies_ratio",
    "hot": "hot_ratio",
}
_WHOLE = {"memory_bytes": "memory_used_bytes", "power_mw": "power_mw", "processes": "process_count"}


def bins_by_gpu(table: pa.Table, end_ms: int, count: int) -> dict[int, Bins]:
    """The ``count`` bins that end at ``end_ms`` of every GPU with a row, by its number in the store."""
    gpu_ids = table["gpu_id"].to_numpy()
    known, row_of = np.unique(gpu_ids, return_inverse=True)
    place = (row_of, table["bin"].to_numpy())
    shape = (len(known), count)
    covered = np.zeros(shape, np.bool_)
    covered[place] = table["covered"].to_numpy(zero_copy_only=False)
    columns = {name: _dense(table[column], shape, place) for name, column in (_FLOATS | _WHOLE).items()}
    return {
        int(gpu_id): Bins(
            end_ms=end_ms,
            covered=tuple(covered[row].tolist()),
            **{name: _values(columns[name][row], whole=name in _WHOLE) for name in columns},
        )
        for row, gpu_id in enumerate(known.tolist())
    }


def _dense(
    column: pa.ChunkedArray, shape: tuple[int, int], place: tuple[npt.NDArray[Any], npt.NDArray[Any]]
) -> npt.NDArray[np.float64]:
    dense = np.full(shape, np.nan)
    dense[place] = column.to_numpy().astype(np.float64)
    return dense


def _values(row: npt.NDArray[np.float64], *, whole: bool) -> tuple[Any, ...]:
    if not np.isnan(row).any():
        return tuple((row.astype(np.int64) if whole else row).tolist())
    kind = int if whole else float
    return tuple(None if isnan(value) else kind(value) for value in row.tolist())

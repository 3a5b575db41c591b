"""Appends what holders did on the GPUs that they share, where something tells them apart.

Runs inside the caller's transaction.
"""

from collections.abc import Sequence

import duckdb
import pyarrow as pa

from collector.arrow import fitting
from collector.model import HolderSample
from collector.store.columns import ratio_e4
from collector.store.registry import Registry
from collector.store.statements import feed


def write_holder_samples(
    connection: duckdb.DuckDBPyConnection, registry: Registry, samples: Sequence[HolderSample]
) -> None:
    """Append what holders did; a GPU or holder that nothing else tells of is nobody's to charge."""
    known = registry.known_holder_ids({sample.job for sample in samples}) if samples else {}
    told = [s for s in samples if s.uuid in registry.gpu_ids and s.job in known]
    if not told:
        return
    table = pa.table(
        {
            "at_ms": pa.array([s.at_ms for s in told], pa.int64()),
            "gpu_id": pa.array([registry.id_at(s.uuid, s.at_ms) for s in told], pa.int32()),
            "holder_id": pa.array([known[s.job] for s in told], pa.int32()),
            "width_ms": pa.array([s.width_ms for s in told], pa.int32()),
            "gpu_utilization_e4": pa.array([ratio_e4(s.gpu_utilization_ratio) for s in told], pa.int16()),
            "memory_used_bytes": pa.array(
                fitting([s.memory_used_bytes for s in told], pa.int64()), pa.int64()
            ),
        }
    )
    feed(connection, "insert_holder_samples", table)

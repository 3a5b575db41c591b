"""Holds that go on over a hole in their GPU's samples, where only its samples tell who holds a GPU."""

from collections.abc import Mapping

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from collector.arrow import History
from collector.store.rollups import Marks, Reach, Stretch, redo
from collector.store.statements import statement


def bridges(
    connection: duckdb.DuckDBPyConnection, incoming: pa.Table, history: History, uuids: Mapping[int, str]
) -> pa.Table:
    """The holes that are given to who held the GPU before and after, in the columns of ``incoming``.

    ``uuids``: of the GPUs in ``incoming``. Nobody looked in these: no sample, stored or of the history.
    """
    if not history.bridged_ms:
        return incoming.slice(0, 0)
    connection.register("incoming", incoming)
    found = connection.execute(statement("unlooked_holes"), {"bridged_ms": history.bridged_ms}).fetchall()
    connection.unregister("incoming")
    holes = [dict(zip(incoming.column_names, row, strict=True)) for row in found]
    kept = [
        hole for hole in holes if not _looked(history, uuids[hole["gpu_id"]], hole["from_ms"], hole["to_ms"])
    ]
    return pa.Table.from_pylist(kept, incoming.schema)


def redo_bridged(
    connection: duckdb.DuckDBPyConnection, holes: pa.Table, span: tuple[int, int], marks: Marks, reach: Reach
) -> None:
    """Roll up the holes again that lie beside ``span``, which was: their time is somebody's now."""
    for row in holes.to_pylist():
        if row["from_ms"] < span[0] or row["to_ms"] > span[1]:
            hole = Stretch(from_ms=row["from_ms"], to_ms=row["to_ms"], gpu_ids=(row["gpu_id"],))
            redo(connection, hole, marks, reach)


def _looked(history: History, uuid: str, from_ms: int, to_ms: int) -> bool:
    samples = history.samples
    at_ms = samples["at_ms"]
    inside = pc.and_(pc.greater(at_ms, from_ms), pc.less_equal(at_ms, to_ms))
    return bool(pc.any(pc.and_(inside, pc.equal(samples["uuid"], uuid))).as_py())

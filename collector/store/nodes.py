"""What nodes push, in the caller's transaction: ticks that come late, and how far each node is taken in."""

from dataclasses import asdict, replace

import duckdb
import pyarrow as pa

from collector.model import GpuUuid, NodeName
from collector.reading import LAST_HEARD, LateTicks, NodeMark, Reading, Tick
from collector.store.allocations import read_open
from collector.store.history import write_history
from collector.store.statements import statement
from collector.store.ticks import Live

MARKS = pa.schema(
    [
        *[(name, pa.string()) for name in ("node", "credential", "machine", "spool", "version")],
        *[(name, pa.int64()) for name in ("sequence", "at_ms", "heard_ms", "ahead_ms", "lost")],
        *[(name, pa.int64()) for name in ("waiting", "waits_ms")],
    ]
)


def write_late(connection: duckdb.DuckDBPyConnection, live: Live, tick: Tick) -> None:
    """Store the ticks that nodes made while nobody took them in, each in its own time."""
    for late in (each for outcome in tick.outcomes if isinstance(outcome, Reading) for each in outcome.late):
        _write(connection, live, late)


def write_marks(connection: duckdb.DuckDBPyConnection, tick: Tick) -> None:
    """Note how far each node is taken in with this tick."""
    marks = [each for outcome in tick.outcomes if isinstance(outcome, Reading) for each in outcome.marks]
    if not marks:
        return
    rows = [asdict(mark) | {"at_ms": mark.at_ms or None} for mark in marks]
    connection.register("marks", pa.Table.from_pylist(rows, schema=MARKS))
    connection.execute(statement("set_node_marks"))  # all in one: of 1,000 nodes each tick has as many
    connection.execute(statement("clear_silences"), {"heard": LAST_HEARD})
    connection.unregister("marks")


def read_node_marks(connection: duckdb.DuckDBPyConnection) -> tuple[NodeMark, ...]:
    """How far each node is taken in."""
    return tuple(
        NodeMark(
            node=row[0],
            credential=row[1],
            machine=row[2],
            spool=row[3],
            version=row[4],
            sequence=row[5],
            at_ms=row[6],
            heard_ms=row[7],
            ahead_ms=row[8],
            lost=row[9],
            waiting=row[10],
            waits_ms=row[11],
        )
        for row in connection.execute(statement("node_marks")).fetchall()
    )


def read_node_owners(connection: duckdb.DuckDBPyConnection) -> dict[GpuUuid, tuple[NodeName, int]]:
    """Which node told of each GPU last, and when that was heard (UTC ms)."""
    rows = connection.execute(statement("node_owners")).fetchall()
    return {uuid: (node, heard_ms) for uuid, node, heard_ms in rows}


def _write(connection: duckdb.DuckDBPyConnection, live: Live, late: LateTicks) -> None:
    history = late.history
    if not (len(history.samples) or history.gpus or history.gaps):
        return
    given = _tell_anew(connection, live, late)
    held = tuple(each for each in history.held if each.allocation.uuid not in given)
    write_history(connection, live, replace(history, held=held))


def _tell_anew(connection: duckdb.DuckDBPyConnection, live: Live, late: LateTicks) -> frozenset[GpuUuid]:
    """Take back what was believed of holders since; the GPUs of which the head itself knew them."""
    uuids = {live.registry.gpu_ids[uuid]: uuid for uuid in late.since if uuid in live.registry.gpu_ids}
    if not uuids:
        return frozenset()
    since = {"gpu_id": list(uuids), "from_ms": [late.since[uuid] for uuid in uuids.values()]}
    told = pa.table(since, schema=pa.schema({"gpu_id": pa.int32(), "from_ms": pa.int64()}))
    connection.register("told", told)
    given = {row[0] for row in connection.execute(statement("given_by_head")).fetchall()}
    connection.unregister("told")
    keep = pa.array([gpu_id not in given for gpu_id in uuids])
    connection.register("told", told.filter(keep))
    connection.execute(statement("end_believed"))
    connection.execute(statement("clear_believed"))
    connection.unregister("told")
    live.held, live.said = read_open(connection), None
    return frozenset(uuids[gpu_id] for gpu_id in given)

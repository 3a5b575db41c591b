"""What nodes push, in the caller's transaction: ticks that come late, and how far each node is taken in.

After an outage of the head all nodes come late at once. What a history costs is mostly by the history, not by
its rows, so those of nodes that tell of different GPUs, in the same hours, are written as one.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field, replace

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from collector.arrow import History
from collector.model import Gpu, GpuUuid, NodeName
from collector.reading import LAST_HEARD, LateTicks, NodeMark, Reading, Tick
from collector.store.allocations import read_open
from collector.store.cuts import is_cut_anew
from collector.store.history import write_history
from collector.store.rollups import HOUR_MS
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
    told = [each for outcome in tick.outcomes if isinstance(outcome, Reading) for each in outcome.late]
    for late in together(told, live.registry.since):
        _write(connection, live, late)


def together(
    late: Iterable[LateTicks], known: Callable[[GpuUuid], tuple[Gpu, int] | None]
) -> Iterator[LateTicks]:
    """The same rows in fewer histories. Pure; ``known`` has a GPU's first row and since when it is there.

    One history has one source, one span and one width of its newest samples, by which its intervals are
    joined; of each GPU only one node tells in it. What is new of a GPU without a sample, or cut otherwise
    than known, depends on the span of its own history, and stays alone.
    """
    groups: dict[object, _Group] = {}
    for each in late:
        key = _alike(each.history, known)
        uuids = _uuids(each)
        group = None if key is None else groups.setdefault(key, _Group())
        if group is None or not group.uuids.isdisjoint(uuids):
            # In the order in which they came, for those that speak of the same GPU.
            yield from (whole.one() for whole in groups.values() if whole.parts)
            groups.clear()
            yield each
            continue
        group.parts.append(each)
        group.uuids |= uuids
    yield from (whole.one() for whole in groups.values() if whole.parts)


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


@dataclass(slots=True)
class _Group:
    """Histories that can be written as one, and the GPUs that they tell of."""

    parts: list[LateTicks] = field(default_factory=list)
    uuids: set[str] = field(default_factory=set)

    def one(self) -> LateTicks:
        """All of them in one, in the order in which they came."""
        if len(self.parts) == 1:
            return self.parts[0]
        told = [each.history for each in self.parts]
        whole = History(
            source=told[0].source,
            gpus=tuple(gpu for each in told for gpu in each.gpus),
            samples=pa.concat_tables([each.samples for each in told]).combine_chunks(),
            held=tuple(held for each in told for held in each.held),
            events=tuple(event for each in told for event in each.events),
            gaps=tuple(gap for each in told for gap in each.gaps),
            holder_samples=pa.concat_tables([each.holder_samples for each in told]).combine_chunks(),
        )
        return LateTicks(
            history=whole, since={uuid: ms for each in self.parts for uuid, ms in each.since.items()}
        )


def _uuids(late: LateTicks) -> set[str]:
    told = late.history
    return {
        *late.since,
        *(gpu.uuid for gpu in told.gpus),
        *(held.allocation.uuid for held in told.held),
        *(event.uuid for event in told.events),
        *pc.unique(told.samples["uuid"]).to_pylist(),
    }


def _alike(history: History, known: Callable[[GpuUuid], tuple[Gpu, int] | None]) -> object | None:
    """What two histories must share to be written as one; ``None``: this one is written alone."""
    if not len(history.samples) or history.processes or history.intruded or history.owners:
        return None
    measured = set(pc.unique(history.samples["uuid"]).to_pylist())
    described = {gpu.uuid for gpu in history.gpus}
    named = {*measured, *(held.allocation.uuid for held in history.held), *(e.uuid for e in history.events)}
    if any(uuid not in described and known(GpuUuid(uuid)) is None for uuid in named):
        return None
    for gpu in history.gpus:
        before = known(gpu.uuid)
        if gpu.parent_uuid is not None or (before is None and gpu.uuid not in measured):
            return None
        if before is not None and is_cut_anew(before[0], gpu):
            return None
    ends = history.samples["at_ms"]
    first_ms, last_ms = pc.min(ends).as_py(), pc.max(ends).as_py()
    newest = history.samples.filter(pc.equal(ends, last_ms))
    width_ms = pc.max(newest["width_ms"]).as_py()
    return history.source, first_ms // HOUR_MS, last_ms // HOUR_MS, width_ms


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

"""What nodes push, in the store: end_believed, clear_believed, given_by_head, clear_silences, set_node_marks.

How they play together is ``tests/collector/nodes/test_nodes_receiver.py``'s; here are their edges.
"""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from collector.arrow import SAMPLE_SCHEMA, HeldInterval, History
from collector.model import Allocation, ClaimSource, Gap, Gpu, GpuUuid, Holder, JobId, NodeName
from collector.reading import LAST_HEARD, LateTicks, NodeMark, Reading, Tick
from collector.store.database import Store
from collector.store.nodes import read_node_marks, read_node_owners
from tests.stores import open_store

NOW_MS = 1_800_000_000_000
NODE = NodeName("gpu-a")
GPU = Gpu(uuid=GpuUuid("GPU-1"), node=NODE, index=0)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(tmp_path / "fallow.duckdb") as made:
        yield made


def held_by(job: str, source: ClaimSource = ClaimSource.PROCESS) -> Allocation:
    return Allocation(uuid=GPU.uuid, holder=Holder(job=JobId(job)), source=source)


def tick(store: Store, at_ms: int, *held: Allocation, **more: object) -> None:
    reading = Reading(source="nodes", at_ms=at_ms, gpus=(GPU,), **more)  # type: ignore[arg-type]
    store.write_tick(Tick(at_ms=at_ms, width_ms=10_000, outcomes=(reading,), allocations=held))


def late(from_ms: int, to_ms: int, job: str) -> LateTicks:
    held = HeldInterval(allocation=held_by(job), from_ms=from_ms, to_ms=to_ms)
    told = History(source="nodes", gpus=(GPU,), samples=pa.Table.from_pylist([], SAMPLE_SCHEMA), held=(held,))
    return LateTicks(history=told, since={GPU.uuid: from_ms})


def rows(store: Store, text: str) -> list[tuple[object, ...]]:
    with store.reader() as reader:
        return reader.execute(text).fetchall()


HELD = (
    "SELECT job, epoch_ms(from_ts) - 1800000000000, epoch_ms(to_ts) - 1800000000000 FROM allocations "
    "JOIN holders USING (holder_id) ORDER BY from_ts"
)


def test_what_was_believed_ends_where_the_node_says_otherwise(store: Store) -> None:
    tick(store, NOW_MS, held_by("a"))
    tick(store, NOW_MS + 10_000, held_by("a"))
    tick(store, NOW_MS + 40_000, late=(late(NOW_MS + 5_000, NOW_MS + 20_000, "b"),))
    assert rows(store, HELD) == [("a", -10_000, 5_000), ("b", 5_000, 20_000)]


def test_what_the_head_itself_gave_out_is_no_nodes_to_tell(store: Store) -> None:
    slurm = held_by("slurm:1", ClaimSource.SLURM)
    tick(store, NOW_MS, slurm)
    tick(store, NOW_MS + 40_000, slurm, late=(late(NOW_MS + 5_000, NOW_MS + 20_000, "b"),))
    assert rows(store, HELD) == [("slurm:1", -10_000, None)]


def test_a_mark_is_the_newest_one_and_silence_ends_with_it(store: Store) -> None:
    silence = Gap(
        source="nodes",
        from_ms=NOW_MS,
        to_ms=NOW_MS + 60_000,
        reason=f"node {NODE}{LAST_HEARD}noon",
        node=NODE,
    )
    hole = Gap(source="nodes", from_ms=NOW_MS, to_ms=NOW_MS + 9_000, reason="off", node=NODE)
    tick(store, NOW_MS + 60_000, gaps=(silence, hole))
    assert len(rows(store, "FROM gaps")) == 2
    for sequence in (3, 9):
        mark = NodeMark(
            node=NODE,
            credential="t",
            machine="m",
            spool="s",
            version="v",
            sequence=sequence,
            at_ms=NOW_MS,
            lost=2,
        )
        tick(store, NOW_MS + 60_000 + sequence, marks=(mark,))
    with store.reader() as reader:
        assert [each.sequence for each in read_node_marks(reader)] == [9]
        assert read_node_owners(reader) == {GPU.uuid: (NODE, 0)}
    assert rows(store, "SELECT reason FROM gaps") == [("off",)]

"""An outage of the head: what many nodes kept is one history, with the rows that each alone would leave."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from collector.model import GpuUuid
from collector.reading import LateTicks, Reading, Tick
from collector.sources.nodes.receiver import NodeReceiver
from collector.store.database import Store
from collector.store.nodes import together
from tests.collector.nodes.nodes_world import START_MS, TICK_MS, Node, page
from tests.stores import open_store

AWAY = 9
"""Ticks without a head: a minute and a half."""
HEARD = 2
"""Ticks before it."""
TABLES = (
    "SELECT uuid, ts, width_ms, gpu_utilization_e4 FROM samples JOIN gpus USING (gpu_id)",
    "SELECT job, uuid, from_ts, to_ts, share, allocations.source FROM allocations "
    "JOIN holders USING (holder_id) JOIN gpus USING (gpu_id)",
    "SELECT job, first_seen FROM holders",
    "SELECT uuid, node, installed_from FROM gpus",
    "SELECT node, source, from_ts, to_ts, reason FROM gaps",
    "SELECT uuid, job, minute.* EXCLUDE (gpu_id, holder_id) FROM rollup_1m AS minute "
    "JOIN gpus ON gpus.gpu_id = minute.gpu_id LEFT JOIN holders ON holders.holder_id = minute.holder_id",
    "SELECT node, sequence, lost FROM node_marks",
)


def outage(store: Store, *, at_once: bool) -> None:
    """Three nodes push, the head is away, and all come back; each with its own jobs, times and a hole."""
    head = NodeReceiver(most_gpus=64)
    nodes = [Node(head, name=f"n{i}", credential=f"t{i}", machine=f"m{i}", spool=f"s{i}") for i in range(3)]
    for at in range(HEARD + AWAY):
        for i, node in enumerate(nodes):
            when = START_MS + at * TICK_MS + i * 137
            jobs = (f"slurm:{i}",) if at < 4 + i else (f"slurm:{i}-next", f"slurm:{i}-beside")
            if (i, at) != (1, 5):
                node.tick(when, page(when, node.name, gpus=1 + i % 2, jobs=jobs, tag=f"{i}-"))
            if at < HEARD and i != 2:  # the third is heard for the first time after the outage
                node.push(when + 400)
        if at < HEARD:
            drain(head, store, START_MS + at * TICK_MS + 1_000, at_once=at_once)
    now_ms = START_MS + (HEARD + AWAY - 1) * TICK_MS + 1_000
    for node in nodes:
        node.push(now_ms)
    for turn in range(2):
        drain(head, store, now_ms + turn * TICK_MS, at_once=at_once)


def drain(head: NodeReceiver, store: Store, now_ms: int, *, at_once: bool) -> None:
    reading = head.read(now_ms)
    if not at_once:  # a node's after the other's: a tick for each, all of the same time
        for late in reading.late:
            alone = Reading(source=reading.source, at_ms=now_ms, late=(late,))
            store.write_tick(Tick(at_ms=now_ms, width_ms=TICK_MS, outcomes=(alone,), allocations=None))
        reading = replace(reading, late=())
    tick = Tick(at_ms=now_ms, width_ms=TICK_MS, outcomes=(reading,), allocations=reading.allocations)
    store.write_tick(tick)
    head.stored(tick)


def tables(store: Store) -> list[list[tuple[object, ...]]]:
    with store.reader() as reader:
        return [reader.execute(f"{each} ORDER BY ALL").fetchall() for each in TABLES]


@pytest.mark.slow  # two stores, and each minute of them rolled up
def test_three_nodes_at_once_leave_what_each_alone_leaves(tmp_path: Path) -> None:
    found = []
    for at_once in (True, False):
        with open_store(tmp_path / str(at_once) / "fallow.duckdb") as store:
            outage(store, at_once=at_once)
            found.append(tables(store))
    for together_rows, alone in zip(*found, strict=True):
        assert together_rows and together_rows == alone
    # By hand: 11 ticks of nodes with 1, 2 and 1 GPUs, less the hole of the second.
    assert len(found[0][0]) == 11 * 4 - 2


def late_of(*nodes: str, at: int = 5) -> tuple[LateTicks, ...]:
    """What nodes of one GPU each bring after an outage; ``nodes`` are named by their GPU."""
    head, now_ms = NodeReceiver(most_gpus=64), START_MS + 60 * TICK_MS
    for i, tag in enumerate(nodes):
        node = Node(head, name=f"n{i}", credential=f"t{i}", machine=f"m{i}", spool=f"s{i}")
        when = START_MS + at * TICK_MS
        node.tick(when, page(when, node.name, tag=tag))
        node.push(now_ms)
    return head.read(now_ms).late


def counts(late: Sequence[LateTicks]) -> list[int]:
    """How many GPUs each history tells of."""
    return [len(each.history.gpus) for each in together(late, lambda uuid: None)]


def test_histories_are_one_where_no_two_tell_of_the_same_gpu() -> None:
    assert counts(late_of("a", "b", "c")) == [3]
    assert counts((*late_of("a", "b"), *late_of("b", "c"))) == [2, 1, 1]


def test_a_node_whose_spool_is_of_another_hour_is_a_history_of_its_own() -> None:
    # Else the minutes of all nodes were rolled up again over the day of one.
    assert counts((*late_of("a", "b"), *late_of("c", at=-600))) == [2, 1]


def test_a_gpu_cut_anew_stays_alone() -> None:
    (late,) = late_of("a")
    cut = replace(
        late, history=replace(late.history, gpus=(replace(late.history.gpus[0], share_of_device=0.5),))
    )
    known = {GpuUuid("GPU-a0"): (late.history.gpus[0], START_MS)}
    assert len(list(together((*late_of("b", "c"), cut), known.get))) == 2
    assert len(list(together((*late_of("b", "c"), late), known.get))) == 1

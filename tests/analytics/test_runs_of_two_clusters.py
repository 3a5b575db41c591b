"""Whose node accounting means by a name that nodes of two clusters have. Expected by hand, before the query.

Clusters a and b each have gpu-1 with four GPUs, measured from hour 0 to 10. Bob holds all of a's all the
time. In b nobody is named, but for a job with number 9 that holds GPUs 0 and 1 from hour 2 to 6.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from analytics.query import run
from collector.model import NodeName
from collector.store.database import Store
from tests.collector.store.store_parts import T0, TICK_MS, at_path, gpu, history, sample
from tests.collector.store.test_accounted_users import HOUR_MS, held, ran
from tests.stores import open_store


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    samples = [
        sample(number, T0 + step * HOUR_MS + (TICK_MS if not step else 0), width_ms=TICK_MS)
        for step in (0, 10)
        for number in range(8)
    ]
    gpus = tuple(
        gpu(number, node=NodeName("gpu-1.lab"), index=number % 4, cluster="ab"[number // 4])
        for number in range(8)
    )
    holds = [held(0, 10, number, "bob", "pid:gpu-1/7") for number in range(4)]
    holds += [held(2, 6, number, "ann", "slurm:9@b") for number in (4, 5)]
    runs = [
        replace(ran("ann", 2, 6, ("gpu-1",), cluster="B", number="9"), gpus=2),  # named by its label
        replace(ran("cy", 6, 8, ("gpu-1",), cluster="B", number="10"), gpus=3),  # named by nothing
        replace(ran("dee", 2, 6, ("gpu-1",), cluster="a", number="11"), gpus=2),  # all of a's are Bob's
        replace(
            ran("eve", 8, 10, ("gpu-1",), cluster="hpc", number="12"), gpus=1
        ),  # whose node, nobody knows
    ]
    with open_store(at_path(tmp_path_factory.mktemp("clusters"))) as filled:
        filled.write_history(replace(history(samples, holds), gpus=gpus))
        filled.write_accounted("slurm", runs)
        yield filled


def hours(store: Store, **more: object) -> dict[str | None, float]:
    window = {"from_ts": T0, "to_ts": T0 + 10 * HOUR_MS}
    with store.reader() as reader:
        rows: list[dict[str, Any]] = run(reader, "accounted_use", {**window, **more}).to_pylist()
    return {row["key"]: round(row["gpu_hours"], 3) for row in rows if row["gpu_hours"]}


def test_a_run_is_on_the_node_of_its_own_cluster(store: Store) -> None:
    """Cy's three for two hours, on b's node, where nobody held those; Eve's one may be any of either's."""
    assert hours(store) == {"cy": 6.0, "eve": 2.0}


def test_it_is_called_as_that_node_is(store: Store) -> None:
    assert hours(store, by="node") == {"gpu-1.lab@b": 6.0, "gpu-1": 2.0}
    assert hours(store, by="node", node="gpu-1.lab@b") == {"gpu-1.lab@b": 6.0}


def test_a_short_name_keeps_its_cluster(store: Store) -> None:
    given = ["gpu-1", "gpu-1.lab.example", "gpu-1@eu.west", "gpu-1.lab@eu.west"]
    with store.reader() as reader:
        told = [reader.execute("SELECT short_node(?)", [each]).fetchone() for each in given]
    assert told == [("gpu-1",), ("gpu-1",), ("gpu-1@eu.west",), ("gpu-1@eu.west",)]


def test_a_managers_nodes_are_those_of_its_cluster(store: Store) -> None:
    asked = "SELECT DISTINCT node FROM gpus WHERE is_managed_node('gpu-1', ?, node, host, cluster)"
    with store.reader() as reader:
        told = [reader.execute(asked, [cluster]).fetchall() for cluster in ("A", "hpc")]
    assert told == [[("gpu-1.lab@a",)], []]

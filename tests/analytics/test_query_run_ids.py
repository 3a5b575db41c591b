"""What a job's processes say of their runs: from a tick through the store to the named query, and no more."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from analytics.query import run
from collector.model import (
    Allocation,
    Basis,
    Gpu,
    GpuSample,
    GpuUuid,
    Holder,
    JobId,
    NodeName,
    Process,
    ProcessKey,
    ProcessSample,
)
from collector.reading import Reading, Tick
from collector.store.database import Store
from service.summaries.run_links import TRACKERS
from tests.stores import open_store

AT_MS = 1_793_188_800_000
NODE, GPU = NodeName("a"), GpuUuid("GPU-a0")
JOB = Holder(job=JobId("slurm:812"), user="ana", project="vision")
OTHER = Holder(job=JobId("slurm:9"), user="bo")
SAID = {"WANDB_RUN_ID": "3k2", "WANDB_PROJECT": "sweep", "RANK": "0", "CUDA_VISIBLE_DEVICES": "0"}


def process(pid: int, environment: dict[str, str]) -> Process:
    key = ProcessKey(node=NODE, pid=pid, started_ms=AT_MS - 60_000)
    return Process(key=key, user="ana", environment=tuple(sorted(environment.items())))


def tick(store: Store, at_ms: int, owned: dict[Process, Holder]) -> None:
    samples = (
        GpuSample(uuid=GPU, at_ms=at_ms, width_ms=10_000, rung=Basis.SM_ACTIVE, utilization_ratio=0.5),
    )
    reading = Reading(
        source="hand",
        at_ms=at_ms,
        gpus=(Gpu(uuid=GPU, node=NODE, index=0),),
        samples=samples,
        processes=tuple(owned),
        process_samples=tuple(
            ProcessSample(uuid=GPU, key=each.key, at_ms=at_ms, width_ms=10_000) for each in owned
        ),
    )
    held = tuple(Allocation(uuid=GPU, holder=holder) for holder in dict.fromkeys(owned.values()))
    store.write_tick(
        Tick(
            at_ms=at_ms,
            width_ms=10_000,
            outcomes=(reading,),
            allocations=held,
            owners=tuple((each.key, holder.job) for each, holder in owned.items()),
        )
    )


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(tmp_path / "fallow.duckdb") as opened:
        yield opened


def asked(store: Store, job: str = "slurm:812") -> list[dict[str, Any]]:
    with store.reader() as reader:
        return run(reader, "run_ids", {"job": job}).to_pylist()


def test_workers_that_say_the_same_are_one_saying_without_their_other_variables(store: Store) -> None:
    workers = {process(pid, SAID | {"RANK": str(pid)}): JOB for pid in (1, 2, 3)}
    tick(store, AT_MS, workers | {process(9, {"WANDB_RUN_ID": "not-mine"}): OTHER})
    rows = asked(store)
    assert {row["user_name"] for row in rows} == {JOB.user}
    assert [(row["said"], row["name"], row["value"], row["processes"]) for row in rows] == [
        (1, "WANDB_PROJECT", "sweep", 3),
        (1, "WANDB_RUN_ID", "3k2", 3),
    ]


def test_the_newest_saying_comes_first(store: Store) -> None:
    tick(store, AT_MS, {process(1, SAID): JOB})
    tick(store, AT_MS + 10_000, {process(2, SAID | {"WANDB_RUN_ID": "next"}): JOB})
    rows = asked(store)
    assert [(row["said"], row["value"]) for row in rows if row["name"] == "WANDB_RUN_ID"] == [
        (1, "next"),
        (2, "3k2"),
    ]


def test_a_job_that_says_nothing_has_no_row(store: Store) -> None:
    tick(store, AT_MS, {process(1, {"RANK": "0"}): JOB, process(2, {"WANDB_RUN_ID": ""}): JOB})
    tick(store, AT_MS + 10_000, {replace(process(3, {}), unreadable=("environ: permission denied",)): JOB})
    assert asked(store) == [] and asked(store, "slurm:1") == []


def test_every_variable_that_a_tracker_is_read_from_passes(store: Store) -> None:
    names = {name for each in TRACKERS for name in (*each.parts.values(), each.base) if name is not None}
    tick(store, AT_MS, {process(1, dict.fromkeys(names, "x")): JOB})
    assert {row["name"] for row in asked(store)} == names

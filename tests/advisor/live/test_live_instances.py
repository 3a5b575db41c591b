"""A GPU that is cut by MIG, from driver to plan: a share gets the smallest instance that holds it."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from advisor.actions import Start
from advisor.decide import decide
from advisor.live.snapshot import Site, read_live
from advisor.live.stored_analysis import Judged, recorded_analysis
from advisor.planner.limits import PlannerConfig
from advisor.state.model import ClusterState, Job, ProjectName
from analytics.query import run
from collector.model import (
    JobId,
    NodeName,
)
from collector.reading import Reading, Tick
from collector.sources.nvml.source import NvmlOptions, NvmlSource
from tests.driver.driver import CompilerMissing, Driver
from tests.stores import open_store

NOW_MS = 1_800_000_000_000
PARTS = (("1g.10gb", 1, 10), ("2g.20gb", 2, 20), ("3g.40gb", 3, 40))
GIB = 1 << 30


@pytest.fixture
def cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[ClusterState, dict[str, str]]]:
    """The state of a machine with one whole GPU and one that is cut, and the instances' UUIDs by profile."""
    try:
        driver = Driver(tmp_path, gpus=2)
    except CompilerMissing as missing:
        pytest.skip(str(missing))
    for name, value in driver.variables().items():
        monkeypatch.setenv(name, value)
    uuids = dict(zip((part[0] for part in PARTS), driver.gpu(0).partition(*PARTS), strict=True))
    source = NvmlSource(node=NodeName("node-a"), options=NvmlOptions(processes_every=1, host_pids=True))
    with driver, open_store(tmp_path / "fallow.duckdb") as store:
        driver.clock_us = NOW_MS * 1000
        reading = source.read(NOW_MS)
        source.close()
        assert isinstance(reading, Reading), reading
        store.write_tick(Tick(at_ms=NOW_MS, width_ms=10_000, outcomes=(reading,), allocations=()))
        with store.reader() as reader:

            def ask(name: str, given: Any) -> list[dict[str, Any]]:
                return run(reader, name, given).to_pylist()

            analysis = recorded_analysis((), (), NOW_MS, judged=Judged(at_ms=NOW_MS, good_for_ms=0))
            yield read_live(ask, analysis, Site(), PlannerConfig()).state, uuids


def started(state: ClusterState, share: float, gib: int | None = None) -> Start:
    memory = None if gib is None else gib * GIB
    job = Job(id=JobId("j"), project=ProjectName("p"), share=share, memory_bytes=memory, preemptible=True)
    (step,) = decide(replace(state, jobs={job.id: job})).steps
    assert isinstance(step, Start)
    return step


@pytest.mark.parametrize(
    ("share", "gib", "profile"),
    [(0.1, None, "1g.10gb"), (0.25, None, "2g.20gb"), (0.1, 15, "2g.20gb"), (0.25, 30, "3g.40gb")],
)
def test_a_share_gets_the_smallest_instance_that_the_driver_has(
    cut: tuple[ClusterState, dict[str, str]], share: float, gib: int | None, profile: str
) -> None:
    state, uuids = cut
    step = started(state, share, gib)
    assert (step.gpus, step.share) == ((uuids[profile],), 1.0)


def test_a_share_that_no_instance_holds_lies_on_the_whole_gpu(
    cut: tuple[ClusterState, dict[str, str]],
) -> None:
    state, uuids = cut
    step = started(state, 0.5)
    assert step.share == 0.5
    assert state.gpus[step.gpus[0]].part_of_device is None and step.gpus[0] not in uuids.values()

"""What every Source owes the loop, whatever it reads: run over each kind of source.

To add yours: a factory that takes pytest's ``request`` and returns a ``Case``, and its name in ``CASES``.
A factory may skip, naming what is missing.
"""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from collector.inventory.leases import Lease, LeaseSource
from collector.managers.slurm.reader import SlurmManager
from collector.managers.source import ManagerSource
from collector.model import (
    Gpu,
    GpuUuid,
    JobId,
    NodeName,
    Unavailable,
)
from collector.reading import Reading
from collector.source import Source
from collector.sources.nvml.source import NvmlOptions, NvmlSource
from collector.sources.replay.mapping import mapping_from
from collector.sources.replay.read import open_replay
from collector.sources.simulated.cluster import SimulatedCluster
from tests.collector.dcgm import dcgm_cases
from tests.collector.managers.slurm_world import World
from tests.driver.driver import UNKNOWN, CompilerMissing, Driver

START_MS = 1_800_000_000_000
TICK_MS = 10_000


def nothing() -> None:
    """The outside world does nothing."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """A source, and how to break and mend the outside world it reads; ``advance`` is told each new time."""

    source: Source
    break_world: Callable[[], None] = nothing
    mend_world: Callable[[], None] = nothing
    advance: Callable[[int], None] = field(default=lambda now_ms: None)
    start_ms: int = START_MS
    tick_ms: int = TICK_MS


def nvml(request: pytest.FixtureRequest) -> Case:
    """NVML on the stand-in driver: a plain GPU, a partitioned one, and a process on each."""
    try:
        driver = Driver(request.getfixturevalue("tmp_path"), gpus=3)
    except CompilerMissing as missing:
        pytest.skip(str(missing))
    request.addfinalizer(driver.close)
    for name, value in driver.variables().items():
        request.getfixturevalue("monkeypatch").setenv(name, value)
    driver.gpu(0).process(os.getpid())
    driver.gpu(1).partition(("1g.10gb", 1, 10), ("3g.40gb", 3, 40))
    driver.gpu(1).process(os.getpid(), instance=(2, 0))
    options = NvmlOptions(host_pids=True, processes_every=2)

    def break_world() -> None:
        driver.fail("nvmlInitWithFlags", UNKNOWN)
        driver.fail("nvmlDeviceGetCount_v2", UNKNOWN)

    return Case(
        source=NvmlSource(node=NodeName("node-a"), options=options),
        break_world=break_world,
        mend_world=driver.heal,
        advance=lambda now_ms: setattr(driver, "clock_us", now_ms * 1000),
    )


def dcgm(request: pytest.FixtureRequest) -> Case:
    """Two dcgm-exporters of different versions over HTTP."""
    source, world = dcgm_cases.dcgm(request)
    return Case(source=source, break_world=world.breaks, mend_world=world.mends, advance=world.passes)


def peer(request: pytest.FixtureRequest) -> Case:
    """Another Fallow's metrics over HTTP."""
    source, world = dcgm_cases.peer(request)
    return Case(source=source, break_world=world.breaks, mend_world=world.mends, advance=world.passes)


def simulated(_: pytest.FixtureRequest) -> Case:
    """The simulated cluster, whole."""
    return Case(source=SimulatedCluster(seed=2).source())


def replay(request: pytest.FixtureRequest) -> Case:
    """A recording of two GPUs that begins when the suite does and outlasts it."""
    path = request.getfixturevalue("tmp_path") / "log.csv"
    rows = (f"{1_700_000_000 + s},gpu-{g},{s % 101},7" for s in range(0, 3600, 5) for g in (0, 1))
    path.write_text("\n".join(("time,gpu,util,job", *rows)))
    given = {
        "time": {"column": "time", "unit": "s"},
        "gpu": "gpu",
        "sample": {"gpu_utilization_ratio": {"column": "util", "unit": "percent"}},
        "holder": {"job": "job"},
    }
    return Case(source=open_replay(path, starts_ms=START_MS, mapping=mapping_from(given, "the suite")))


def slurm(_: pytest.FixtureRequest) -> Case:
    """Slurm's programs, whose controller can fall silent."""
    world = World()
    reason = "squeue ended with 1: slurm_load_jobs error"
    return Case(
        source=ManagerSource(SlurmManager(run=world.run)),
        break_world=lambda: world.failing.update(squeue=reason),
        mend_world=world.failing.clear,
    )


def leases(_: pytest.FixtureRequest) -> Case:
    """Fallow's own leases, and a store that cannot be asked for a while."""
    world = {"broken": False}

    def open_leases() -> list[Lease]:
        if world["broken"]:
            raise OSError("disk full")
        return [Lease(gpu_uuid=GpuUuid("GPU-a"), job=JobId("run-7"))]

    return Case(
        source=LeaseSource(open_leases),
        break_world=lambda: world.update(broken=True),
        mend_world=lambda: world.update(broken=False),
    )


def none_of(_: object) -> None:
    """For a change to the world whose result nobody needs."""


CASES: dict[str, Callable[[pytest.FixtureRequest], Case]] = {
    "nvml": nvml,
    "dcgm": dcgm,
    "peer": peer,
    "simulated": simulated,
    "replay": replay,
    "slurm": slurm,
    "leases": leases,
}


class Ticking:
    """Reads the case's source tick by tick."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.now_ms = case.start_ms

    def read(self) -> Reading | Unavailable:
        self.now_ms += self.case.tick_ms
        self.case.advance(self.now_ms)
        return self.case.source.read(self.now_ms)

    def readings(self, count: int) -> list[Reading]:
        outcomes = [self.read() for _ in range(count)]
        held = [outcome for outcome in outcomes if isinstance(outcome, Reading)]
        assert held, f"{self.case.source.name} never gave a reading: {outcomes}"
        return held


@pytest.fixture(params=CASES)
def ticking(request: pytest.FixtureRequest) -> Ticking:
    case = CASES[request.param](request)
    request.addfinalizer(case.source.close)
    return Ticking(case)


def ratios(row: object) -> dict[str, float]:
    return {
        name: value
        for name in type(row).__dataclass_fields__  # type: ignore[attr-defined]
        if name.endswith("_ratio") and (value := getattr(row, name)) is not None
    }


def test_the_name_is_stable_and_stands_in_every_outcome(ticking: Ticking) -> None:
    name = ticking.case.source.name
    assert name
    for _ in range(3):
        assert ticking.read().source == name
    assert ticking.case.source.name == name


def test_outcomes_bear_the_time_they_were_asked_for(ticking: Ticking) -> None:
    for _ in range(3):
        outcome = ticking.read()
        assert outcome.at_ms == ticking.now_ms
        assert outcome.duration_ms >= 0


def test_widths_are_positive_and_nothing_is_measured_in_the_future(ticking: Ticking) -> None:
    for reading in ticking.readings(4):
        rows = [*reading.samples, *(reading.process_samples or ())]
        assert all(row.width_ms > 0 for row in rows)
        assert all(row.at_ms <= reading.at_ms for row in rows)
        assert all(gap.from_ms < gap.to_ms for gap in reading.gaps)


def test_every_sample_is_of_a_gpu_that_the_reading_describes_once(ticking: Ticking) -> None:
    for reading in ticking.readings(4):
        described = [gpu.uuid for gpu in reading.gpus]
        assert len(described) == len(set(described))
        sampled = [(row.uuid, row.at_ms) for row in reading.samples]
        assert len(sampled) == len(set(sampled))
        named = {uuid for uuid, _ in sampled} | {row.uuid for row in reading.process_samples or ()}
        named |= {gap.uuid for gap in reading.gaps if gap.uuid}
        assert named <= set(described)


def test_instances_belong_to_a_described_gpu_and_shares_do_not_exceed_it(ticking: Ticking) -> None:
    for reading in ticking.readings(2):
        by_uuid: dict[str, Gpu] = {gpu.uuid: gpu for gpu in reading.gpus}
        share = {uuid: gpu.share_of_device for uuid, gpu in by_uuid.items() if not gpu.parent_uuid}
        for gpu in reading.gpus:
            if gpu.parent_uuid:
                assert by_uuid[gpu.parent_uuid].node == gpu.node
                share[gpu.parent_uuid] += gpu.share_of_device
        assert all(0 < total <= 1 + 1e-9 for total in share.values())


def test_ratios_lie_between_zero_and_one(ticking: Ticking) -> None:
    for reading in ticking.readings(4):
        for row in [*reading.samples, *(reading.process_samples or ())]:
            assert all(0 <= value <= 1 for value in ratios(row).values()), row


def test_every_process_sample_is_of_a_process_in_the_reading(ticking: Ticking) -> None:
    for reading in ticking.readings(4):
        assert (reading.processes is None) == (reading.process_samples is None)
        known = {process.key for process in reading.processes or ()}
        assert {row.key for row in reading.process_samples or ()} <= known


def test_the_best_rung_is_the_utilization(ticking: Ticking) -> None:
    for reading in ticking.readings(4):
        for row in reading.samples:
            best = (
                None,
                row.gpu_utilization_ratio,
                row.graphics_active_ratio,
                row.sm_active_ratio,
            )[row.rung]
            assert row.utilization_ratio == best


def test_faults_of_the_world_are_values_and_pass_when_it_is_mended(ticking: Ticking) -> None:
    ticking.readings(2)
    ticking.case.break_world()
    for _ in range(3):
        outcome = ticking.read()
        if isinstance(outcome, Unavailable):
            assert outcome.reason
    ticking.case.mend_world()
    ticking.now_ms += 600_000
    assert isinstance(ticking.readings(2)[-1], Reading)


def test_closing_gives_back_what_reading_took_and_may_be_done_twice(ticking: Ticking) -> None:
    before = taken()
    ticking.readings(2)
    ticking.case.source.close()
    after = _settled(before)
    assert after == before, "descriptors and child processes"
    ticking.case.source.close()
    assert taken() == after


def taken() -> tuple[int, frozenset[str]]:
    """How many descriptors this process has open, and its child processes."""
    children = (path.read_text() for path in Path("/proc/self/task").glob("*/children"))
    return sum(1 for _ in Path("/proc/self/fd").iterdir()), frozenset(" ".join(children).split())


def _settled(expected: tuple[int, frozenset[str]]) -> tuple[int, frozenset[str]]:
    """What is taken, once the other ends of closed connections (in this process too) have let go."""
    deadline = time.monotonic() + 10
    while (now := taken()) != expected and time.monotonic() < deadline:
        time.sleep(0.01)
    return now

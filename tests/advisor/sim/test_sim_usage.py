"""What the world remembers of each project's use: the same as the whole list of samples would say."""

from collections.abc import Mapping
from time import perf_counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.actions import Start
from advisor.planner.fair_share import UsageSample, remembered
from advisor.planner.limits import Limits
from advisor.sim.cluster import Cluster
from advisor.sim.usage import SAMPLE_S, WINDOW_SAMPLES, UseMemory
from advisor.sim.workload import TraceJob, Work, Workload
from advisor.sim.world import START_MS, Physics, World
from advisor.state.model import ProjectName
from collector.model import GpuUuid, JobId
from tests.searches import examples

CAPACITY = 8.0
HELD = st.dictionaries(st.sampled_from(("vision", "speech")), st.sampled_from((0.0, 0.5, 3.0, 8.0)))
ROUNDS = st.lists(
    st.tuples(HELD, st.sampled_from((1, 7, WINDOW_SAMPLES // 2, WINDOW_SAMPLES + 3))), min_size=1, max_size=5
)


@pytest.mark.slow
@given(rounds=ROUNDS)
@settings(max_examples=examples(30, 100))
def test_the_running_sum_is_what_all_samples_of_the_window_say(
    rounds: list[tuple[Mapping[str, float], int]],
) -> None:
    memory, samples = UseMemory(CAPACITY, 0), []
    for held, times in rounds:
        for _ in range(times):
            samples.append((memory.due_ms, held))
            memory.sample(held)
    now_ms = samples[-1][0]
    found = memory.usage()
    for project in ("vision", "speech"):
        listed = [
            UsageSample(
                at_ms=at_ms,
                allocated_gpus=held.get(project, 0.0),
                held_idle_gpus=0.0,
                capacity_gpus=CAPACITY,
            )
            for at_ms, held in samples
        ]
        wanted = remembered(listed, now_ms, Limits()).allocated_ratio
        got = found.get(ProjectName(project))
        assert (0.0 if got is None else got.allocated_ratio) == pytest.approx(wanted, abs=1e-9)


@given(rounds=ROUNDS, gone=st.sampled_from((0, 1, 5, WINDOW_SAMPLES)))
def test_a_long_time_that_is_jumped_over_leaves_what_all_its_samples_would(
    rounds: list[tuple[Mapping[str, float], int]], gone: int
) -> None:
    each, jumping = UseMemory(CAPACITY, 0), UseMemory(CAPACITY, 0)
    for held, times in rounds:
        to_ms = each.due_ms + (times + gone) * SAMPLE_S * 1000
        while each.due_ms <= to_ms:
            each.sample(held)
        jumping.sample_to(to_ms, held)
        assert jumping.due_ms == each.due_ms
        wanted = {name: use.allocated_ratio for name, use in each.usage().items()}
        for name, use in jumping.usage().items():
            assert use.allocated_ratio == pytest.approx(wanted[name], abs=1e-9)


def test_centuries_without_an_event_are_over_at_once() -> None:
    job = TraceJob(name="late", project="vision", submitted_s=1e10, gpus=1, work=Work(steps=60.0))
    world = World(Cluster(nodes=1, gpus_per_node=4), Workload(origin="test", jobs=(job,)), Physics())
    began = perf_counter()
    world.advance(START_MS + 10_000_000_000_000)
    assert world.state.jobs
    assert perf_counter() - began < 1


def test_a_world_charges_what_a_project_held_and_forgets_nothing_while_no_job_comes() -> None:
    job = TraceJob(name="a", project="vision", submitted_s=0.0, gpus=2, work=Work(steps=3600.0))
    world = World(Cluster(nodes=1, gpus_per_node=4), Workload(origin="test", jobs=(job,)), Physics())
    world.advance(START_MS)
    assert not world.observe().usage
    world.do(Start(job=JobId("a"), gpus=(GpuUuid("node-00000-00"), GpuUuid("node-00000-01"))))
    world.sleep(1800)
    assert world.observe().usage["vision"].allocated_ratio == pytest.approx(0.5)
    world.sleep(1800 + 3600)
    assert world.observe().usage["vision"].allocated_ratio == pytest.approx(0.25, rel=0.05)

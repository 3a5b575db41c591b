"""What no schedule gets below: exact where the best schedule is known, and under every simulated one."""

from statistics import fmean

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.sim.cluster import Cluster
from advisor.sim.compare import Setting, compare
from advisor.sim.score import alone_bound_s
from advisor.sim.workload import TraceJob, Work, Workload
from advisor.sim.world import Physics
from bench.schedules.offline import offline_bound

HOUR_S = 3600.0


class Saturating:
    """Four GPUs are three times as fast as one, and so on: each GPU less worth than the one before."""

    def step_s(self, counts: tuple[int, ...]) -> float:
        return sum(counts) ** -0.8


class Perfect:
    """Steps that halve with twice the GPUs."""

    def step_s(self, counts: tuple[int, ...]) -> float:
        return 1.0 / sum(counts)


def job(name: str, seconds: float, at_s: float = 0.0, most: int = 1, times: object = None) -> TraceJob:
    return TraceJob(
        name=name,
        project="lab",
        submitted_s=at_s,
        gpus=1,
        min_gpus=1,
        max_gpus=most,
        work=Work(steps=seconds, times=times or Perfect()),  # type: ignore[arg-type]
    )


def bound(*jobs: TraceJob, gpus: int = 4) -> float:
    return offline_bound(Workload(origin="test", jobs=jobs), gpus, 4, most_turns=500).least_s


def test_a_job_alone_takes_what_it_takes_on_its_best_size() -> None:
    alone = job("a", 4 * HOUR_S, at_s=70.0, most=4, times=Saturating())
    assert bound(alone) == pytest.approx(4 * HOUR_S / 4**0.8, rel=0.01)


@pytest.mark.slow
def test_two_jobs_on_one_gpu_go_one_after_the_other() -> None:
    assert bound(job("a", HOUR_S), job("b", HOUR_S), gpus=1) == pytest.approx(1.5 * HOUR_S, rel=0.01)


def test_perfect_scaling_is_the_shortest_first_on_all_gpus_also_when_it_comes_later() -> None:
    long, short = job("long", 8 * HOUR_S, most=4), job("short", HOUR_S, at_s=HOUR_S, most=4)
    assert bound(long, short) == pytest.approx(fmean([2.25 * HOUR_S, 0.25 * HOUR_S]), rel=0.01)


def test_jobs_that_scale_badly_share_instead() -> None:
    """Two at once on two GPUs each are faster on average than one after the other on four."""
    pair = [job(name, HOUR_S, most=4, times=Saturating()) for name in "ab"]
    in_turn = fmean([1, 2]) * HOUR_S / 4**0.8
    found = bound(*pair)
    assert found < min(in_turn, HOUR_S / 2**0.8)
    assert found > HOUR_S / 4**0.8


@settings(max_examples=12)
@given(
    st.lists(
        st.tuples(st.integers(5, 120), st.integers(0, 240), st.integers(1, 4), st.booleans()),
        min_size=1,
        max_size=7,
    )
)
def test_no_policy_is_below_it_and_it_is_not_below_the_other_bounds(
    drawn: list[tuple[int, int, int, bool]],
) -> None:
    jobs = tuple(
        job(f"j{at}", minutes * 60.0, at_s=later * 60.0, most=most, times=Saturating() if bent else Perfect())
        for at, (minutes, later, most, bent) in enumerate(sorted(drawn, key=lambda each: each[1]))
    )
    workload = Workload(origin="test", jobs=jobs)
    least = offline_bound(workload, 4, 4).least_s
    free = Physics(start_s=lambda _: 0.0, resize_s=lambda _: 0.0)
    setting = Setting(cluster=Cluster(nodes=1, gpus_per_node=4), physics=free)
    for policy in ("fallow", "fifo", "srtf", "las"):
        assert compare(workload, [policy], setting).scores[policy].avg_jct_s >= least - 1e-6
    assert least >= 0.99 * alone_bound_s(workload, 4, 4)

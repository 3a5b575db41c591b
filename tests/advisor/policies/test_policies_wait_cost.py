"""How long a gang would wait without help: what is reported counts, the rest is a guess."""

from collections.abc import Mapping
from math import log
from typing import Any

import pytest

from advisor.planner.limits import Limits, PlannerConfig
from advisor.planner.observed import Observed
from advisor.planner.run_lengths import RunLengths
from advisor.policies import consolidate, memory_cap
from advisor.policies.wait_cost import freeing, spared_s
from advisor.state.model import ClusterState, Job, Phase, Profile, Use
from tests.advisor.policies.scene import (
    GIB,
    H100,
    HOUR_MS,
    NOW_MS,
    advised,
    cluster,
    gpu,
    job,
    observed,
    reports,
    use,
)

RULES, LIMITS = PlannerConfig(), Limits()
HOUR_S = 3600


def gang(gpus: int = 1, name: str = "gang", **changes: Any) -> Job:
    """It says that it will run for a day, unless told otherwise."""
    says = {"profile": Profile(step_s={gpus: 1.0}, steps_left=86_400.0), "min_gpus": gpus, "max_gpus": gpus}
    return job(name, phase=Phase.PENDING, started_ms=None, use=Use.UNKNOWN, **(says | changes))


def waits(state: ClusterState, one: Job, ahead: Mapping[int, int] | None = None) -> float:
    """``ahead``: GPUs that those before it want, by the size of their gangs."""
    return spared_s(freeing(state, 4 * HOUR_S, RunLengths.of()), one, ahead or {})


def test_a_gpu_is_free_when_the_last_job_on_it_has_ended_and_others_come_first() -> None:
    halves = [
        (job(name, share=0.5, profile=reports(steps)), (on,))
        for name, steps, on in (("a", 60, "g0"), ("b", 6000, "g0"), ("c", 600, "g1"))
    ]
    state = cluster(halves, gpus=(gpu("g0"), gpu("g1")))
    assert waits(state, gang()) == pytest.approx(600, rel=0.15)
    assert waits(state, gang(), {1: 1}) == pytest.approx(6000, rel=0.15)
    assert waits(state, gang(2)) == pytest.approx(6000, rel=0.15)
    assert waits(state, gang(3)) == pytest.approx(4 * HOUR_S)


def test_of_many_gpus_one_is_free_long_before_any_single_one_is_likely_to_be() -> None:
    one = cluster([(job("a"), ("g0",))], gpus=(gpu("g0"),))
    many = cluster([(job(f"j{at}"), (f"g{at}",)) for at in range(8)])
    assert waits(one, gang()) == pytest.approx(10.5 * HOUR_S * log(14.5 / 10.5), rel=0.02)
    assert waits(many, gang()) == pytest.approx(10.5 / 7 * (1 - (10.5 / 14.5) ** 7) * HOUR_S, rel=0.02)


def test_the_gpus_of_a_gang_come_free_at_once_and_not_the_sooner_for_being_many() -> None:
    gang_of_eight = cluster([(job("a", min_gpus=8, max_gpus=8), tuple(f"g{at}" for at in range(8)))])
    alone = cluster([(job("a"), ("g0",))], gpus=(gpu("g0"),))
    assert waits(gang_of_eight, gang()) == pytest.approx(waits(alone, gang()))


def test_what_ends_in_one_piece_goes_to_a_larger_gang_before_it() -> None:
    ends = Profile(step_s={8: 1.0}, steps_left=600.0)
    large = job("large", min_gpus=8, max_gpus=8, profile=ends)
    state = cluster([(large, tuple(f"g{at}" for at in range(8)))])
    assert waits(state, gang(2)) == pytest.approx(600, rel=0.15)
    assert waits(state, gang(2), {4: 4}) == pytest.approx(600, rel=0.15), "four are left"
    assert waits(state, gang(2), {4: 8}) == pytest.approx(4 * HOUR_S), "two of four have them all"
    assert waits(state, gang(2), {8: 8}) == pytest.approx(4 * HOUR_S)
    assert waits(state, gang(2), {16: 16}) == pytest.approx(600, rel=0.15), "eight do not help sixteen"


def test_only_gpus_that_the_gang_may_have_are_waited_for() -> None:
    there = (gpu("g0", protected=True), gpu("g1", model="NVIDIA L4"), gpu("g2"))
    state = cluster([(job("a", profile=reports(600)), ("g2",))], gpus=there)
    assert waits(state, gang()) == 0
    assert waits(state, gang(gpu_models=(H100,))) == pytest.approx(600, rel=0.15)
    assert waits(state, gang(memory_bytes=100 * GIB)) == pytest.approx(4 * HOUR_S)


def halves(*, left: float, waiting: tuple[Job, ...]) -> Any:
    jobs = [
        (job("a", share=0.5, may_share=True, profile=reports(left)), ("g0",)),
        (job("b", share=0.5, may_share=True, profile=reports(10 * left)), ("g1",)),
    ]
    return cluster(jobs, gpus=(gpu("g0"), gpu("g1")), waiting=waiting)


def test_moves_are_worth_the_time_that_the_gang_would_have_waited() -> None:
    cost = 0.5 * RULES.move_s / HOUR_S
    for left, brief, hours in (
        (1800, {}, 0.5),
        (5 * HOUR_S, {}, 4),
        (5 * HOUR_S, {"profile": reports(7200)}, 2),
    ):
        state = halves(left=left, waiting=(gang(**brief),))
        (advice,) = advised(consolidate.advise(state, Observed(), LIMITS, RULES))
        assert advice.gain_gpu_hours == pytest.approx(hours - cost, rel=0.15)


def test_a_gang_that_does_not_say_how_long_it_runs_is_taken_to_run_half_an_hour_as_likely_as_not() -> None:
    state = cluster([(job("a", profile=reports(5 * HOUR_S)), ("g0",))], gpus=(gpu("g0"),))
    assert waits(state, gang(profile=None)) == pytest.approx(0.5 * log(4.5 / 0.5) * HOUR_S, rel=0.02)
    assert waits(state, gang(profile=None, limit_s=1800.0)) == pytest.approx(0.5 * log(2) * HOUR_S, rel=0.1)


def test_a_gang_that_is_about_to_start_is_not_worth_a_move() -> None:
    assert not advised(consolidate.advise(halves(left=50, waiting=(gang(),)), Observed(), LIMITS, RULES))


def test_those_before_it_take_their_gpus_first_but_for_larger_ones() -> None:
    for size, expected in ((1, 4.0), (2, 0.5)):
        before = gang(size, "before", submitted_ms=NOW_MS - 20 * HOUR_MS)
        state = halves(left=1800, waiting=(before, gang()))
        mine = [
            each
            for each in advised(consolidate.advise(state, Observed(), LIMITS, RULES))
            if each.job == gang().id
        ]
        assert mine[0].gain_gpu_hours == pytest.approx(expected, rel=0.1)


@pytest.mark.parametrize(("left", "hours"), [(HOUR_S, 1.0), (9 * HOUR_S, 4.0)])
def test_memory_is_not_promised_for_longer_than_the_job_says_it_runs(left: float, hours: float) -> None:
    hog = job("hog", memory_held_bytes=70 * GIB, profile=reports(left))
    seen = observed(use("hog", memory_needed_bytes=10 * GIB))
    (advice,) = advised(memory_cap.advise(cluster([(hog, ("g0",))]), seen, LIMITS, RULES))
    assert advice.gain_gpu_hours == pytest.approx(hours * (60 * GIB - RULES.context_bytes) / (80 * GIB))


def test_of_a_shared_gpu_no_more_is_promised_than_nobody_was_given() -> None:
    hog = job("hog", share=0.5, memory_held_bytes=60 * GIB, profile=reports(HOUR_S))
    seen = observed(use("hog", memory_needed_bytes=10 * GIB))
    for beside, part in ((), 0.5), ((job("guest", share=0.4),), 0.1):
        state = cluster([(hog, ("g0",)), *((one, ("g0",)) for one in beside)])
        (advice,) = (a for a in advised(memory_cap.advise(state, seen, LIMITS, RULES)) if a.job == hog.id)
        assert advice.gain_gpu_hours == pytest.approx(part)

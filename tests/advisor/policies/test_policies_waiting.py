"""How long a gang would wait without help: what is reported counts, the rest is a guess."""

from dataclasses import replace
from math import inf
from typing import Any

import pytest

from advisor.limits import Limits
from advisor.model import Job, Phase, Profile, Use
from advisor.observed import Observed
from advisor.policies import cap_memory, consolidate
from advisor.policies.waiting import left_s, wait_s
from advisor.rules import AdviceRules
from tests.advisor.policies.scene import GIB, HOUR_MS, NOW_MS, advised, cluster, gpu, job, observed, use

RULES, LIMITS = AdviceRules(), Limits()
HOUR_S = 3600


def reports(steps: float) -> Profile:
    return Profile(step_s={1: 1.0}, steps_left=steps)


def gang(gpus: int = 1, name: str = "gang", **changes: Any) -> Job:
    return job(
        name, phase=Phase.PENDING, started_ms=None, use=Use.UNKNOWN, min_gpus=gpus, max_gpus=gpus, **changes
    )


def test_a_job_ends_when_it_says_so_and_else_after_as_long_again() -> None:
    state = cluster(
        [
            (job("told", profile=reports(90)), ("g0",)),
            (job("ran-ten-hours"), ("g1",)),
            (job("ends-by-its-limit", limit_s=10.5 * HOUR_S), ("g2",)),
            (job("over-its-limit", limit_s=9.0 * HOUR_S), ("g3",)),
            (job("nobody-knows", started_ms=None), ("g4",)),
        ]
    )
    found = {name: left_s(state, each) for name, each in state.jobs.items()}
    assert list(found.values()) == [90, 10 * HOUR_S, HOUR_S / 2, 0, inf]


def test_a_gpu_is_free_when_the_last_job_on_it_has_ended_and_others_come_first() -> None:
    halves = [
        (job(name, share=0.5, profile=reports(steps)), (on,))
        for name, steps, on in (("a", 60, "g0"), ("b", 600, "g0"), ("c", 300, "g1"))
    ]
    state = cluster(halves, gpus=(gpu("g0"), gpu("g1")))
    assert wait_s(state, gang()) == 300
    assert wait_s(state, gang(), ahead_gpus=1) == 600
    assert wait_s(state, gang(2)) == 600
    assert wait_s(state, gang(3)) == inf


def test_only_gpus_that_the_gang_may_have_are_waited_for() -> None:
    there = (gpu("g0", protected=True), gpu("g1", model="NVIDIA L4"), gpu("g2"))
    state = cluster([(job("a", profile=reports(60)), ("g2",))], gpus=there)
    assert wait_s(state, gang()) == 0
    assert wait_s(state, gang(gpu_models=(there[2].model,))) == 60
    assert wait_s(state, gang(memory_bytes=100 * GIB)) == inf


def halves(*, left: float, waiting: tuple[Job, ...]) -> Any:
    jobs = [
        (job("a", share=0.5, may_share=True, profile=reports(left)), ("g0",)),
        (job("b", share=0.5, may_share=True, profile=reports(10 * left)), ("g1",)),
    ]
    return cluster(jobs, gpus=(gpu("g0"), gpu("g1")), waiting=waiting)


def test_moves_are_worth_the_time_that_the_gang_would_have_waited() -> None:
    cost = 0.5 * RULES.move_s / HOUR_S
    for left, brief, hours in ((1800, {}, 0.5), (5 * HOUR_S, {}, 4), (5 * HOUR_S, {"limit_s": 7200.0}, 2)):
        state = halves(left=left, waiting=(gang(**brief),))
        (advice,) = advised(consolidate.advise(state, Observed(), LIMITS, RULES))
        assert advice.gain_gpu_hours == pytest.approx(hours - cost)


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
        assert mine[0].gain_gpu_hours == pytest.approx(expected - 0.5 * RULES.move_s / HOUR_S)


def test_memory_is_not_promised_for_longer_than_the_job_says_it_runs() -> None:
    hog = job("hog", memory_held_bytes=70 * GIB)
    seen = observed(use("hog", memory_needed_bytes=10 * GIB))
    (long,) = advised(cap_memory.advise(cluster([(hog, ("g0",))]), seen, LIMITS, RULES))
    ending = replace(hog, profile=reports(HOUR_S))
    (short,) = advised(cap_memory.advise(cluster([(ending, ("g0",))]), seen, LIMITS, RULES))
    assert short.gain_gpu_hours == pytest.approx(long.gain_gpu_hours / 4)

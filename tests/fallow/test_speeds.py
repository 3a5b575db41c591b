"""Shares by measured speed: changed only when it pays, and in every worker alike."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fallow.data.shares import WINDOW_STEPS, WORTH_IT, Speeds, even

pytestmark = pytest.mark.quick

SECONDS = st.floats(min_value=1e-4, max_value=1.0)


def fed(speeds: Speeds, *steps: tuple[float, ...]) -> Speeds:
    for step in steps:
        speeds = speeds.after(step)
    return speeds


def longest(speeds: Speeds, seconds: tuple[float, ...]) -> float:
    total = sum(speeds.weights)
    return max(weight / total * s for weight, s in zip(speeds.weights, seconds, strict=True))


@given(st.lists(SECONDS, min_size=1, max_size=8).map(tuple))
def test_steady_speeds_lead_to_the_shortest_step_and_then_to_rest(seconds: tuple[float, ...]) -> None:
    settled = fed(even(len(seconds)), *[seconds] * WINDOW_STEPS)
    best = 1 / sum(1 / s for s in seconds)
    assert longest(settled, seconds) <= WORTH_IT * best * (1 + 1e-9)
    assert fed(settled, *[seconds] * 5 * WINDOW_STEPS).weights == settled.weights


@given(st.lists(st.tuples(SECONDS, SECONDS, SECONDS), max_size=60))
def test_all_workers_decide_alike_because_only_the_figures_count(steps: list[tuple[float, ...]]) -> None:
    assert fed(even(3), *steps) == fed(even(3), *steps)
    assert all(weight > 0 for weight in fed(even(3), *steps).weights)


def test_a_worker_half_as_fast_gets_half_as_much() -> None:
    speeds = fed(even(2), *[(0.01, 0.02)] * WINDOW_STEPS)
    assert speeds.weights[0] == pytest.approx(2 * speeds.weights[1])


def test_nothing_changes_before_enough_steps_were_seen() -> None:
    assert fed(even(2), *[(0.01, 0.02)] * (WINDOW_STEPS - 1)).weights == (1.0, 1.0)


def test_small_differences_are_left_alone() -> None:
    assert fed(even(2), *[(0.0100, 0.0104)] * 50).weights == (1.0, 1.0)


def test_a_few_slow_steps_among_many_are_left_alone() -> None:
    hiccups = [(0.01, 0.01)] * 7 + [(0.01, 5.0)] * 3
    assert fed(even(2), *hiccups * 5).weights == (1.0, 1.0)


def test_steps_in_which_somebody_measured_nothing_do_not_count() -> None:
    assert fed(even(2), *[(0.01, 0.0)] * 100) == even(2)


def test_a_worker_that_grew_fast_again_gets_its_share_back() -> None:
    slow = fed(even(2), *[(0.01, 0.03)] * WINDOW_STEPS)
    assert slow.weights[0] == pytest.approx(3 * slow.weights[1])
    again = fed(slow, *[(0.01, 0.01)] * WINDOW_STEPS)
    assert again.weights[0] == pytest.approx(again.weights[1])

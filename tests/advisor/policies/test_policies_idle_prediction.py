"""How long an idle time goes on: Kaplan and Meier's estimate, and whose history is listened to."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.planner.observed import IdleStretch
from advisor.policies.idle_prediction import DAY_MS, FEW, HOUR_MS, Quiet, foresee, survival
from collector.model import JobKind
from tests.advisor.policies.scene import stretch

MONDAY_MS = 4 * DAY_MS
"""1970-01-05, at midnight."""


def quiet(idle_s: float = 3600, at_h: float = 13, **changes: object) -> Quiet:
    """Somebody's batch job that has been idle until ``at_h`` hours into the second Monday."""
    now_ms = MONDAY_MS + 7 * DAY_MS + round(at_h * HOUR_MS)
    made = Quiet(idle_s=idle_s, now_ms=now_ms, user="ann", kind=JobKind.BATCH)
    return replace(made, **changes)  # type: ignore[arg-type]


def from_hour(
    hour: float, minutes: float, *, day: int = 0, user: str = "bob", open: bool = False
) -> IdleStretch:
    """An idle time that began at ``hour`` of a day of the first week, Monday being 0."""
    begin = MONDAY_MS + day * DAY_MS + round(hour * HOUR_MS)
    made = stretch(minutes, user=user)
    return replace(made, from_ms=begin, to_ms=begin + made.to_ms, open=open)


def alike(*stretches: IdleStretch) -> list[tuple[IdleStretch, float]]:
    return [(each, 1.0) for each in stretches]


def test_survival_falls_by_the_share_that_ends() -> None:
    steps = survival(alike(stretch(10), stretch(20), stretch(30), stretch(40)))
    assert [share for _, share in steps] == pytest.approx([0.75, 0.5, 0.25, 0.0])


def test_what_still_lasts_counts_as_at_least_so_long() -> None:
    steps = survival(alike(stretch(10), stretch(20, open=True), stretch(30), stretch(40)))
    assert [share for _, share in steps] == pytest.approx([0.75, 0.375, 0.0])


def test_weights_are_shares() -> None:
    steps = survival([(stretch(10), 3.0), (stretch(20), 1.0)])
    assert [share for _, share in steps] == pytest.approx([0.25, 0.0])


@given(st.lists(st.floats(61, 10_000), min_size=FEW, max_size=40), st.floats(60, 100_000))
def test_without_open_ones_the_expectation_is_the_mean_cut_at_the_horizon(
    minutes: list[float], horizon_s: float
) -> None:
    seen = foresee(quiet(at_h=13), horizon_s, [from_hour(0, each) for each in minutes])
    assert seen is not None
    rest = [min(round(each * 60_000) / 1000 - 3600, horizon_s) for each in minutes]
    assert seen.expected_s == pytest.approx(sum(rest) / len(rest), rel=1e-6)
    assert -1e-6 <= seen.low_s <= seen.high_s <= horizon_s + 1e-6


def test_lunch_is_foreseen_at_noon_and_the_night_in_the_evening() -> None:
    past = [from_hour(12, 75, day=day) for day in range(5)] + [
        from_hour(18, 840, day=day) for day in range(4)
    ]
    noon = foresee(quiet(at_h=13), 4 * 3600, past)
    evening = foresee(quiet(at_h=19), 4 * 3600, past)
    assert noon is not None and evening is not None
    assert noon.expected_s == pytest.approx(15 * 60, rel=0.01)
    assert evening.expected_s == pytest.approx(4 * 3600, rel=0.01)


def test_days_off_say_little_of_working_days() -> None:
    work = [from_hour(12, 75, day=day) for day in range(5)]
    rest = [from_hour(12, 600, day=day) for day in (5, 6)]
    seen = foresee(quiet(at_h=13), 4 * 3600, [*work, *rest])
    assert seen is not None and seen.expected_s < 45 * 60


def test_own_habits_count_twice() -> None:
    short, long = [from_hour(12, 90) for _ in range(4)], [from_hour(12, 180, user="ann") for _ in range(4)]
    mine = foresee(quiet(at_h=13), 4 * 3600, [*short, *long])
    others = foresee(quiet(at_h=13, user="cy"), 4 * 3600, [*short, *long])
    assert mine is not None and others is not None
    assert mine.expected_s == pytest.approx((30 + 2 * 120) / 3 * 60)
    assert others.expected_s == pytest.approx(75 * 60)


def test_far_from_any_all_of_the_kind_are_asked_and_it_is_said() -> None:
    past = [from_hour(12, 120) for _ in range(FEW)]
    seen = foresee(quiet(at_h=1), 4 * 3600, past)
    assert seen is not None
    assert (seen.of, seen.stretches) == ("batch jobs", FEW)
    assert foresee(quiet(at_h=1), 4 * 3600, past[1:]) is None


def test_another_kind_of_job_says_nothing() -> None:
    past = [from_hour(12, 120) for _ in range(FEW)]
    assert foresee(quiet(at_h=13, kind=JobKind.INFERENCE), 3600, past) is None


def test_only_times_that_lasted_as_long_are_asked() -> None:
    assert foresee(quiet(), 3600, [from_hour(12, 30) for _ in range(50)]) is None


def test_times_that_all_still_last_say_nothing_of_an_end() -> None:
    assert foresee(quiet(), 3600, [from_hour(12, 300, open=True) for _ in range(50)]) is None


def test_jobs_that_nobody_knows_whose_they_are_are_not_one_persons() -> None:
    """Of four like times one is ann's, and of three nobody knows whose: one person, and not two."""
    unnamed = [replace(from_hour(12, 100 + each), user=None) for each in range(FEW)]
    mixed = foresee(quiet(), 3600, [*unnamed, from_hour(12, 130, user="ann")])
    assert mixed is not None
    assert (mixed.people, mixed.some_unnamed) == (1, True)
    alone = foresee(quiet(), 3600, unnamed)
    assert alone is not None
    assert (alone.people, alone.some_unnamed) == (0, True)

"""Idle times of the past count from where a finding would have been there: by hand, for a job each night."""

from dataclasses import replace
from math import inf

import pytest

from advisor.planner.limits import PlannerConfig
from advisor.planner.observed import IdleStretch
from advisor.whatif.idle_clocks import with_clocks
from advisor.whatif.idle_times import let_go, paused
from advisor.whatif.recurring import recurring
from analytics.thresholds import Thresholds
from collector.model import JobId, JobKind

HOUR_MS = 3_600_000
START_MS = 1_793_145_600_000
RULES, T = PlannerConfig(), Thresholds()


def idle(from_h: float, hours: float, **changes: object) -> IdleStretch:
    from_ms = START_MS + round(from_h * HOUR_MS)
    made = IdleStretch(
        job=JobId("slurm:5"),
        user="eve",
        kind=JobKind.BATCH,
        gpus=1.0,
        from_ms=from_ms,
        to_ms=from_ms + round(hours * HOUR_MS),
        worked_after=True,
    )
    return replace(made, **changes)  # type: ignore[arg-type]


EVE = (
    idle(2, 15, first=True, unstarted=True),
    idle(19, 22),
    idle(43, 22),
    idle(67, 5, worked_after=False, open=True),
)
"""Two hours of work each 24 h, for 72 h; still now for five."""


def test_a_nightly_job_is_idle_after_its_own_silences_alone() -> None:
    """The other silence is 22 h, of which a finding allows 6 h; before its first work it is not idle."""
    clocks = [each.found_s / 3600 for each in with_clocks(EVE, T)]
    assert clocks == [inf, 6.0, 6.0, 6.0]


def test_a_nightly_job_of_two_long_nights_is_no_habit() -> None:
    assert recurring(with_clocks(EVE, T), RULES) == ()


def test_what_recurs_is_given_back_from_where_it_was_found() -> None:
    """Four nights of 22 h: 88 h idle, past the six hours of their rhythm 4 * 16; the 5 h do not count.

    The job worked after each of them: a limit would have ended it, and gives back nothing.
    """
    nights = [idle(24 * day, 22) for day in range(4)]
    (habit,) = recurring(with_clocks([*nights, idle(96, 5, worked_after=False, open=True)], T), RULES)
    assert (habit.times, habit.idle_gpu_hours) == (4, pytest.approx(88.0))
    assert (habit.gives_back_gpu_hours, habit.ended_jobs) == (0.0, 1)
    assert habit.ended_gpu_hours == pytest.approx(64.0)


def test_telling_and_pausing_begin_no_earlier() -> None:
    """Of 22, 22 and 5 h past six: 16 + 16 are left, of two times; a pause costs its resume each."""
    timed = with_clocks(EVE, T)
    told, held = let_go(timed, RULES), paused(timed, RULES)
    assert (told.times, told.gpu_hours) == (2, pytest.approx(32.0))
    assert (held.times, held.gpu_hours) == (2, pytest.approx(32.0 - 2 * RULES.resume_s / 3600))


@pytest.mark.parametrize(
    ("stretch", "hours"),
    [
        (idle(2, 9), 1.0),  # no other silence is known: the window of an hour
        (idle(2, 9, kind=JobKind.INTERACTIVE), 1.0),
        (idle(2, 9, kind=JobKind.INTERACTIVE, unstarted=True, first=True), 0.0),  # told at two hours
        (idle(2, 9, unstarted=True, first=True, worked_after=False), 4.0),  # six hours after its start
        (idle(2, 9, kind=None), 1.0),
    ],
)
def test_a_single_one_has_the_clock_of_its_kind(stretch: IdleStretch, hours: float) -> None:
    (timed,) = with_clocks([stretch], T)
    assert timed.found_s == hours * 3600


def test_a_terminals_clock_does_not_follow_its_silences() -> None:
    nights = [idle(24 * day, 11, kind=JobKind.INTERACTIVE) for day in range(7)]
    assert {each.found_s for each in with_clocks(nights, T)} == {3600.0}

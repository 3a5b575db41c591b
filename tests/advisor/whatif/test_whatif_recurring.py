"""What recurs: a person's idle nights, and what a limit would have given back, counted by hand."""

from dataclasses import replace

import pytest

from advisor.planner.limits import PlannerConfig
from advisor.planner.observed import IdleStretch
from advisor.whatif.idle_times import let_go
from advisor.whatif.recurring import DAY_MS, Recurring, recurring
from collector.model import JobId, JobKind

HOUR_MS = 3_600_000
EVENING_MS = 1_793_145_600_000 + 20 * HOUR_MS
RULES = PlannerConfig()


def night(day: int, hours: float = 11.0, **changes: object) -> IdleStretch:
    """amara's notebook on two GPUs from eight in the evening on."""
    from_ms = EVENING_MS + day * DAY_MS
    made = IdleStretch(
        job=JobId(f"pod:lab/notebook-{day}"),
        user="amara",
        kind=JobKind.INTERACTIVE,
        gpus=2.0,
        from_ms=from_ms,
        to_ms=from_ms + round(hours * HOUR_MS),
    )
    return replace(made, **changes)  # type: ignore[arg-type]


def test_seven_nights_come_to_154_hours_of_which_a_limit_gives_back_98() -> None:
    """7 nights of 11 h on 2 GPUs are 154; past a limit of 4 h are 7 h of each: 7 * 7 * 2 = 98."""
    nights = [night(day) for day in range(7)]
    (found,) = recurring(nights, RULES)
    assert found == Recurring(
        user="amara",
        kind=JobKind.INTERACTIVE,
        times=7,
        days=7,
        jobs=7,
        idle_gpu_hours=pytest.approx(154.0),
        limit_s=4 * 3600.0,
        gives_back_gpu_hours=pytest.approx(98.0),
        ended_jobs=0,
        ended_gpu_hours=0.0,
    )


def test_hours_are_counted_as_the_replay_counts_them() -> None:
    nights = [night(day) for day in range(7)]
    as_told = replace(RULES, tell_interactive_s=RULES.requeue_interactive_s)
    (found,) = recurring(nights, RULES)
    assert found.gives_back_gpu_hours == let_go(nights, as_told).gpu_hours


ONE = JobId("pod:lab/notebook")


@pytest.mark.parametrize(
    ("stretches", "gives_back", "ended_jobs", "ended_gpu_hours"),
    [
        # each night's 11 h past a limit of 4 h are 7 h on 2 GPUs; one notebook that worked on six mornings
        ([*(night(day, job=ONE, worked_after=True) for day in range(6)), night(6, job=ONE)], 14, 1, 84),
        # three notebooks, of which two worked again
        ([night(0, worked_after=True), night(1, worked_after=True), night(2)], 14, 2, 28),
        # who worked again before the limit is not ended: 3.9 h
        ([*(night(day) for day in range(3)), night(3, 3.9, worked_after=True)], 42, 0, 0),
        # still idle at the end of the range: nothing worked after it
        ([night(0), night(1), night(2, open=True)], 42, 0, 0),
        # all worked again: nothing is given back, and the habit is told all the same
        ([night(day, worked_after=True) for day in range(3)], 0, 3, 42),
        # a first idle time before a terminal's first work
        ([night(0), night(1), night(2, unstarted=True, first=True, worked_after=True)], 28, 1, 14),
    ],
)
def test_what_worked_again_is_ended_by_the_limit_and_no_gain(
    stretches: list[IdleStretch], gives_back: float, ended_jobs: int, ended_gpu_hours: float
) -> None:
    (found,) = recurring(stretches, RULES)
    assert found.gives_back_gpu_hours == pytest.approx(gives_back)
    assert (found.ended_jobs, found.ended_gpu_hours) == (ended_jobs, pytest.approx(ended_gpu_hours))


@pytest.mark.parametrize(
    "stretches",
    [
        [night(0), night(1)],  # twice is no habit
        [night(0), replace(night(0), from_ms=EVENING_MS + 1), replace(night(0), from_ms=EVENING_MS + 2)],
        [night(day, 4.1) for day in range(3)],  # 0.6 GPU-hours: not worth a limit
        [night(day, kind=JobKind.INFERENCE) for day in range(7)],
        [],
    ],
)
def test_what_does_not_recur_or_is_small_has_no_limit(stretches: list[IdleStretch]) -> None:
    assert recurring(stretches, RULES) == ()


def test_jobs_that_nobody_knows_whose_they_are_are_no_persons_habit_together() -> None:
    """Three jobs without an owner, once each, may be three people's; one of them three times is its own."""
    once = [night(day, user=None) for day in range(3)]
    assert recurring(once, RULES) == ()
    again = [night(day, user=None, job=ONE) for day in range(3)]
    (found,) = recurring([*once, *again], RULES)
    # 3 * 11 * 2 = 66; past a limit of 4 h 3 * 7 * 2 = 42
    assert (found.user, found.job, found.times, found.jobs) == (None, ONE, 3, 1)
    assert (found.idle_gpu_hours, found.gives_back_gpu_hours) == (pytest.approx(66), pytest.approx(42))


def test_each_person_and_kind_is_told_apart_the_largest_first() -> None:
    stretches = [night(day) for day in range(3)]
    stretches += [night(day, user="bo", gpus=8.0) for day in range(3)]
    stretches += [night(day, user="bo", kind=JobKind.BATCH) for day in range(3)]
    stretches += [night(day, user=None, job=ONE) for day in range(4)]
    found = [(each.user, each.kind) for each in recurring(stretches, RULES)]
    assert found == [
        ("bo", JobKind.INTERACTIVE),  # 3 * 7 * 8 = 168
        (None, JobKind.INTERACTIVE),  # 4 * 7 * 2 = 56
        ("amara", JobKind.INTERACTIVE),  # 3 * 7 * 2 = 42
        ("bo", JobKind.BATCH),  # a limit of 5 h: 3 * 6 * 2 = 36
    ]

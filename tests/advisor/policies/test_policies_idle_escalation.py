"""The ladder: each rung at its clock, with its grace and consent, and the owner's right to keep a job."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.actions import Cancel, Notify, Pause, ReleaseMemory, Requeue
from advisor.planner.limits import Limits, Mode, PlannerConfig
from advisor.planner.plan import Abstain
from advisor.policies import idle_reclaim
from advisor.policies.idle_escalation import KEEP_HOURS, NotKept, Rung, clock_ms, keep, standing
from advisor.state.model import ActionClass, Job, Use
from analytics.model import Evidence, FindingKind
from collector.model import JobKind
from tests.advisor.policies.scene import (
    GIB,
    HOUR_MS,
    MINUTE_MS,
    NOW_MS,
    advised,
    cluster,
    hog,
    idle_job,
    job,
    observed,
    stretch,
)

RULES, LIMITS = PlannerConfig(), Limits()
ON = Limits(modes={ActionClass.TERMINATE: Mode.ASK})
INTERACTIVE = {"kind": JobKind.INTERACTIVE, "attached": False}


def fresh(minutes: float, **changes: object) -> Job:
    """Idle, with a checkpoint that is newer than its last work."""
    made = idle_job(minutes=minutes, checkpoint_ms=NOW_MS - round(minutes * MINUTE_MS) + 1)
    return replace(made, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("minutes", "batch", "interactive"),
    [
        (4, Rung.NONE, Rung.NONE),
        (5, Rung.SHOW, Rung.SHOW),
        (29, Rung.SHOW, Rung.SHOW),
        (30, Rung.SHOW, Rung.TELL),
        (59, Rung.SHOW, Rung.TELL),
        (60, Rung.TELL, Rung.PAUSE),
        (119, Rung.TELL, Rung.PAUSE),
        (120, Rung.PAUSE, Rung.PAUSE),
        (239, Rung.PAUSE, Rung.PAUSE),
        (240, Rung.PAUSE, Rung.REQUEUE),
        (299, Rung.PAUSE, Rung.REQUEUE),
        (300, Rung.REQUEUE, Rung.REQUEUE),
        (100_000, Rung.REQUEUE, Rung.REQUEUE),
    ],
)
def test_rungs_are_due_by_their_clocks(minutes: int, batch: Rung, interactive: Rung) -> None:
    long_ago = {"started_ms": NOW_MS - 200_000 * MINUTE_MS}
    assert standing(fresh(minutes, **long_ago), NOW_MS, LIMITS, RULES).due is batch
    person = fresh(minutes, **long_ago, **INTERACTIVE)
    assert standing(person, NOW_MS, LIMITS, RULES).due is interactive


def test_ending_a_job_comes_next_only_where_it_was_switched_on() -> None:
    nearly = fresh(600, started_ms=NOW_MS - 200_000 * MINUTE_MS)
    late = RULES if clock_ms(Rung.TERMINATE, nearly, RULES) > NOW_MS else replace(RULES, terminate_s=90_000)
    assert standing(nearly, NOW_MS, LIMITS, late).next is None
    assert standing(nearly, NOW_MS, ON, late).next is Rung.TERMINATE


@pytest.mark.parametrize("older", [True, False])
def test_who_idles_since_the_records_begin_does_so_for_at_least_that_long(older: bool) -> None:
    job = idle_job(minutes=1800, notified_ms=None, notifications=0)
    found = replace(
        hog(job.id).findings[0],
        kind=FindingKind.HELD_IDLE,
        since_ms=job.idle_since_ms or 0,
        evidence=(
            Evidence(name="older_than_records", value=older),
            Evidence(name="has_computed", value=False),
        ),
    )
    seen = observed(analysis=replace(hog(job.id), findings=(found,)))
    (advice,) = advised(idle_reclaim.advise(cluster([(job, ("g0",))]), seen, LIMITS, RULES))
    (step,) = advice.steps
    assert isinstance(step, Notify)
    bound = "at least " if older else ""
    assert step.reason == f"idle for {bound}1 d 6 h"
    assert f"without using them for {bound}1 d 6 h." in step.message


def test_caches_are_released_before_anything_is_paused() -> None:
    holds = {"memory_held_bytes": 30 * GIB, "memory_bytes": 10 * GIB}
    assert standing(fresh(70, **holds), NOW_MS, LIMITS, RULES).due is Rung.RELEASE
    assert standing(fresh(150, **holds), NOW_MS, LIMITS, RULES).due is Rung.PAUSE


@pytest.mark.parametrize(("told_minutes_ago", "due"), [(None, Rung.TELL), (14, Rung.TELL), (15, Rung.PAUSE)])
def test_nobody_is_paused_without_a_word_a_quarter_of_an_hour_before(
    told_minutes_ago: int | None, due: Rung
) -> None:
    told_ms = None if told_minutes_ago is None else NOW_MS - told_minutes_ago * MINUTE_MS
    found = standing(fresh(200, notified_ms=told_ms), NOW_MS, LIMITS, RULES)
    assert found.due is due
    if due is Rung.TELL:
        assert dict(found.skipped)[Rung.PAUSE] == "its owner must have been told 15 min before"


@pytest.mark.parametrize(
    ("checkpoint_minutes_ago", "due"),
    [(None, Rung.PAUSE), (601, Rung.PAUSE), (599, Rung.REQUEUE), (20, Rung.REQUEUE)],
)
def test_requeue_loses_no_work(checkpoint_minutes_ago: int | None, due: Rung) -> None:
    at_ms = None if checkpoint_minutes_ago is None else NOW_MS - checkpoint_minutes_ago * MINUTE_MS
    tired = fresh(600, checkpoint_ms=at_ms, started_ms=NOW_MS - 30 * HOUR_MS)
    assert standing(tired, NOW_MS, LIMITS, RULES).due is due


def test_requeue_waits_two_hours_from_the_start_even_when_idle_all_along() -> None:
    rules = PlannerConfig(requeue_batch_s=3600)
    young = fresh(90, started_ms=NOW_MS - 100 * MINUTE_MS)
    assert clock_ms(Rung.REQUEUE, young, rules) == NOW_MS + 20 * MINUTE_MS
    assert standing(young, NOW_MS, LIMITS, rules).due is not Rung.REQUEUE


def test_nothing_is_ended_unless_an_administrator_switched_it_on() -> None:
    old = fresh(3000, started_ms=NOW_MS - 100 * HOUR_MS, notifications=5)
    assert standing(old, NOW_MS, LIMITS, RULES).due is Rung.REQUEUE
    assert standing(old, NOW_MS, ON, RULES).due is Rung.TERMINATE


def test_two_warnings_come_before_the_end() -> None:
    once = fresh(3000, started_ms=NOW_MS - 100 * HOUR_MS, notifications=1)
    found = standing(once, NOW_MS, ON, RULES)
    assert found.due is Rung.REQUEUE
    assert dict(found.skipped)[Rung.TERMINATE] == "its owner was warned 1 of 2 times"


def test_restrained_job_is_told_and_no_more() -> None:
    found = standing(fresh(3000), NOW_MS, ON, RULES, "its quota covers it")
    assert found.due is Rung.TELL
    assert {reason for _, reason in found.skipped} == {"its quota covers it"}


@given(st.floats(0, 5000), st.floats(0, 5000), st.booleans())
def test_longer_idleness_never_lowers_the_rung(first: float, second: float, interactive: bool) -> None:
    kind = INTERACTIVE if interactive else {}
    long_ago = NOW_MS - 9000 * MINUTE_MS
    low, high = sorted((first, second))
    rungs = [
        standing(fresh(minutes, started_ms=long_ago, notifications=9, **kind), NOW_MS, ON, RULES).due
        for minutes in (low, high)
    ]
    assert rungs[0] <= rungs[1]


@pytest.mark.parametrize("hours", KEEP_HOURS)
def test_owner_keeps_a_job_for_as_long_as_asked(hours: int) -> None:
    kept = keep(idle_job(), hours, NOW_MS, RULES)
    assert isinstance(kept, Job)
    assert (kept.keep_until_ms, kept.keep_count) == (NOW_MS + hours * HOUR_MS, 1)


def test_owner_keeps_a_job_three_times_then_an_administrator_has_to() -> None:
    held: Job | NotKept = idle_job()
    for _ in range(3):
        assert isinstance(held, Job)
        held = keep(held, 4, NOW_MS, RULES)
    assert isinstance(held, Job)
    refused = keep(held, 4, NOW_MS, RULES)
    assert refused == NotKept(reason="it was kept 3 times already; now an administrator has to")
    by_other = keep(held, 4, NOW_MS, RULES, by_administrator=True)
    assert isinstance(by_other, Job) and by_other.keep_count == 3


def test_a_job_is_kept_for_4_8_or_24_hours_only() -> None:
    assert isinstance(keep(idle_job(), 5, NOW_MS, RULES), NotKept)


def test_keeping_never_shortens_what_was_granted() -> None:
    long = keep(idle_job(), 24, NOW_MS, RULES)
    assert isinstance(long, Job)
    short = keep(long, 4, NOW_MS + HOUR_MS, RULES)
    assert isinstance(short, Job) and short.keep_until_ms == NOW_MS + 24 * HOUR_MS


@pytest.mark.parametrize(
    ("job", "step"),
    [
        (fresh(90, notified_ms=None), Notify),
        (fresh(70, memory_held_bytes=30 * GIB), ReleaseMemory),
        (fresh(150), Pause),
        (fresh(400), Requeue),
        (fresh(3000, notifications=2, started_ms=NOW_MS - 99 * HOUR_MS), Cancel),
    ],
)
def test_each_rung_has_its_step_with_a_reason(job: Job, step: type) -> None:
    (advice,) = advised(idle_reclaim.advise(cluster([(job, ("g0", "g1"))]), observed(), ON, RULES))
    (only,) = advice.steps
    assert type(only) is step
    assert only.reason.startswith("idle for")
    assert advice.risk and advice.why and advice.what


@pytest.mark.parametrize(("minutes_ago", "again"), [(None, True), (59, False), (60, True)])
def test_owner_who_was_not_reached_is_told_again_after_an_hour(minutes_ago: int | None, again: bool) -> None:
    tried_ms = None if minutes_ago is None else NOW_MS - minutes_ago * MINUTE_MS
    untold = idle_job(minutes=90, notified_ms=None, notifications=0, unreached_ms=tried_ms)
    (advice,) = advised(idle_reclaim.advise(cluster([(untold, ("g0",))]), observed(), LIMITS, RULES))
    assert [type(step) for step in advice.steps] == ([Notify] if again else [])


def test_owner_is_told_what_may_follow_and_when() -> None:
    untold = idle_job(minutes=150, notified_ms=None, notifications=0)
    (advice,) = advised(idle_reclaim.advise(cluster([(untold, ("g0",))]), observed(), LIMITS, RULES))
    (step,) = advice.steps
    assert isinstance(step, Notify) and "may be paused, 15 min from now at the earliest" in step.message
    restrained = replace(untold, preemptible=False)
    (mere,) = advised(idle_reclaim.advise(cluster([(restrained, ("g0",))]), observed(), LIMITS, RULES))
    (said,) = mere.steps
    assert isinstance(said, Notify) and "paused" not in said.message


@pytest.mark.parametrize(("minutes_ago", "again"), [(14, False), (15, True)])
def test_second_warning_comes_a_grace_after_the_first_where_ending_is_switched_on(
    minutes_ago: int, again: bool
) -> None:
    told_ms = NOW_MS - minutes_ago * MINUTE_MS
    old = idle_job(
        minutes=3000,
        started_ms=NOW_MS - 100 * HOUR_MS,
        notified_ms=told_ms,
        warned_ms=told_ms,
        notifications=1,
        checkpointable=False,
    )
    state = cluster([(old, ("g0",))])
    (advice,) = advised(idle_reclaim.advise(state, observed(), ON, RULES))
    assert [type(step) for step in advice.steps] == ([Notify] if again else [])
    if again:
        assert isinstance(advice.steps[0], Notify) and "warning 2 of 2" in advice.steps[0].message
    (off,) = advised(idle_reclaim.advise(state, observed(), LIMITS, RULES))
    assert off.steps == ()


def test_a_rung_that_no_engine_here_can_do_is_skipped_with_the_reason() -> None:
    found = standing(fresh(150, cannot={"pause": "it shares memory"}), NOW_MS, LIMITS, RULES)
    assert found.due is Rung.TELL
    assert dict(found.skipped)[Rung.PAUSE] == "it shares memory"


def test_the_site_protects_from_being_told() -> None:
    state = cluster([(idle_job(minutes=3000, protected=True, notified_ms=None, notifications=0), ("g0",))])
    (advice,) = advised(idle_reclaim.advise(state, observed(), ON, RULES))
    assert advice.steps == ()
    assert "The site protects it: nothing is ever done to it." in advice.why


def test_owner_is_told_once() -> None:
    (advice,) = advised(
        idle_reclaim.advise(cluster([(idle_job(minutes=90), ("g0",))]), observed(), LIMITS, RULES)
    )
    assert advice.steps == ()


def test_gain_is_what_such_times_went_on_for_here_times_the_gpus_less_the_way_back() -> None:
    past = tuple(stretch(minutes, user="bob") for minutes in [150 + 60 * n for n in range(1, 11)])
    state = cluster([(idle_job(minutes=150), ("g0", "g1"))])
    (advice,) = advised(idle_reclaim.advise(state, observed(stretches=past), LIMITS, RULES))
    expected_h = sum(min(n, 4) for n in range(1, 11)) / 10 - RULES.resume_s / 3600
    assert advice.gain_gpu_hours == pytest.approx(2 * expected_h)
    assert advice.gain_money == pytest.approx(2 * expected_h * 3.0)
    assert "Of 10 idle times of batch jobs" in advice.why
    assert advice.gain_is_known


def test_a_job_of_unknown_kind_is_called_no_kind() -> None:
    """It has the longer clocks, learns from its like alone, and its pod is called a pod."""
    past = tuple(replace(stretch(150 + 60 * n, user="bob"), kind=None) for n in range(1, 11))
    pod = replace(idle_job("pod:nlp/x", minutes=150, kind=None, attached=None), name=None)
    state = cluster([(pod, ("g0",))])
    (advice,) = advised(idle_reclaim.advise(state, observed(stretches=past), LIMITS, RULES))
    assert "Of 10 idle times of jobs of unknown kind" in advice.why
    assert "pod (pod:nlp/x)" in advice.what
    assert "batch" not in f"{advice.what} {advice.why} {advice.risk}"
    others = observed(stretches=tuple(stretch(1000) for _ in range(20)))
    (unsaid,) = advised(idle_reclaim.advise(state, others, LIMITS, RULES))
    assert not unsaid.gain_is_known and unsaid.known_gain_gpu_hours is None, "batch jobs speak for themselves"


def test_thin_history_is_said_and_lowers_the_confidence() -> None:
    state = cluster([(idle_job(minutes=150), ("g0",))])
    (thin,) = advised(idle_reclaim.advise(state, observed(stretches=(stretch(400),)), LIMITS, RULES))
    many = observed(stretches=tuple(stretch(1000) for _ in range(20)))
    (sure,) = advised(idle_reclaim.advise(state, many, LIMITS, RULES))
    assert "Too few" in thin.why
    assert thin.confidence < sure.confidence == pytest.approx(21 / 22), (
        "twenty of twenty: the rule of succession"
    )


@pytest.mark.parametrize("number", [4, 8, 9])
def test_under_ten_idle_times_say_nothing_of_how_sure_it_is(number: int) -> None:
    """Of nine times a tenth is less than one: nobody can say what nine of ten do."""
    noon = [
        replace(each, from_ms=NOW_MS - 7 * 24 * HOUR_MS - 150 * 60_000) for each in [stretch(1000)] * number
    ]
    past = tuple(
        replace(each, to_ms=each.from_ms + 1000 * 60_000, user=f"p{at % 2}") for at, each in enumerate(noon)
    )
    state = cluster([(idle_job(minutes=150), ("g0",))])
    (few,) = advised(idle_reclaim.advise(state, observed(stretches=past), LIMITS, RULES))
    assert f"Of {number} idle times of batch jobs at this time of day, of 2 people," in few.why
    assert "nine of ten" not in few.why and "four of five" not in few.why and "too few" in few.why
    assert few.confidence <= 0.3 and not few.confidence_is_known and few.gain_is_known
    ten = tuple([*past, *past][:10]) if number > 4 else (*past, *past, *past[:2])
    (sure,) = advised(idle_reclaim.advise(state, observed(stretches=ten), LIMITS, RULES))
    assert sure.confidence == pytest.approx(11 / 12) and sure.confidence_is_known


@pytest.mark.parametrize(
    ("hours", "reason"),
    [(0.1, "it is starting up, 6 min after it began"), (11, "it has not computed since it was last started")],
)
def test_who_has_not_computed_for_hours_is_not_said_to_be_starting_up(hours: float, reason: str) -> None:
    """A batch that sleeps is found to need no GPU: nothing else may call it starting."""
    asleep = job("asleep", use=Use.STARTING, started_ms=NOW_MS - round(hours * HOUR_MS))
    (answer,) = idle_reclaim.advise(cluster([(asleep, ("g0",))]), observed(), ON, RULES)
    assert isinstance(answer, Abstain) and answer.reason == reason
    # Who has computed, and rests within the first half hour, is as young: only time changes that.
    change = "its first computation" if hours > 0.5 else "the end of its first 30 min"
    assert answer.would_change == change

"""The project's policy, line by line as it is written, each held against what a decision does at its edge.

A row reads: rule, how the job or its GPU is, and what may be done. The rows come from the design's tables
"Evidence", "The ladder" and "Quota and preemption"; the clocks are the defaults.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest

from advisor.actions import Cancel, Notify, Pause, Requeue
from advisor.planner.guard import approve
from advisor.planner.limits import Limits, Mode, PlannerConfig
from advisor.planner.plan import Plan, Rule
from advisor.policies import idle_reclaim
from advisor.policies.idle_escalation import KEEP_HOURS, NotKept, keep
from advisor.state.model import ActionClass, ActionTaken, ClusterState, Job, Node, Project, Telemetry, Use
from analytics.thresholds import IDLE_RATIO, LOW_RATIO, SUSPECT_POWER, SUSPECT_RATIO, Thresholds
from collector.model import JobId, JobKind, NodeName
from tests.advisor.policies.scene import (
    HOUR_MS,
    MINUTE_MS,
    NOW_MS,
    advised,
    cluster,
    gpu,
    idle_job,
    job,
    observed,
)

RULES = PlannerConfig()
AUTO = Limits(modes={**dict.fromkeys(ActionClass, Mode.AUTO), ActionClass.TERMINATE: Mode.OFF})
NOTHING, TOLD, PAUSED, REQUEUED, ENDED = "nothing", "told", "paused", "requeued", "ended"
VERBS = {Notify: TOLD, Pause: PAUSED, Requeue: REQUEUED, Cancel: ENDED}
NOTEBOOK: dict[str, Any] = {"kind": JobKind.INTERACTIVE, "attached": False}


def ago(minutes: float) -> int:
    return NOW_MS - round(minutes * MINUTE_MS)


def untold(minutes: float, **changes: Any) -> Job:
    return idle_job("j", minutes=minutes, **{"notified_ms": None, "notifications": 0, **changes})


def told(minutes: float, told_ago: float = 60, **changes: Any) -> Job:
    return idle_job("j", minutes=minutes, **{"notified_ms": ago(told_ago), **changes})


def done(state: ClusterState, limits: Limits = AUTO) -> set[str]:
    """What the ladder advises and the guard lets through, in words."""
    advice = advised(idle_reclaim.advise(state, observed(), limits, RULES))
    steps = tuple(step for each in advice for step in each.steps)
    ruling = approve(Plan(as_of_ms=state.as_of_ms, steps=steps), state, limits)
    return {VERBS[type(step)] for step in ruling.approved.steps} or {NOTHING}


@dataclass(frozen=True, kw_only=True)
class Row:
    """One line of the policy: what it says, a job just inside and just outside of it."""

    says: str
    before: Job
    then: str
    after: Job
    thus: str


LADDER = [
    Row(
        says="tell the owner of an interactive job at 30 min",
        before=untold(29.9, **NOTEBOOK),
        then=NOTHING,
        after=untold(30, **NOTEBOOK),
        thus=TOLD,
    ),
    Row(
        says="tell the owner of a batch job at 60 min",
        before=untold(59.9),
        then=NOTHING,
        after=untold(60),
        thus=TOLD,
    ),
    Row(
        says="pause an interactive job at 60 min",
        before=told(59.9, 29, **NOTEBOOK),
        then=NOTHING,
        after=told(60, 29, **NOTEBOOK),
        thus=PAUSED,
    ),
    Row(says="pause a batch job at 120 min", before=told(119.9), then=NOTHING, after=told(120), thus=PAUSED),
    Row(
        says="15 min grace after the owner was told",
        before=told(200, 14.9),
        then=NOTHING,
        after=told(200, 15),
        thus=PAUSED,
    ),
    Row(says="never paused untold", before=untold(500), then=TOLD, after=told(500), thus=PAUSED),
    Row(
        says="requeue an interactive job at 240 min, only with a fresh checkpoint",
        before=told(239, checkpoint_ms=NOW_MS, **NOTEBOOK),
        then=PAUSED,
        after=told(240, checkpoint_ms=NOW_MS, **NOTEBOOK),
        thus=REQUEUED,
    ),
    Row(
        says="requeue a batch job at 300 min, only with a fresh checkpoint",
        before=told(300, checkpoint_ms=ago(331)),
        then=PAUSED,
        after=told(300, checkpoint_ms=ago(29)),
        thus=REQUEUED,
    ),
    Row(
        says="no requeue within 120 min of the start",
        before=told(300, started_ms=ago(119.9), checkpoint_ms=NOW_MS),
        then=PAUSED,
        after=told(300, started_ms=ago(120), checkpoint_ms=NOW_MS),
        thus=REQUEUED,
    ),
    Row(
        says="the owner keeps it",
        before=told(200, keep_until_ms=NOW_MS + 1),
        then=NOTHING,
        after=told(200, keep_until_ms=NOW_MS),
        thus=PAUSED,
    ),
    Row(
        says="start-up grace of 30 min for every action",
        before=told(200, started_ms=ago(29.9)),
        then=NOTHING,
        after=told(200, started_ms=ago(30)),
        thus=PAUSED,
    ),
    Row(
        says="per-job cooldown 30 min",
        before=told(200, acted_ms=ago(29.9)),
        then=NOTHING,
        after=told(200, acted_ms=ago(30)),
        thus=PAUSED,
    ),
    Row(
        says="a job that is not known to be idle is not idle: missing is unknown",
        before=told(200, use=Use.UNKNOWN),
        then=NOTHING,
        after=told(200),
        thus=PAUSED,
    ),
    Row(
        says="no consent, no touch: the owner is told and no more",
        before=untold(200, preemptible=False),
        then=TOLD,
        after=told(200, preemptible=False),
        thus=NOTHING,
    ),
    Row(
        says="opting out is not even being told",
        before=untold(200, opted_out=frozenset({ActionClass.RECLAIM})),
        then=NOTHING,
        after=untold(200),
        thus=TOLD,
    ),
    Row(
        says="somebody sits at it, or nobody knows",
        before=told(200, kind=JobKind.INTERACTIVE, attached=None),
        then=NOTHING,
        after=told(200, **NOTEBOOK),
        thus=PAUSED,
    ),
    Row(
        says="inference is never disturbed",
        before=told(200, kind=JobKind.INFERENCE, attached=False),
        then=NOTHING,
        after=told(200),
        thus=PAUSED,
    ),
    Row(
        says="what the site protects is not even told",
        before=untold(200, protected=True),
        then=NOTHING,
        after=untold(200),
        thus=TOLD,
    ),
]


@pytest.mark.parametrize("row", LADDER, ids=lambda row: row.says)
def test_the_ladder_as_the_policy_says_it(row: Row) -> None:
    assert done(cluster([(row.before, ("g0",))])) == {row.then}
    assert done(cluster([(row.after, ("g0",))])) == {row.thus}


def with_gpu(**changes: Any) -> Callable[[ClusterState], ClusterState]:
    return lambda state: replace(state, gpus={**state.gpus, "g0": gpu("g0", **changes)})  # type: ignore[dict-item]


@pytest.mark.parametrize(("minutes", "thus"), [(9.9, NOTHING), (10, PAUSED)])
def test_min_runtime_of_10_min_holds_for_the_guard_alone(minutes: float, thus: str) -> None:
    state = cluster([(job("j", started_ms=ago(minutes)), ("g0",))])
    ruling = approve(Plan(as_of_ms=NOW_MS, steps=(Pause(job=JobId("j")),)), state, AUTO)
    assert [VERBS[type(step)] for step in ruling.approved.steps] == ([] if thus == NOTHING else [thus])


def lately(count: int, minutes: float) -> tuple[ActionTaken, ...]:
    return tuple(ActionTaken(at_ms=ago(minutes), job=JobId(f"o{n}"), verb="pause") for n in range(count))


CLUSTER: list[tuple[str, Callable[[ClusterState], ClusterState], str]] = [
    ("nothing stands against it", lambda state: state, PAUSED),
    ("suspect counters: excluded from every action", with_gpu(telemetry=Telemetry.SUSPECT), NOTHING),
    ("under 95% covered, or stale: no action", with_gpu(telemetry=Telemetry.UNKNOWN), NOTHING),
    ("a protected GPU", with_gpu(protected=True), NOTHING),
    (
        "one action in flight a node",
        lambda state: replace(state, nodes={NodeName("n1"): Node(name=NodeName("n1"), in_flight=True)}),
        NOTHING,
    ),
    ("5 an hour a cluster: the sixth", lambda state: replace(state, actions=lately(5, 59)), NOTHING),
    ("5 an hour a cluster: the fifth", lambda state: replace(state, actions=lately(4, 59)), PAUSED),
    ("5 an hour a cluster: an hour later", lambda state: replace(state, actions=lately(5, 60)), PAUSED),
    (
        "covered by its quota: told at most",
        lambda state: replace(
            state, projects={name: Project(name=name, quota_gpus=1) for name in state.projects}
        ),
        NOTHING,
    ),
]


@pytest.mark.parametrize(("says", "change", "thus"), CLUSTER, ids=[says for says, _, _ in CLUSTER])
def test_the_cluster_as_the_policy_says_it(
    says: str, change: Callable[[ClusterState], ClusterState], thus: str
) -> None:
    assert done(change(cluster([(told(200), ("g0",))]))) == {thus}


@pytest.mark.parametrize(
    ("mode", "thus"),
    [(Mode.OFF, NOTHING), (Mode.ADVISE, NOTHING), (Mode.ASK, NOTHING), (Mode.AUTO, PAUSED), (None, NOTHING)],
    ids=["off", "advise", "ask, and nobody said yes", "auto", "the default, which is advise"],
)
def test_the_modes_as_the_policy_says_them(mode: Mode | None, thus: str) -> None:
    limits = Limits() if mode is None else Limits(modes={ActionClass.RECLAIM: mode})
    assert done(cluster([(told(200), ("g0",))]), limits) == {thus}


@pytest.mark.parametrize(
    ("mode", "notifications", "thus"),
    [(None, 9, PAUSED), (Mode.ADVISE, 9, PAUSED), (Mode.AUTO, 1, PAUSED), (Mode.AUTO, 2, ENDED)],
    ids=["off by default", "off while it is advice", "two warnings first", "an administrator's switch"],
)
def test_terminating_as_the_policy_says_it(mode: Mode | None, notifications: int, thus: str) -> None:
    modes = {ActionClass.RECLAIM: Mode.AUTO} | ({} if mode is None else {ActionClass.TERMINATE: mode})
    old = told(24 * 60, notifications=notifications, started_ms=ago(48 * 60))
    assert done(cluster([(old, ("g0",))]), Limits(modes=modes)) == {thus}


def test_keeping_as_the_policy_says_it() -> None:
    assert KEEP_HOURS == (4, 8, 24)
    kept: Job | NotKept = job("j")
    for hours in KEEP_HOURS:
        assert isinstance(kept, Job)
        kept = keep(kept, hours, NOW_MS, RULES)
    assert isinstance(kept, Job) and kept.keep_until_ms == NOW_MS + 24 * HOUR_MS
    assert isinstance(keep(kept, 4, NOW_MS, RULES), NotKept)
    assert isinstance(keep(kept, 4, NOW_MS, RULES, by_administrator=True), Job)


def test_the_numbers_as_the_policy_has_them() -> None:
    limits, seen = Limits(), Thresholds()
    assert (limits.min_runtime_s, limits.cooldown_s, limits.actions_per_hour) == (600, 1800, 5)
    assert (RULES.startup_s, RULES.requeue_start_s, RULES.grace_s) == (1800, 7200, 900)
    assert (RULES.show_s, RULES.keeps, RULES.terminate_warnings) == (300, 3, 2)
    assert (seen.coverage_ratio, seen.stale_ticks) == (0.95, 2.0)
    assert (IDLE_RATIO, seen.idle_bins_ratio, seen.grace_s) == (0.01, 0.95, 1800)
    assert (LOW_RATIO, seen.low_active_s, seen.low_run_s) == (0.25, 1800, 3660)
    assert (SUSPECT_RATIO, SUSPECT_POWER) == (0.9, 1.1)


def test_every_rule_that_protects_a_running_job_is_in_a_table_here() -> None:
    """The rows' words cover the guard's rules; a new rule wants a row."""
    rules = {
        Rule.IN_QUOTA, Rule.NOT_PREEMPTIBLE, Rule.INFERENCE, Rule.ATTACHED, Rule.OPTED_OUT, Rule.KEPT,
        Rule.MIN_RUNTIME, Rule.COOLDOWN, Rule.TELEMETRY, Rule.IN_FLIGHT, Rule.RATE, Rule.PROTECTED,
        Rule.UNSUPPORTED, Rule.MODE,
    }  # fmt: skip
    assert set(tuple(Rule)[:14]) == rules

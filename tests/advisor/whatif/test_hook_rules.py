"""A site's rule over a past that is reckoned by hand: idle for 4 h, warned twice, 15 min apart."""

import pytest

from advisor.planner.limits import PlannerConfig
from advisor.planner.observed import IdleStretch
from advisor.state.model import IdleRule
from advisor.whatif.hook_rules import effect, paused_s
from collector.model import JobId, JobKind

RULE = IdleRule(name="notebooks", idle_s=4 * 3600, warnings=2)
HOUR_MS = 3_600_000
A, B, C, D = (JobId(f"pod:{each}") for each in ("jupyter/a", "jupyter/b", "lab/c", "jupyter/d"))


def idle(job: JobId, hours: float, user: str | None = "ann", **changes: object) -> IdleStretch:
    base = {"kind": JobKind.INTERACTIVE, "gpus": 2.0, "from_ms": 0, "to_ms": round(hours * HOUR_MS)}
    return IdleStretch(job=job, user=user, **{**base, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("warnings", "hours", "kind", "paused"),
    [
        (2, 4, JobKind.INTERACTIVE, 4.25),  # warned at 0:30 and 4:00, paused at 4:15
        (1, 4, JobKind.INTERACTIVE, 4.0),  # warned at 0:30
        (1, 1, None, 1.25),  # a batch job is warned at 1:00
        (3, 4, JobKind.BATCH, 4.5),
    ],
)
def test_a_rule_pauses_a_grace_after_its_last_warning(
    warnings: int, hours: int, kind: JobKind | None, paused: float
) -> None:
    rule = IdleRule(name="r", idle_s=hours * 3600, warnings=warnings)
    assert paused_s(rule, kind, PlannerConfig()) == paused * 3600


def test_what_is_given_back_begins_at_the_pause_and_who_worked_again_is_counted() -> None:
    past = (
        idle(A, 10.25, worked_after=True),  # 6 h on 2 GPUs
        idle(A, 4.0),  # not long enough
        idle(B, 5.25, user="bob"),  # 1 h on 2 GPUs
        idle(B, 9, kind=JobKind.INFERENCE),
        idle(C, 100),  # in no place of the rule
        idle(D, 5.25, user=None),
    )
    result = effect(RULE, past, {A, B, D}, PlannerConfig())
    assert (result.jobs, result.times, result.came_back) == (3, 3, 1)
    assert (result.people, result.unnamed) == (2, 1), "whose owner is unknown is nobody's second job"
    assert result.gpu_hours == pytest.approx(16.0)
    assert result.longest_s == 6 * 3600
    assert result.disturbed == (A, B, D)


def test_nobody_idle_for_so_long_is_nothing() -> None:
    result = effect(RULE, (idle(A, 3),), {A}, PlannerConfig())
    assert (result.jobs, result.times, result.gpu_hours, result.longest_s) == (0, 0, 0.0, None)

"""What a site's rule for idle jobs would have done over a recorded past. Pure.

Who would have answered a warning, by working or by keeping the job, is not known: everybody is taken to be
warned and silent, so that what is shown is the most that the rule does.
"""

from collections.abc import Container, Sequence
from dataclasses import dataclass

from advisor.planner.limits import PlannerConfig
from advisor.planner.observed import IdleStretch
from advisor.state.model import IdleRule
from advisor.whatif.idle_times import given_back_after, tell_s
from collector.model import JobId, JobKind


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleEffect:
    """``jobs`` would have been paused ``times`` times, ``gpu_hours`` given back. ``people`` are those of them
    whose owners are known; ``unnamed`` are the jobs of the others, who are no one person.

    ``came_back``: after so many of these times the job worked again, so that somebody would have had to
    resume it. ``longest_s``: from the pause to that work, at the longest. ``disturbed`` are their ids.
    """

    rule: str
    jobs: int
    people: int
    unnamed: int
    times: int
    gpu_hours: float
    came_back: int
    longest_s: float | None
    disturbed: tuple[JobId, ...]


def effect(
    rule: IdleRule, stretches: Sequence[IdleStretch], jobs: Container[JobId], planner: PlannerConfig
) -> RuleEffect:
    """What the rule would have done to these jobs; inference is left out, as the guard does."""

    def after_s(kind: JobKind | None) -> float:
        return paused_s(rule, kind, planner)

    may = [each for each in stretches if each.job in jobs and each.kind is not JobKind.INFERENCE]
    long = [each for each in may if each.length_s >= max(after_s(each.kind), each.found_s)]
    back = [each for each in long if each.worked_after]
    return RuleEffect(
        rule=rule.name,
        jobs=len({each.job for each in long}),
        people=len({each.user for each in long if each.user is not None}),
        unnamed=len({each.job for each in long if each.user is None}),
        times=len(long),
        gpu_hours=given_back_after(long, after_s),
        came_back=len(back),
        longest_s=max((each.length_s - after_s(each.kind) for each in back), default=None),
        disturbed=tuple(sorted({each.job for each in long})),
    )


def paused_s(rule: IdleRule, kind: JobKind | None, planner: PlannerConfig) -> float:
    """After how long an idle job is paused: its clock, and a grace after each warning that comes then."""
    first = max(rule.idle_s, tell_s(kind, planner) + planner.grace_s)
    return first + (rule.warnings - 1) * planner.grace_s

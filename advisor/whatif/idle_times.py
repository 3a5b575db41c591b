"""What idle times would have given back at each rung, and what would have been expected of them. Pure.

For each that reached the rung of telling, what would have been expected then, from what had been recorded by
then, stands beside how long it lasted (``backtest``).
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from advisor.planner.limits import PlannerConfig
from advisor.planner.observed import IdleStretch
from advisor.policies.idle_prediction import Quiet, foresee
from advisor.whatif.estimate import Foreseen, Given
from collector.model import JobKind

MS_PER_S = 1000


def let_go(stretches: Sequence[IdleStretch], rules: PlannerConfig) -> Given:
    """Every owner lets go when told."""
    notified = [each for each in stretches if each.length_s >= max(tell_s(each.kind, rules), each.found_s)]
    return _held("tell", "every owner lets go when told", notified, lambda kind: tell_s(kind, rules))


def paused(stretches: Sequence[IdleStretch], rules: PlannerConfig) -> Given:
    """Those who may be paused are, by the escalation, and go on when somebody returns."""
    long = [each for each in stretches if each.length_s >= max(pause_s(each.kind, rules), each.found_s)]
    how = "paused by the escalation, resumed on return"
    row = _held("pause", how, long, lambda kind: pause_s(kind, rules), rules.resume_s)
    return replace(row, disturbed=sum(not each.open for each in long))


def backtest(stretches: Sequence[IdleStretch], rules: PlannerConfig) -> tuple[Foreseen, ...]:
    """For every idle time that its owner would have been told of: what would have been expected, what came.

    Only what had ended by then, and what lasted still, is known to the expectation. Idle times that are cut
    short by the end of the records before the horizon say nothing and are left out.
    """
    result = []
    for each in stretches:
        notice_s = max(tell_s(each.kind, rules), each.found_s)
        remaining_s = each.length_s - notice_s
        if remaining_s <= 0 or (each.open and remaining_s < rules.horizon_s):
            continue
        at_ms = each.from_ms + round(notice_s * MS_PER_S)
        quiet = Quiet(idle_s=notice_s, now_ms=at_ms, user=each.user, kind=each.kind)
        prediction = foresee(quiet, rules.horizon_s, _known_at(stretches, at_ms, each))
        if prediction is not None:
            result.append(
                Foreseen(expected_s=prediction.expected_s, came_s=min(remaining_s, rules.horizon_s))
            )
    return tuple(result)


def tell_s(kind: JobKind | None, rules: PlannerConfig) -> float:
    """When the owner of an idle job is told."""
    return rules.tell_interactive_s if kind is JobKind.INTERACTIVE else rules.tell_batch_s


def pause_s(kind: JobKind | None, rules: PlannerConfig) -> float:
    """When an idle job is paused: by the clock, and not before the grace after its owner was told."""
    clock = rules.pause_interactive_s if kind is JobKind.INTERACTIVE else rules.pause_batch_s
    return max(clock, tell_s(kind, rules) + rules.grace_s)


def given_back_after(
    stretches: Iterable[IdleStretch], after_s: Callable[[JobKind | None], float], cost_s: float = 0.0
) -> float:
    """GPU-hours that are left of idle times once they have lasted so long, and it has cost so much.

    Never from before a finding would have called them idle.
    """
    remaining_s = (
        (each, each.length_s - max(after_s(each.kind), each.found_s) - cost_s) for each in stretches
    )
    return sum(max(0.0, remaining) / 3600 * each.gpus for each, remaining in remaining_s)


def _known_at(stretches: Iterable[IdleStretch], at_ms: int, excluded: IdleStretch) -> list[IdleStretch]:
    earlier = []
    for each in stretches:
        if each is excluded or each.from_ms >= at_ms:
            continue
        lasts = each.to_ms > at_ms
        earlier.append(replace(each, to_ms=min(each.to_ms, at_ms), open=lasts or each.open))
    return earlier


def _held(
    action: str,
    how: str,
    stretches: Sequence[IdleStretch],
    after_s: Callable[[JobKind | None], float],
    cost_s: float = 0.0,
) -> Given:
    hours = given_back_after(stretches, after_s, cost_s)
    jobs = len({each.job for each in stretches})
    return Given(action=action, how=how, gpu_hours=hours, jobs=jobs, times=len(stretches))

"""What light jobs would have given back beside each other, and what pairs that were tried reached. Pure."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from advisor.jobs.slowdown_watchdog import Pair
from advisor.planner.limits import PlannerConfig
from advisor.planner.observed import PastJob
from advisor.planner.pairing import Experience, choose_pairs
from advisor.planner.placement import may_share
from advisor.policies.pack import PAIRING, crowding, profile_of, too_busy
from advisor.whatif.estimate import Foreseen, Given
from advisor.whatif.smaller_jobs import gpu_of
from analytics.vocabulary.actions import ActionClass

HOUR_MS = 3_600_000


def packed(jobs: Sequence[PastJob], rules: PlannerConfig, experience: Mapping[str, Experience]) -> Given:
    """At every time, the best pairing of those who may share, by what was learnt of pairs so far."""
    light = [past for past in jobs if past.gpus == 1 and too_busy(past.use, rules) is None]
    edges = sorted({at for past in light for at in (past.from_ms, past.to_ms)})
    hours = 0.0
    pairs: set[tuple[str, str]] = set()
    who: set[str] = set()
    for begin, end in pairwise(edges):
        there = [past for past in light if past.from_ms <= begin and past.to_ms >= end]
        for gain, couple in _pairs(there, rules, experience):
            hours += max(0.0, gain) * (end - begin) / HOUR_MS
            pairs.add(couple)
            who.update(couple)
    return Given(
        action=ActionClass.PACK.value,
        how="light jobs of one user, or of two who opted in, on one GPU",
        gpu_hours=hours,
        jobs=len(who),
        times=len(pairs),
        disturbed=len(pairs),
    )


def backtest_pairs(pairs: Iterable[Pair]) -> tuple[Foreseen, ...]:
    """For each pair that was tried: what gain was expected, and what it reached; parted ones gave nothing.

    GPU-seconds for each hour beside each other.
    """
    return tuple(
        Foreseen(
            expected_s=pair.expected_gain * 3600,
            came_s=0.0 if pair.undone else max(0.0, sum(pair.speeds) - 1) * 3600,
        )
        for pair in pairs
        if pair.speeds is not None
    )


def _pairs(
    there: Sequence[PastJob], rules: PlannerConfig, experience: Mapping[str, Experience]
) -> Iterable[tuple[float, tuple[str, str]]]:
    by_model: dict[str | None, list[PastJob]] = defaultdict(list)
    for past in there:
        by_model[past.model].append(past)
    for model, group in by_model.items():
        if model is None or len(group) < 2:
            continue

        def may(first: int, second: int, group: list[PastJob] = group) -> bool:
            one, two = group[first], group[second]
            fits = crowding(gpu_of(one), one.use, two.use, rules) is None
            return fits and may_share(one.job, two.job)

        names = [profile_of(past.job) for past in group]
        for pair in choose_pairs(names, experience.get(model) or Experience(gpu_model=model), PAIRING, may):
            couple = sorted((group[pair.foreground].job.id, group[pair.guest].job.id))
            yield pair.gain, (couple[0], couple[1])

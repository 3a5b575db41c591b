"""What elastic jobs would have got done on GPUs that nobody wanted, and how well their speeds foretell. Pure.

Between two changes of the cluster, the planner is asked who would have grown as things lay. What that brings
is the work of the larger world beyond that of the smaller, in hours of the smaller's GPUs, and a resize
whenever the size changes. Sizes at which a job was never measured claim nothing.
"""

from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise

from advisor.decide import decide
from advisor.goodput import speedup
from advisor.limits import Limits
from advisor.model import ActionClass, ClusterState, Profile
from advisor.steps import Resize
from advisor.whatif.earned import Foreseen, Given
from advisor.whatif.past import Moments
from advisor.whatif.waits import only
from collector.model import JobId

HOUR_S = 3600.0


def grown(moments: Moments, limits: Limits) -> Given:
    """Elastic jobs of which it was measured that they are faster, on what was left over."""
    bounds = only(limits, ActionClass.SCHEDULE, ActionClass.RESIZE)
    gpu_s = 0.0
    sizes: dict[JobId, int] = {}
    who: set[JobId] = set()
    times = 0
    looks = (*moments.looks(), moments.past.to_ms)
    for at_ms, next_ms in pairwise(looks):
        lasts_s = (next_ms - at_ms) / 1000
        state = moments.at(at_ms)
        wishes = _growths(state, bounds) if lasts_s >= limits.resize_pause_s and _could(state) else ()
        now: dict[JobId, int] = {}
        for job, before, after in wishes:
            more = _more_gpus(state.jobs[job].profile, before, after)
            if more > 0:
                now[job] = after
                gpu_s += more * lasts_s
        for job in {*now, *sizes}:
            if now.get(job) != sizes.get(job) and job in state.jobs:
                gpu_s -= _resize_s(state, job, limits) * now.get(job, sizes.get(job, 0))
        who.update(now)
        times += sum(now[job] != sizes.get(job) for job in now)
        sizes = now
    return Given(
        action="resize",
        how="elastic jobs grown onto what was left over, and back",
        gpu_hours=gpu_s / HOUR_S,
        jobs=len(who),
        times=times,
    )


def backtest_growth(profiles: Iterable[Profile]) -> tuple[Foreseen, ...]:
    """For each size between two others that a job was measured on: what these foretell, and what it was.

    What an hour there brings beyond one on the next smaller size, in GPU-seconds of that.
    """
    found = []
    for profile in profiles:
        for before, size, _ in zip(*(sorted(profile.step_s)[at:] for at in range(3)), strict=False):
            others = {each: seconds for each, seconds in profile.step_s.items() if each != size}
            foretold = _more_gpus(replace(profile, step_s=others), before, size)
            found.append(
                Foreseen(
                    expected_s=foretold * HOUR_S,
                    came_s=_more_gpus(profile, before, size) * HOUR_S,
                )
            )
    return tuple(found)


def _could(state: ClusterState) -> bool:
    """Whether anybody could have grown at all."""
    held = {uuid for placement in state.placements.values() for uuid in placement.gpus}
    return len(held) < len(state.gpus) and any(
        state.jobs[id].elastic and len(placement.gpus) < state.jobs[id].max_gpus
        for id, placement in state.placements.items()
    )


def _growths(state: ClusterState, bounds: Limits) -> tuple[tuple[JobId, int, int], ...]:
    """Who would have grown then, from how many GPUs to how many."""
    sizes = {id: len(placement.gpus) for id, placement in state.placements.items()}
    return tuple(
        (step.job, sizes[step.job], len(step.gpus))
        for step in decide(state, bounds).steps
        if isinstance(step, Resize) and len(step.gpus) > sizes.get(step.job, len(step.gpus))
    )


def _more_gpus(profile: Profile | None, before: int, after: int) -> float:
    """GPUs of its ``before`` that the larger world is worth beyond them; 0 where it was not measured."""
    gain = None if profile is None else speedup(profile, before, after)
    return 0.0 if gain is None else max(0.0, gain - 1) * before


def _resize_s(state: ClusterState, job: JobId, limits: Limits) -> float:
    profile = state.jobs[job].profile
    measured = None if profile is None else profile.resize_s
    return limits.resize_s if measured is None else measured

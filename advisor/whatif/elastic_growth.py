"""What elastic jobs would have got done on GPUs that nobody wanted, and how well their speeds foretell. Pure.

At every change of the cluster the planner is asked who would have grown as things lay, and who would have
given back. A job keeps what it grew onto until it ends or others get it in truth. What that brings is the
work of the larger world beyond that of the one it had, in hours of the GPUs that it had, less a resize
whenever the size changes. Sizes at which a job was never measured claim nothing.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise

from advisor.actions import Resize
from advisor.decide import decide
from advisor.planner.limits import Limits
from advisor.planner.throughput import speedup
from advisor.state.model import ActionClass, ClusterState, Placement, Profile
from advisor.whatif.estimate import Foreseen, Given
from advisor.whatif.history import Moments
from advisor.whatif.starts import only
from collector.model import GpuUuid, JobId

HOUR_S = 3600.0


@dataclass(slots=True)
class _Story:
    """The window gone through so far: the GPUs that each grown job has now, and what came of it."""

    moments: Moments
    limits: Limits
    grown: dict[JobId, tuple[GpuUuid, ...]] = field(default_factory=dict)
    gpu_s: float = 0.0
    who: set[JobId] = field(default_factory=set)
    times: int = 0

    def look(self, at_ms: int, next_ms: int, bounds: Limits) -> None:
        """Who keeps, gets and gives back GPUs at an instant, and what that brings until the next."""
        truth = self.moments.at(at_ms)
        kept = _kept(truth, self.grown)
        state = self.moments.at(at_ms, {id: Placement(gpus=gpus) for id, gpus in kept.items()})
        now = dict(kept)
        for step in decide(state, bounds).steps:
            if isinstance(step, Resize) and step.job in truth.placements:
                now[step.job] = step.gpus
        now = {id: gpus for id, gpus in now.items() if self._worth(truth, id, gpus) > 0}
        for job in {*now, *self.grown} & truth.placements.keys():
            before = len(self.grown.get(job, truth.placements[job].gpus))
            after = len(now.get(job, truth.placements[job].gpus))
            if before != after:
                profile = truth.jobs[job].profile
                measured = None if profile is None else profile.resize_s
                self.gpu_s -= (self.limits.resize_s if measured is None else measured) * max(before, after)
                self.times += after > before
        self.grown = now
        self.who.update(now)
        until_ms = min(next_ms, self.moments.next_waiter_ms(at_ms))
        for job, gpus in now.items():
            comes_ms = self.moments.next_comer_ms(gpus, at_ms, {job})
            lasts_ms = min(until_ms, comes_ms, self.moments.left_ms(job)) - at_ms
            self.gpu_s += self._worth(truth, job, gpus) * lasts_ms / 1000

    def _worth(self, truth: ClusterState, job: JobId, gpus: tuple[GpuUuid, ...]) -> float:
        return _more_gpus(truth.jobs[job].profile, len(truth.placements[job].gpus), len(gpus))


def grown(moments: Moments, limits: Limits) -> Given:
    """Elastic jobs of which it was measured that they are faster, on what was left over."""
    bounds = only(limits, ActionClass.SCHEDULE, ActionClass.RESIZE)
    could = {id for id, each in moments.past.submitted.items() if each.job.elastic and each.job.profile}
    story = _Story(moments, limits)
    for at_ms, next_ms in pairwise((*moments.looks(), moments.past.to_ms) if could else ()):
        if story.grown or could & moments.there(at_ms):
            story.look(at_ms, next_ms, bounds)
    return Given(
        action=ActionClass.RESIZE.value,
        how="elastic jobs grown onto what was left over, and back",
        gpu_hours=story.gpu_s / HOUR_S,
        jobs=len(story.who),
        times=story.times,
    )


def backtest_growth(profiles: Iterable[Profile]) -> tuple[Foreseen, ...]:
    """For each size between two others that a job was measured on: what these foretell, and what it was.

    What an hour there brings beyond one on the next smaller size, in GPU-seconds of that.
    """
    result = []
    for profile in profiles:
        for before, size, _ in zip(*(sorted(profile.step_s)[at:] for at in range(3)), strict=False):
            others = {each: seconds for each, seconds in profile.step_s.items() if each != size}
            foretold = _more_gpus(replace(profile, step_s=others), before, size)
            result.append(
                Foreseen(
                    expected_s=foretold * HOUR_S,
                    came_s=_more_gpus(profile, before, size) * HOUR_S,
                )
            )
    return tuple(result)


def _kept(
    truth: ClusterState, grown: Mapping[JobId, tuple[GpuUuid, ...]]
) -> dict[JobId, tuple[GpuUuid, ...]]:
    """What grown jobs keep: what they hold in truth, and of what they grew onto, what nobody else does."""
    occupied = {uuid for placement in truth.placements.values() for uuid in placement.gpus}
    kept = {}
    for job, gpus in grown.items():
        mine = truth.placements.get(job)
        if mine is None:
            continue
        own = set(mine.gpus)
        more = tuple(uuid for uuid in gpus if uuid in truth.gpus and uuid not in occupied)
        if more:
            kept[job] = (*(uuid for uuid in gpus if uuid in own), *sorted(own - set(gpus)), *more)
    return kept


def _more_gpus(profile: Profile | None, before: int, after: int) -> float:
    """GPUs of its ``before`` that the larger world is worth beyond them; 0 where it was not measured."""
    gain = None if profile is None else speedup(profile, before, after)
    return 0.0 if gain is None else max(0.0, gain - 1) * before

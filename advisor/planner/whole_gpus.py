"""Fair shares in whole GPUs, where jobs take whole ones: eight GPUs by three projects are 3, 3 and 2. Pure.

With shares of 2.67 nobody is ever entitled to a job of three, and whoever has three is above its share. So
each has its share rounded down, and the GPUs that are left over go one by one to the largest remainder
(Hamilton's method: nobody ends a whole GPU away from its share). Of equal remainders the higher priority
comes first, then who has such a GPU already, then whose waiting job was submitted first, then the name.

Remainders follow what projects used: so the GPU over goes round among equals, and nobody is without for ever.
That it goes round in hours, and not with each measurement, is what ``KEEPS_GPUS`` is for.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import floor

from advisor.planner.transition import SHARE_SLACK
from advisor.state.model import ClusterState, Job, Phase, ProjectName

KEEPS_GPUS = 0.25
"""Whoever has the GPU over keeps it from who deserves less than that much more of it, in GPUs.

Three equal projects with gangs of three on eight GPUs change places every 15 hours then (decision 0123, and
its test): often enough that each has its part of a week, seldom beside what a start costs.
"""
DIGITS = 6
"""Remainders are compared to so many: sums of floats are equal to nine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A project's exact share of what its siblings divide, in GPUs; ``least`` is guaranteed, ``most`` wanted.

    ``allocated_gpus`` is what it has, ``waits_since_ms`` since when its first job waits.
    """

    name: ProjectName
    gpus: float
    least: float
    most: float
    is_whole: bool
    priority: int = 0
    allocated_gpus: float = 0.0
    waits_since_ms: float = float("inf")

    @property
    def floor_gpus(self) -> float:
        """What it has whatever the others have: all of it, where it gets all it wants or takes parts."""
        if not self.is_whole or self.gpus >= self.most - SHARE_SLACK:
            return self.gpus
        return max(self.least, float(floor(self.gpus + SHARE_SLACK)))

    @property
    def rank(self) -> tuple[int, float, bool, float, str]:
        """Sorts first who gets a GPU that is left over."""
        keeps = self.allocated_gpus > self.floor_gpus + SHARE_SLACK
        remainder = self.gpus - floor(self.gpus) + (KEEPS_GPUS if keeps else 0.0)
        return (-self.priority, -round(remainder, DIGITS), not keeps, self.waits_since_ms, self.name)


def whole_shares(parts: Sequence[Part]) -> list[float]:
    """The shares in whole GPUs, in the order given; their sum stays, and nobody's exceeds what it wants."""
    shares = {part.name: part.floor_gpus for part in parts}
    rest = sum(part.gpus for part in parts) - sum(shares.values())
    for part in sorted((part for part in parts if part.gpus > part.floor_gpus + SHARE_SLACK), key=_rank):
        more = min(rest, part.most - part.floor_gpus, floor(part.floor_gpus) + 1 - part.floor_gpus)
        shares[part.name] += max(0.0, more)
        rest -= more
    return [shares[part.name] for part in parts]


def _rank(part: Part) -> tuple[int, float, bool, float, str]:
    return part.rank


def takes_parts(jobs: Iterable[Job], state: ClusterState) -> set[ProjectName]:
    """Projects with a job that takes less than a whole GPU: a share, or a MIG instance. Not rounded."""
    instances = {gpu.model for gpu in state.gpus.values() if gpu.part_of_device is not None}
    only = bool(instances) and all(gpu.part_of_device is not None for gpu in state.gpus.values())
    return {
        job.project
        for job in jobs
        if job.share < 1
        or (instances and job.min_gpus == 1 and (only or not instances.isdisjoint(job.gpu_models)))
        or _lies_on_instance(job, state)
    }


def waits_since(jobs: Iterable[Job]) -> dict[ProjectName, int]:
    """When the first of each project's waiting jobs was submitted."""
    since: dict[ProjectName, int] = {}
    for job in jobs:
        if job.phase is not Phase.RUNNING and not job.after:
            since[job.project] = min(since.get(job.project, job.submitted_ms), job.submitted_ms)
    return since


def _lies_on_instance(job: Job, state: ClusterState) -> bool:
    placement = state.placements.get(job.id)
    if placement is None:
        return False
    gpus = (state.gpus.get(uuid) for uuid in placement.gpus[:1])
    return any(gpu is not None and gpu.part_of_device is not None for gpu in gpus)

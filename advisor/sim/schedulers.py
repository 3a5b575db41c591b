"""What decides in a simulated world, and what it may look at: Fallow's policies, and others to compare with.

Fallow's own are the very code that runs live. The others are what most labs do, and what the literature does:

    static  each project has its own GPUs, first come first served in them, nothing is ever lent
    fifo    one pool, first come first served, nobody overtakes
    srtf    one pool, the shortest remaining time first, by an oracle that knows it; preempts
    las     Tiresias (Gu et al., NSDI 2019): two queues by attained GPU time, first come first served in
            each, preempts; 16 GPU-hours divide them, as in Pollux's simulator

Those four give each job exactly the GPUs that it asked for.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from heapq import merge
from typing import Protocol

from advisor.actions import Action, Requeue, Start
from advisor.decide import decide
from advisor.planner.limits import Limits, Order
from advisor.planner.placement import Board
from advisor.state.model import ClusterState, Gpu, Job, Phase, Placement, Profile
from collector.model import GpuUuid, JobId


class Sight(Protocol):
    """What there is to see of a world. Only an oracle looks at ``left_s``."""

    @property
    def state(self) -> ClusterState:
        """Who holds what."""
        ...

    def observe(self) -> ClusterState:
        """The same with what jobs report of themselves."""
        ...

    @property
    def queues(self) -> Mapping[str, Sequence[tuple[float, JobId]]]:
        """The waiting jobs of each project as (second of submission, job), in that order."""
        ...

    def attained_gpu_s(self, job: JobId) -> float:
        """GPU-seconds that a job has held so far: any scheduler can count them."""
        ...

    def left_s(self, job: JobId) -> float:
        """The seconds that a job still needs: only an oracle knows them."""
        ...


class Scheduler(Protocol):
    """Decides what to do now; called at ticks at which something has changed.

    ``again_s``: it also wants to be asked this often while jobs wait, ``None``: never.
    """

    @property
    def again_s(self) -> float | None:
        """See above."""
        ...

    def decide(self, sight: Sight) -> Sequence[Action]:
        """Steps to take now, in order."""
        ...


# Where Tiresias divides its two queues here (docs/simulator.md).
LAS_THRESHOLD_GPU_S = 16 * 3600.0
LAS_ROUND_S = 60.0


@dataclass(slots=True)
class Fifo:
    """One pool, in the order of submission; who doesn't fit blocks those behind."""

    again_s: float | None = None

    def decide(self, sight: Sight) -> Sequence[Action]:
        """Start jobs from the head of the queue until one doesn't fit."""
        state = sight.state
        queue = (state.jobs[name] for _, name in merge(*sight.queues.values()))
        return in_order(state, queue)


@dataclass(slots=True)
class Static:
    """Each project in its own GPUs. ``own`` is made of the quotas when first asked."""

    again_s: float | None = None
    own: dict[str, tuple[GpuUuid, ...]] = field(default_factory=dict)

    def decide(self, sight: Sight) -> Sequence[Action]:
        """Start jobs from the head of each project's queue until one doesn't fit into its own GPUs."""
        state = sight.state
        if not self.own:
            self.own = partition(state)
        gpus: dict[str, float] = {}
        for name, placement in state.placements.items():
            owner = state.jobs[name].project
            gpus[owner] = gpus.get(owner, 0.0) + placement.size_gpus
        steps: list[Action] = []
        for project, queue in sorted(sight.queues.items()):
            head = state.jobs[queue[0][1]] if queue else None
            if head is None or gpus.get(project, 0.0) + head.demand_gpus > len(self.own[project]):
                continue
            own = {uuid: state.gpus[uuid] for uuid in self.own[project]}
            corner = replace(state, gpus=own, placements=_within(state, own))
            steps += in_order(corner, (state.jobs[name] for _, name in queue))
        return steps


@dataclass(slots=True)
class Srtf:
    """The shortest remaining time first: jobs that don't fit are passed over, others make room."""

    again_s: float | None = None

    def decide(self, sight: Sight) -> Sequence[Action]:
        """Run the shortest that fit together; put the others back in the queue."""
        jobs = sorted(sight.state.jobs.values(), key=lambda job: (sight.left_s(job.id), job.id))
        return preempting(sight.state, jobs)


@dataclass(slots=True)
class Las:
    """Tiresias' discretised two-dimensional LAS: who has had little GPU time comes first."""

    again_s: float | None = LAS_ROUND_S
    demoted: dict[JobId, int] = field(default_factory=dict)

    def decide(self, sight: Sight) -> Sequence[Action]:
        """Serve the first queue, then the second; who doesn't fit is passed over and makes room."""
        state = sight.state
        for job in state.jobs.values():
            if job.id not in self.demoted and sight.attained_gpu_s(job.id) >= LAS_THRESHOLD_GPU_S:
                self.demoted[job.id] = len(self.demoted)
        jobs = sorted(
            state.jobs.values(), key=lambda job: (self.demoted.get(job.id, -1), job.submitted_ms, job.id)
        )
        return preempting(state, jobs)


def partition(state: ClusterState) -> dict[str, tuple[GpuUuid, ...]]:
    """The GPUs cut up among the projects, in order of their names, as many for each as its quota."""
    rest = list(state.gpus)
    own: dict[str, tuple[GpuUuid, ...]] = {}
    for name in sorted(state.projects):
        count = round(state.projects[name].quota_gpus or 0)
        own[name], rest = tuple(rest[:count]), rest[count:]
    return own


def in_order(state: ClusterState, queue: Iterable[Job]) -> list[Action]:
    """Starts from the head of a queue, up to the first job that doesn't fit."""
    board: Board | None = None
    steps: list[Action] = []
    occupied = {uuid for placement in state.placements.values() for uuid in placement.gpus}
    free = sum(1 for uuid in state.gpus if uuid not in occupied)
    for job in queue:
        if job.share == 1 and job.max_gpus > free:
            break
        board = board or Board(state)
        gpus = board.find(job, job.max_gpus)
        if gpus is None:
            break
        board.occupy(job, Placement(gpus=gpus, share=job.share))
        steps.append(Start(job=job.id, gpus=gpus, share=job.share, reason="first in its queue"))
        free -= job.max_gpus if job.share == 1 else 0
    return steps


def preempting(state: ClusterState, ranked: Sequence[Job]) -> list[Action]:
    """Steps after which the first of ``ranked`` that fit together by number of GPUs run, and no others."""
    rest = float(len(state.gpus))
    chosen: list[Job] = []
    for job in ranked:
        if job.max_gpus * job.share <= rest:
            rest -= job.max_gpus * job.share
            chosen.append(job)
    ids = {job.id for job in chosen}
    leaving = [name for name in state.placements if name not in ids]
    coming = [job for job in chosen if job.phase is Phase.PENDING]
    if not coming:
        return []
    board = Board(state)
    for name in leaving:
        board.vacate(name, state.placements[name])
    steps: list[Action] = [Requeue(job=name, reason="others come first") for name in leaving]
    for job in coming:
        gpus = board.find(job, job.max_gpus)
        if gpus is not None:
            board.occupy(job, Placement(gpus=gpus, share=job.share))
            steps.append(Start(job=job.id, gpus=gpus, share=job.share, reason="its turn"))
    return steps


def _within(state: ClusterState, own: Mapping[GpuUuid, Gpu]) -> dict[JobId, Placement]:
    return {
        name: placement
        for name, placement in state.placements.items()
        if all(uuid in own for uuid in placement.gpus)
    }


@dataclass(slots=True)
class Fallow:
    """The whole decision as it runs live: quotas, queues, back-fill, reclaim, elastic sizes."""

    limits: Limits = field(default_factory=Limits)
    again_s: float | None = 60.0

    def decide(self, sight: Sight) -> Sequence[Action]:
        """The plan's steps."""
        return decide(sight.observe(), self.limits).steps


@dataclass(slots=True)
class Foretold(Fallow):
    """The same as told by an oracle: each queue in the order of the GPU time that its jobs will take.

    Beside what Fallow gets, it tells how much of the waiting is a matter of order. For jobs that are rigid.
    """

    def decide(self, sight: Sight) -> Sequence[Action]:
        """The plan's steps."""
        state = sight.observe()
        foretold = {
            name: replace(job, profile=Profile(step_s={job.min_gpus: 1.0}, steps_left=sight.left_s(name)))
            for name, job in state.jobs.items()
            if job.phase is not Phase.RUNNING
        }
        foreseen = replace(state, jobs={**state.jobs, **foretold})
        return decide(foreseen, replace(self.limits, order=Order.SHORTEST)).steps

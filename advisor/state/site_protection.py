"""What a site protects: users, jobs and GPUs that nothing is ever done to, marked in a state. Pure.

The rule itself is in ``advisor.planner.protection``; here the site's words are matched to what is there.
Whoever sits on a protected GPU is protected with it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from advisor.state.model import ClusterState, Gpu, Job
from collector.model import GpuUuid


@dataclass(frozen=True, slots=True, kw_only=True)
class Protect:
    """The site's words. ``jobs``: patterns (``*``, ``?``) of ids or names; ``gpus``: UUIDs or node:index."""

    users: frozenset[str] = frozenset()
    jobs: tuple[str, ...] = ()
    gpus: frozenset[str] = frozenset()

    def covers_job(self, job: Job) -> bool:
        """Whether the job is protected by its owner or by its id or name."""
        if job.user in self.users:
            return True
        names = (job.id, *(() if job.name is None else (job.name,)))
        return any(fnmatchcase(name, pattern) for pattern in self.jobs for name in names)

    def covers_gpu(self, uuid: GpuUuid, place: str | None = None) -> bool:
        """Whether the GPU is protected: by UUID, by ``node:index`` (``node/index`` too), or with its board.

        A MIG instance is ``node:0/1g.10gb#7``; ``node:0`` is its board with all its instances.
        """
        if place is None:
            return uuid in self.gpus
        board = place.rpartition(":")[0] + ":" + place.rpartition(":")[2].partition("/")[0]
        names = {place, board}
        return bool({uuid, *names, *(name.replace(":", "/") for name in names)} & self.gpus)


def with_protection(
    state: ClusterState, protect: Protect, places: Mapping[GpuUuid, str] | None = None
) -> ClusterState:
    """The state with everything marked that the site protects; ``places`` says the node:index of a GPU."""
    if protect == Protect():
        return state
    named = {} if places is None else places
    gpus = {uuid: _gpu(gpu, protect, named.get(uuid)) for uuid, gpu in state.gpus.items()}
    beneath = {
        job
        for job, placement in state.placements.items()
        if any(uuid in gpus and gpus[uuid].protected for uuid in placement.gpus)
    }
    jobs = {
        id: replace(job, protected=True)
        if not job.protected and (id in beneath or protect.covers_job(job))
        else job
        for id, job in state.jobs.items()
    }
    return replace(state, gpus=gpus, jobs=jobs)


def _gpu(gpu: Gpu, protect: Protect, place: str | None) -> Gpu:
    if gpu.protected or not protect.covers_gpu(gpu.uuid, place):
        return gpu
    return replace(gpu, protected=True)

"""Whether a ``ClusterState`` can be: asked once, where one enters, so that decisions may trust it. Pure.

Every message names the thing that is wrong, what was found, and what would be right. All that is wrong is
said at once.
"""

from collections import defaultdict
from collections.abc import Iterator

from advisor.planner.transition import SHARE_SLACK
from advisor.state.model import ClusterState, Job, Phase, Project
from collector.model import GpuUuid, NodeName


class BadState(ValueError):
    """The state cannot be: ``problems`` lists why, one sentence each."""

    def __init__(self, problems: tuple[str, ...]) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems


def checked(state: ClusterState) -> ClusterState:
    """``state`` itself, when it can be. Raises BadState with everything that is wrong with it."""
    problems = tuple(_problems(state))
    if problems:
        raise BadState(problems)
    return state


def _problems(state: ClusterState) -> Iterator[str]:
    for project in state.projects.values():
        yield from _project(project, state)
    for uuid, gpu in state.gpus.items():
        if gpu.uuid != uuid:
            yield f"GPU {gpu.uuid} is listed as {uuid}: list it by its UUID"
        if gpu.memory_bytes is not None and gpu.memory_bytes <= 0:
            yield f"GPU {uuid} has {gpu.memory_bytes} bytes of memory: leave it out when it is not known"
    for id, job in state.jobs.items():
        if not _is_plain(job) or id != job.id:
            yield from _job(job, id)
        if (job.phase is Phase.RUNNING) != (id in state.placements):
            where = "no GPUs" if job.phase is Phase.RUNNING else "GPUs"
            yield f"job {id} is {job.phase.value} and has {where}: running jobs have GPUs, and no others"
    inner = {project.parent for project in state.projects.values()}
    for name in sorted({job.project for job in state.jobs.values()} & {each for each in inner if each}):
        yield f"project {name} has jobs and child projects: jobs belong to projects without children"
    yield from _placements(state)


def _project(project: Project, state: ClusterState) -> Iterator[str]:
    quota, limit = project.quota_gpus, project.limit_gpus
    if quota is not None and quota < 0:
        yield f"project {project.name} has a quota of {quota:g} GPUs: a quota is 0 or more"
    if limit is not None and limit < (quota or 0):
        yield f"project {project.name} has a limit of {limit:g} GPUs, below its quota of {quota or 0:g}"
    if project.weight < 0:
        yield f"project {project.name} has a weight of {project.weight:g}: a weight is 0 or more"
    if project.parent is not None and project.parent not in state.projects:
        yield f"project {project.name} has the parent {project.parent}, and there is no such project"
    path = [project.name]
    while (parent := state.projects[path[-1]].parent) is not None and parent in state.projects:
        if parent in path:
            if project.name == min(path[path.index(parent) :]):
                yield f"projects {' -> '.join([*path[path.index(parent) :], parent])} are their own ancestors"
            return
        path.append(parent)


def _is_plain(job: Job) -> bool:
    """The usual job, at one glance: states have many."""
    return (
        1 <= job.min_gpus <= job.max_gpus
        and 0 < job.share <= 1
        and (job.memory_bytes is None or job.memory_bytes > 0)
        and (job.limit_s is None or job.limit_s > 0)
        and (job.profile is None or min(job.profile.step_s.values(), default=1.0) > 0)
    )


def _job(job: Job, id: str) -> Iterator[str]:
    if id != job.id:
        yield f"job {job.id} is listed as {id}: list it by its id"
    if job.min_gpus < 1:
        yield f"job {id} asks for {job.min_gpus} GPUs: ask for at least 1"
    if job.max_gpus < job.min_gpus:
        yield f"job {id} runs on at least {job.min_gpus} and at most {job.max_gpus} GPUs: swap the two"
    if not 0 < job.share <= 1:
        yield f"job {id} asks for a share of {job.share:g} of a GPU: a share is above 0 and at most 1"
    if job.memory_bytes is not None and job.memory_bytes <= 0:
        yield f"job {id} needs {job.memory_bytes} bytes of memory: leave it out when it is not known"
    if job.limit_s is not None and job.limit_s <= 0:
        yield f"job {id} has a time limit of {job.limit_s:g} s: leave it out when there is none"
    if job.profile is not None and min(job.profile.step_s.values(), default=1.0) <= 0:
        yield f"job {id} has a step time that is not above 0 s: leave out what was not measured"


def _placements(state: ClusterState) -> Iterator[str]:
    allocated: defaultdict[GpuUuid, float] = defaultdict(float)
    unknown: set[NodeName | GpuUuid] = set()
    for id, placement in state.placements.items():
        if id not in state.jobs:
            yield f"GPUs are given to job {id}, and there is no such job"
        if not placement.gpus or len(set(placement.gpus)) != len(placement.gpus):
            yield f"job {id} runs on {list(placement.gpus)}: at least one GPU, each named once"
        if not 0 < placement.share <= 1:
            yield f"job {id} has a share of {placement.share:g}: a share is above 0 and at most 1"
        for uuid in placement.gpus:
            allocated[uuid] += placement.share
            if uuid not in state.gpus and uuid not in unknown:
                unknown.add(uuid)
                yield f"job {id} runs on GPU {uuid}, and there is no such GPU"
    for uuid, share in allocated.items():
        if share > 1 + SHARE_SLACK:
            yield f"GPU {uuid} is given away {share:g} times"

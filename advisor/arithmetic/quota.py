"""Which running GPUs stand under a guaranteed quota, level by level of the project tree. Pure.

A project's jobs are laid under its quota in the order in which they are protected: what cannot be taken back
first, then by priority, then who has run longest. A rigid job is covered when it fits into what is left of
the quota, whole; an elastic one as far as the quota reaches, if that is at least its smallest world. At an
inner project, what its children's quotas cover comes first. What is not covered is borrowed.

Whose quota counts depends on who asks: between two projects only the levels below their common ancestor do
(two teams of one department share the department's guarantee, but settle it between themselves).
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from advisor.arithmetic.projects import Tree, tree_of
from advisor.model import ClusterState, Job, ProjectName
from advisor.transition import SHARE_SLACK
from collector.model import JobId


@dataclass(frozen=True, slots=True, kw_only=True)
class Cover:
    """``covered[project][job]``: GPUs of the job under that project's quota; a job left out has none."""

    tree: Tree
    covered: Mapping[ProjectName, Mapping[JobId, float]]

    def gpus(self, job: Job, against: ProjectName | None = None) -> float:
        """GPUs of the job that nobody may take; ``against`` whom, ``None`` for anybody at all."""
        levels = self.tree.paths[job.project]
        if against is not None:
            others = set(self.tree.paths.get(against, ()))
            levels = tuple(name for name in levels if name not in others) or levels[:1]
        return max((self.covered[name].get(job.id, 0.0) for name in levels), default=0.0)


def quota_cover(state: ClusterState, tree: Tree | None = None) -> Cover:
    """How far the quotas of all projects cover what runs now."""
    if tree is None:
        tree = tree_of(state.projects, also={job.project for job in state.jobs.values()})
    sizes = {job: placement.size_gpus for job, placement in state.placements.items()}
    own: defaultdict[ProjectName, list[Job]] = defaultdict(list)
    for id in state.placements:
        own[state.jobs[id].project].append(state.jobs[id])
    covered: dict[ProjectName, dict[JobId, float]] = {}
    below: dict[ProjectName, list[Job]] = {}
    for name in sorted(tree.projects, key=lambda each: -len(tree.paths[each])):
        children = tree.children[name]
        below[name] = own.get(name, []) + [job for child in children for job in below[child]]
        first: dict[JobId, float] = {}
        for child in children:
            first.update(covered[child])
        covered[name] = _lay(below[name], sizes, tree.quotas[name], first)
    return Cover(tree=tree, covered=covered)


def protection_order(job: Job) -> tuple[bool, int, int, str]:
    """Sorts the most protected first."""
    return (job.preemptible, -job.priority, job.started_ms or 0, job.id)


def _lay(
    jobs: Iterable[Job], sizes: Mapping[JobId, float], quota: float, first: Mapping[JobId, float]
) -> dict[JobId, float]:
    covered = dict(first)
    left = quota - sum(first.values())
    if left <= SHARE_SLACK:
        return covered
    for job in sorted(jobs, key=protection_order):
        already = covered.get(job.id, 0.0)
        wanted = sizes[job.id] - already
        if job.elastic and wanted > left and already + left >= job.min_gpus * job.share:
            wanted = left
        if 0 < wanted <= left + SHARE_SLACK:
            covered[job.id] = already + wanted
            left -= wanted
    return covered

"""The project tree and its quotas: who is below whom, what each wants and holds, what a quota covers. Pure.

A project's jobs are laid under its quota in the order in which they are protected: what cannot be taken back
first, then by priority, then who has run longest. A rigid job is covered when it fits into what is left of
the quota, whole; an elastic one as far as the quota reaches, if that is at least its smallest world. At an
inner project, what its children's quotas cover comes first. What is not covered is borrowed.

Whose quota counts depends on who asks: between two projects only the levels below their common ancestor do
(two teams of one department share the department's guarantee, but settle it between themselves).
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from math import fsum

from advisor.planner.transition import SHARE_SLACK
from advisor.state.model import ClusterState, Gpu, Job, Phase, Project, ProjectName, held_gpus
from collector.model import JobId

ITSELF = " (itself)"
"""What the name of a project's own leaf ends with, where others are below the project."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree:
    """Projects by their place: ``paths`` lead from a project to its root, itself first.

    ``quotas`` are resolved: an inner project without one guarantees the sum of its children's.
    """

    projects: Mapping[ProjectName, Project]
    roots: tuple[ProjectName, ...]
    children: Mapping[ProjectName, tuple[ProjectName, ...]]
    paths: Mapping[ProjectName, tuple[ProjectName, ...]]
    quotas: Mapping[ProjectName, float]


def tree_of(projects: Mapping[ProjectName, Project], also: Iterable[ProjectName] = ()) -> Tree:
    """The tree; ``also`` are projects that jobs name and nobody configured: roots with no quota.

    Expects what ``advisor.planner.validate`` has let through: no cycle, every parent known.
    """
    projects_by_name = dict(projects)
    for name in also:
        projects_by_name.setdefault(name, Project(name=name))
    below: defaultdict[ProjectName, list[ProjectName]] = defaultdict(list)
    roots: list[ProjectName] = []
    for name in sorted(projects_by_name):
        parent = projects_by_name[name].parent
        (roots if parent is None else below[parent]).append(name)
    paths = {name: _path(projects_by_name, name) for name in projects_by_name}
    children = {name: tuple(below.get(name, ())) for name in projects_by_name}
    quotas: dict[ProjectName, float] = {}
    for name in sorted(projects_by_name, key=lambda each: -len(paths[each])):
        own = projects_by_name[name].quota_gpus
        quotas[name] = sum(quotas[child] for child in children[name]) if own is None else own
    return Tree(projects=projects_by_name, roots=tuple(roots), children=children, paths=paths, quotas=quotas)


def housed(state: ClusterState) -> ClusterState:
    """The state with every job in a leaf of the tree.

    Nobody asks Fallow which project a job of somebody else's is for, and a project may get others below it
    while its jobs run. Such jobs belong to a leaf of their own under their project: no quota, weight 1.
    """
    inner = {project.parent for project in state.projects.values()}
    leaves = {
        name: ProjectName(f"{name}{ITSELF}")
        for name in {job.project for job in state.jobs.values()}
        if name in inner
    }
    if not leaves:
        return state
    new = {leaf: Project(name=leaf, parent=name) for name, leaf in leaves.items()}
    return replace(
        state,
        projects={**state.projects, **new},
        jobs={
            id: replace(job, project=leaves[job.project]) if job.project in leaves else job
            for id, job in state.jobs.items()
        },
        usage={leaves.get(name, name): usage for name, usage in state.usage.items()},
    )


def known_as(project: ProjectName) -> ProjectName:
    """The name that people know a project by."""
    return ProjectName(project.removesuffix(ITSELF))


def upward(tree: Tree, leaves: Mapping[ProjectName, float]) -> dict[ProjectName, float]:
    """Sums over subtrees of an amount that each project has by itself, in whatever order it comes."""
    sums = dict.fromkeys(tree.projects, 0.0)
    # In one order: floats that are added in another may differ in their last bit.
    for name in sorted(leaves):
        for above in tree.paths[name]:
            sums[above] += leaves[name]
    return sums


def demand(state: ClusterState) -> dict[ProjectName, float]:
    """GPUs that each project's own jobs could use now: running, pending and paused ones at their largest.

    Who asked for a part of a GPU and was given a MIG instance wants that instance.
    """
    by_project: defaultdict[ProjectName, list[float]] = defaultdict(list)
    for job in state.jobs.values():
        placement = state.placements.get(job.id)
        if placement is None and job.after:
            continue
        size = 0.0 if placement is None else held_gpus(placement, state.gpus)
        # Summed by fsum at the end, whose result does not hang on the order of the jobs.
        by_project[job.project].append(max(job.max_gpus * job.share, size))
    return {name: fsum(sizes) for name, sizes in by_project.items()}


def asking(state: ClusterState) -> dict[ProjectName, float]:
    """How many jobs of its own each project has: running, pending and paused ones."""
    return {
        name: float(jobs)
        for name, jobs in Counter(job.project for job in state.jobs.values() if not job.after).items()
    }


def allocated(state: ClusterState) -> dict[ProjectName, float]:
    """GPUs that each project's own jobs were given."""
    by_project: defaultdict[ProjectName, list[float]] = defaultdict(list)
    for job, placement in state.placements.items():
        by_project[state.jobs[job].project].append(held_gpus(placement, state.gpus))
    return {name: fsum(sizes) for name, sizes in by_project.items()}


def is_usable(gpu: Gpu, state: ClusterState) -> bool:
    """Whether the GPU may be given away: healthy, not protected, not in use, on a node that takes work."""
    if not gpu.healthy or gpu.occupied or gpu.protected:
        return False
    node = state.nodes.get(gpu.node)
    return node is None or node.schedulable


def capacity_gpus(state: ClusterState) -> float:
    """GPUs that count for fairness: those that may be given away, and those that are given away.

    A MIG instance counts as its part of a device.
    """
    allocated = {uuid for placement in state.placements.values() for uuid in placement.gpus}
    return fsum(
        1.0 if gpu.part_of_device is None else gpu.part_of_device
        for gpu in state.gpus.values()
        if gpu.uuid in allocated or is_usable(gpu, state)
    )


def waits(phase: Phase) -> bool:
    """Whether a job of this phase stands in its project's queue."""
    return phase is not Phase.RUNNING


def _path(projects: Mapping[ProjectName, Project], name: ProjectName) -> tuple[ProjectName, ...]:
    path = [name]
    while (parent := projects[path[-1]].parent) is not None:
        path.append(parent)
    return tuple(path)


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
    sizes = {job: held_gpus(placement, state.gpus) for job, placement in state.placements.items()}
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
    rest = quota - sum(first.values())
    if rest <= SHARE_SLACK:
        return covered
    for job in sorted(jobs, key=protection_order):
        already = covered.get(job.id, 0.0)
        more = sizes[job.id] - already
        # Of an elastic job a part may be covered, if it could run on that part.
        if job.elastic and more > rest and already + rest >= job.min_gpus * job.share:
            more = rest
        if 0 < more <= rest + SHARE_SLACK:
            covered[job.id] = already + more
            rest -= more
    return covered

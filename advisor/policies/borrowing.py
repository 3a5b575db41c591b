"""What nobody may take back is borrowed only from what nobody was guaranteed. Pure.

A job that is not preemptible cannot give way when a project asks for its quota. So beyond its own project's
quota it starts only while, at every level of the tree, the GPUs that are held firmly beyond quotas still
leave room for everybody's quota:

    firm beyond quotas  <=  what there is  -  the sum of quotas

(KAI-Scheduler forbids non-preemptible work over quota altogether; a cluster without quotas would then stand
still.)
"""

from collections import defaultdict
from dataclasses import dataclass

from advisor.planner.transition import SHARE_SLACK
from advisor.planner.working_state import WorkingState
from advisor.policies.phrases import jobs_of
from advisor.state.model import Job, ProjectName
from collector.model import JobKind


def is_firm(job: Job) -> bool:
    """Whether the job cannot be made to give way."""
    return not job.preemptible or job.kind is not JobKind.BATCH


@dataclass(frozen=True, slots=True, kw_only=True)
class Lack:
    """Why a job that cannot give way may not borrow: ``beyond_gpus`` of it lie over the quota of ``project``.

    There are ``there_gpus`` (of ``parent``; ``None``: of the cluster); quotas guarantee ``guaranteed_gpus``
    of them, and ``lent_gpus`` beyond quotas are held by others that cannot give way.
    """

    project: ProjectName
    parent: ProjectName | None
    beyond_gpus: float
    wanted_gpus: float
    there_gpus: float
    guaranteed_gpus: float
    lent_gpus: float


def refusal_reason(job: Job, lack: Lack, free_gpus: int) -> tuple[str, str]:
    """What a person reads who waits for this, and what would have to happen."""
    parted = "its GPUs" if lack.parent is None else f"the GPUs of {lack.parent}"
    reason = (
        f"{_why_firm(job)}, and {lack.beyond_gpus:g} of {parted} would lie beyond the quota of {lack.project}"
    )
    reason += f": {_borrowed(lack)}"
    if free_gpus >= job.min_gpus * job.share:
        reason += f"; {free_gpus} are free now and stay free for whoever is guaranteed them"
    ways = [f"a quota of at least {lack.wanted_gpus:g} for {lack.project}"]
    if job.kind is not JobKind.BATCH:
        ways.insert(0, "submitting it as a preemptible batch job")
    elif not job.preemptible:
        ways.insert(0, "submitting it as one that may give way (--preemptible)")
    if lack.lent_gpus > SHARE_SLACK:
        ways.append("the end of one of those jobs")
    return reason, f"{', '.join(ways[:-1])}, or {ways[-1]}"


class Firm:
    """GPUs held by jobs that cannot give way, by subtree."""

    def __init__(self, round: WorkingState) -> None:
        self._tree, self._capacity = round.tree, round.shares.capacity_gpus
        self._held = dict.fromkeys(self._tree.projects, 0.0)
        self._beyond: defaultdict[ProjectName | None, float] = defaultdict(float)
        self._quotas: defaultdict[ProjectName | None, float] = defaultdict(float)
        for name, project in self._tree.projects.items():
            self._quotas[project.parent] += self._tree.quotas[name]
        for id in sorted(id for id in round.placements if is_firm(round.state.jobs[id])):
            self.note(round.state.jobs[id])

    def lack(self, job: Job) -> Lack | None:
        """Why the job's smallest world would put somebody's quota out of reach; ``None`` when it does not."""
        if not is_firm(job):
            return None
        size = job.min_gpus * job.share
        for name in self._tree.paths[job.project]:
            more = self._over(name, size) - self._over(name, 0.0)
            parent = self._tree.projects[name].parent
            if more > SHARE_SLACK and more > self._slack(parent) + SHARE_SLACK:
                return Lack(
                    project=name,
                    parent=parent,
                    beyond_gpus=more,
                    wanted_gpus=self._held[name] + size,
                    there_gpus=self._there(parent),
                    guaranteed_gpus=self._quotas[parent],
                    lent_gpus=self._beyond[parent],
                )
        return None

    def note(self, job: Job) -> None:
        """Count a job that runs."""
        if not is_firm(job):
            return
        size = job.min_gpus * job.share
        for name in self._tree.paths[job.project]:
            parent = self._tree.projects[name].parent
            self._beyond[parent] += self._over(name, size) - self._over(name, 0.0)
            self._held[name] += size

    def _over(self, name: ProjectName, more: float) -> float:
        return max(0.0, self._held[name] + more - self._tree.quotas[name])

    def _slack(self, parent: ProjectName | None) -> float:
        return self._there(parent) - self._quotas[parent] - self._beyond[parent]

    def _there(self, parent: ProjectName | None) -> float:
        if parent is None:
            return self._capacity
        above = self._slack(self._tree.projects[parent].parent)
        return self._tree.quotas[parent] + self._over(parent, 0.0) + max(0.0, above)


def _why_firm(job: Job) -> str:
    if job.kind is not JobKind.BATCH:
        return f"{jobs_of(job.kind)} are never made to give way"
    return "it is not preemptible"


def _borrowed(lack: Lack) -> str:
    """Where all of them went: to quotas, and to others of its kind."""
    there, sure = f"{lack.there_gpus:g}", f"{lack.guaranteed_gpus:g}"
    if lack.guaranteed_gpus > lack.there_gpus + SHARE_SLACK:
        return f"quotas add up to {sure}, and there are {there}"
    borrowable = max(0.0, lack.there_gpus - lack.guaranteed_gpus)
    if borrowable <= SHARE_SLACK:
        return f"quotas guarantee all {there} to projects"
    lent = min(borrowable, lack.lent_gpus)
    if lent > SHARE_SLACK:
        return (
            f"quotas guarantee {sure} of {there} to projects, and {lent:g} of the other {borrowable:g} are "
            "held by jobs that cannot give way either"
        )
    return f"quotas guarantee {sure} of {there} to projects, which leaves {borrowable:g}"

"""What nobody may take back is borrowed only from what nobody was guaranteed. Pure.

A job that is not preemptible cannot give way when a project asks for its quota. So beyond its own project's
quota it starts only while, at every level of the tree, the GPUs that are held firmly beyond quotas still
leave room for everybody's quota:

    firm beyond quotas  <=  what there is  -  the sum of quotas

(KAI-Scheduler forbids non-preemptible work over quota altogether; a cluster without quotas would then stand
still.)
"""

from collections import defaultdict

from advisor.model import Job, ProjectName
from advisor.round import Round
from advisor.transition import SHARE_SLACK
from collector.model import JobKind


def is_firm(job: Job) -> bool:
    """Whether the job cannot be made to give way."""
    return not job.preemptible or job.kind is not JobKind.BATCH


class Firm:
    """GPUs held by jobs that cannot give way, by subtree."""

    def __init__(self, round: Round) -> None:
        self._tree, self._capacity = round.tree, round.shares.capacity_gpus
        self._held = dict.fromkeys(self._tree.projects, 0.0)
        self._beyond: defaultdict[ProjectName | None, float] = defaultdict(float)
        self._quotas: defaultdict[ProjectName | None, float] = defaultdict(float)
        for name, project in self._tree.projects.items():
            self._quotas[project.parent] += self._tree.quotas[name]
        for id in round.placements:
            self.note(round.state.jobs[id])

    def may_start(self, job: Job) -> bool:
        """Whether the job's smallest world leaves everybody's quota within reach."""
        if not is_firm(job):
            return True
        size = job.min_gpus * job.share
        for name in self._tree.paths[job.project]:
            more = self._over(name, size) - self._over(name, 0.0)
            if more > SHARE_SLACK and more > self._slack(self._tree.projects[name].parent) + SHARE_SLACK:
                return False
        return True

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
        if parent is None:
            there_is = self._capacity
        else:
            above = self._slack(self._tree.projects[parent].parent)
            there_is = self._tree.quotas[parent] + self._over(parent, 0.0) + max(0.0, above)
        return there_is - self._quotas[parent] - self._beyond[parent]

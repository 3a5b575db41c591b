"""Whether a process belongs to one of those who were given the GPU it is on. Pure.

The signs in order: ids that only the system can set (control group, process tree), ids from the
environment when the person is known to be the job's, the pod's uid, its name within its own namespace, and
last the person. Where a sign is missing, the answer is Unknown; Nobody is said only when everything that
could tie the process to a holder was looked at.
"""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from types import MappingProxyType

from collector.inventory.holders import claimed_by, is_of, job_of, person_behind
from collector.inventory.kubernetes import is_pod, is_uid, names_process, namespace_of
from collector.inventory.ray import is_rays
from collector.model import Holder, JobId, Process


@dataclass(frozen=True, slots=True, kw_only=True)
class Owned:
    """The process belongs to this job."""

    job: JobId


@dataclass(frozen=True, slots=True, kw_only=True)
class Nobody:
    """The process belongs to none of those who were given the GPU."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unknown:
    """Nobody can tell."""


Verdict = Owned | Nobody | Unknown


PodUids = Mapping[JobId, str]
"""The uid of each pod that a source tells; of the others the name is all that is known."""

NO_UIDS: PodUids = MappingProxyType({})


def verdict_on(
    process: Process, holders: Sequence[Holder], jobs: Set[JobId], pod_uids: PodUids = NO_UIDS
) -> Verdict:
    """Whose the process is, among the ``holders`` of the GPU it is on.

    ``jobs`` are all that anybody named: a job that none of them is began after they were asked.
    ``pod_uids``: of the holders that are pods.
    """
    holders_by_job = {holder.job: holder for holder in holders}
    own = job_of(process)
    if own is None:
        return Unknown()
    for job in claimed_by(process):
        if job in holders_by_job and is_of(process, job, holders_by_job[job].user):
            return Owned(job=job)
    if process.slurm_job is not None and any(job.startswith("slurm:") for job in holders_by_job):
        return Nobody() if own in jobs else Unknown()
    pods = [job for job in holders_by_job if is_pod(job)]
    if pods and process.pod is not None and (verdict := _by_uid(process.pod, pods, pod_uids)) is not None:
        return verdict
    if pods:
        return _among_pods(process, pods, jobs, has_others=len(pods) < len(holders_by_job))
    if any(is_rays(job) for job in holders_by_job):
        return Unknown()  # its processes run as the account that started Ray, whoever's the job is
    return _by_person(process, holders_by_job)


def _by_uid(uid: str, pods: Sequence[JobId], pod_uids: PodUids) -> Verdict | None:
    """Whose a process in the pod of this uid is; ``None`` where uids don't tell.

    They tell where every pod on the GPU has one of its own: where an exporter gives no uids, a pod's owner
    can write a label of that name on the pod. A pod of none of them is not accused: an exporter may be late,
    and of pods that share a GPU it may name one alone.
    """
    jobs_by_uid = {pod_uids[job]: job for job in pods if job in pod_uids}
    if len(jobs_by_uid) < len(pods) or not is_uid(uid):
        return None
    return Owned(job=jobs_by_uid[uid]) if uid in jobs_by_uid else Unknown()


def _among_pods(process: Process, pods: Sequence[JobId], jobs: Set[JobId], *, has_others: bool) -> Verdict:
    """A process in a pod is of the one that was given the GPU, or of the one whose name it bears.

    It may bear any name: that is believed between pods of one namespace, whose people may act for each
    other, and never against a pod that it doesn't name.
    """
    if process.pod is None:
        is_outside = _is_certain_person(process) and _could_read(process, "cgroup")
        return Nobody() if is_outside and not has_others else Unknown()
    named = [job for job in pods if names_process(job, process)]
    if len(pods) == 1:
        is_elsewhere = not named and any(is_pod(job) and names_process(job, process) for job in jobs)
        return Unknown() if is_elsewhere else Owned(job=pods[0])
    is_one_namespace = len({namespace_of(job) for job in pods}) == 1
    return Owned(job=named[0]) if len(named) == 1 and is_one_namespace else Unknown()


def _by_person(process: Process, holders: Mapping[JobId, Holder]) -> Verdict:
    person = person_behind(process)
    if person is None:
        return Unknown()
    same = [job for job, holder in holders.items() if holder.user == person]
    if same:
        names_another = "FALLOW_JOB" in dict(process.environment)  # whose lease may not have been read yet
        return Owned(job=same[0]) if len(same) == 1 and not names_another else Unknown()
    is_outsider = all(holder.user is not None for holder in holders.values()) and process.uid != 0
    return Nobody() if is_outsider and _is_certain_person(process) else Unknown()


def _is_certain_person(process: Process) -> bool:
    """In a container only whose folders it hangs below is certain (``Process.user``)."""
    return process.container is None or process.user is not None


def _could_read(process: Process, name: str) -> bool:
    return not any(note.startswith(f"{name}:") for note in process.unreadable)

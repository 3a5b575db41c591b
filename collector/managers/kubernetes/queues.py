"""Whom Kueue and KAI have wait, and why, in their own words. Pure.

A workload of Kueue whose quota isn't reserved has no pods yet, or pods whose scheduling is gated: the first
is a job of its own in the queue, of the second the pods are. A pod group of KAI says for all its pods what
keeps them. Sources: kueue.x-k8s.io Workload (conditions QuotaReserved, Finished; owner references);
scheduling.run.ai/v2alpha2 PodGroup (schedulingConditions, reasons); annotation ``pod-group-name`` of its
pods.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from collector.managers.kubernetes.api import Object
from collector.managers.kubernetes.pods import asked_of, at_ms, one_line
from collector.managers.model import Ask, JobKey, JobState, ManagedJob, WaitCause
from collector.model import Holder, JobId

PREFIX = "workload:"
"""How the id of a job begins that Kueue has wait and that has no pod yet."""
GROUP = "pod-group-name"
OF_QUOTA = frozenset({"OverLimit", "NonPreemptibleOverQuota"})


def waiting_workloads(workloads: Iterable[Object], cluster: str) -> tuple[ManagedJob, ...]:
    """Workloads without quota that have no pods: what they ask for, and what Kueue says."""
    jobs = []
    for workload in workloads:
        meta, spec = workload.get("metadata") or {}, workload.get("spec") or {}
        owner = _owner(workload)
        gpus = sum(_gpus(each) for each in spec.get("podSets") or ())
        if not _waits(workload) or not gpus or owner.get("kind") == "Pod":
            continue
        namespace, name = str(meta.get("namespace", "")), str(owner.get("name") or meta.get("name", ""))
        reason = _message(workload)
        jobs.append(
            ManagedJob(
                key=JobKey(
                    cluster=cluster,
                    id=str(meta.get("uid", "")),
                    submitted_ms=at_ms(meta.get("creationTimestamp")) or 0,
                ),
                holder=Holder(job=JobId(f"{PREFIX}{namespace}/{name}"), project=namespace or None, name=name),
                state=JobState.PENDING,
                ask=Ask(nodes=1, gpus=gpus),
                shown_id=f"{namespace}/{name}",
                state_name="Pending",
                reason=reason,
                cause=_cause(workload, reason),
                partition=str(spec.get("queueName") or ""),
                priority=spec.get("priority") if isinstance(spec.get("priority"), int) else None,
            )
        )
    return tuple(jobs)


def with_reasons(
    jobs: Sequence[ManagedJob], pods: Iterable[Object], workloads: Iterable[Object], groups: Iterable[Object]
) -> tuple[ManagedJob, ...]:
    """The jobs, pods that wait with what Kueue or KAI says of them in place of their gate or nothing."""
    reasons = _of_pods(workloads) | _of_groups(pods, groups)
    return tuple(
        replace(job, reason=reasons[job.key.id][0], cause=reasons[job.key.id][1])
        if job.state is JobState.PENDING and job.key.id in reasons
        else job
        for job in jobs
    )


def _of_pods(workloads: Iterable[Object]) -> dict[str, tuple[str, WaitCause]]:
    """By the uid of a pod that is a workload of its own."""
    return {
        str(_owner(each).get("uid")): (_message(each), _cause(each, _message(each)))
        for each in workloads
        if _waits(each) and _owner(each).get("kind") == "Pod"
    }


def _of_groups(pods: Iterable[Object], groups: Iterable[Object]) -> dict[str, tuple[str, WaitCause]]:
    messages: dict[tuple[str, str], tuple[str, WaitCause]] = {}
    for group in groups:
        meta = group.get("metadata") or {}
        for condition in (group.get("status") or {}).get("schedulingConditions") or ():
            reasons = [each for each in condition.get("reasons") or () if isinstance(each, Mapping)]
            words = "; ".join(str(each.get("message") or each.get("reason") or "") for each in reasons)
            names = {str(each.get("reason", "")) for each in reasons} | {str(condition.get("reason", ""))}
            cause = WaitCause.LIMIT if names & OF_QUOTA else WaitCause.RESOURCES
            text = one_line(words or str(condition.get("message") or ""))
            if text and condition.get("status") != "False":
                messages[str(meta.get("namespace", "")), str(meta.get("name", ""))] = text, cause
    reason_of = {}
    for pod in pods:
        meta = pod.get("metadata") or {}
        key = str(meta.get("namespace", "")), str((meta.get("annotations") or {}).get(GROUP, ""))
        if key in messages:
            reason_of[str(meta.get("uid", ""))] = messages[key]
    return reason_of


def _waits(workload: Object) -> bool:
    return not any(
        each.get("type") in ("QuotaReserved", "Finished") and each.get("status") == "True"
        for each in _conditions(workload)
    )


def _message(workload: Object) -> str:
    if (workload.get("spec") or {}).get("active") is False:
        return "it is deactivated (spec.active)"
    conditions = (each for each in _conditions(workload) if each.get("type") == "QuotaReserved")
    return one_line(str(next(conditions, {}).get("message") or ""))


def _cause(workload: Object, reason: str) -> WaitCause:
    if (workload.get("spec") or {}).get("active") is False:
        return WaitCause.HELD
    if "insufficient unused quota" in reason:  # somebody has what the queue may hand out
        return WaitCause.RESOURCES
    if "quota" in reason or "limit" in reason:
        return WaitCause.LIMIT
    return WaitCause.OTHER if reason else WaitCause.UNSAID


def _gpus(pod_set: Object) -> int:
    return int(pod_set.get("count") or 1) * asked_of(pod_set.get("template") or {})


def _owner(workload: Object) -> Object:
    owners = (workload.get("metadata") or {}).get("ownerReferences") or ()
    return next((each for each in owners if each.get("controller")), next(iter(owners), {}))


def _conditions(workload: Object) -> Sequence[Object]:
    return (workload.get("status") or {}).get("conditions") or ()

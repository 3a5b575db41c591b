"""Kueue's workloads (``kubectl get workloads -A -o json``) and Ray's list of jobs, as past jobs. Pure.

Sources: kueue.x-k8s.io/v1beta1 Workload (conditions QuotaReserved and Finished); Ray's Jobs API, JobDetails.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from collector.managers.histories.model import INSTANCES, NEVER_RAN, HistoryError, LeftOut, Record, Unreadable
from collector.managers.histories.values import gpus_in, job, moment_s, word

GPU = "nvidia.com/gpu"
MIG = "nvidia.com/mig-"
MS = 1000.0


def kueue_records(document: Mapping[str, Any]) -> Iterator[tuple[int, Record]]:
    """Each workload of a list, numbered from 1. Raises HistoryError where there is no list."""
    items = document.get("items")
    if not isinstance(items, list):
        raise HistoryError(
            "it has no items; save it with kubectl get workloads --all-namespaces --output=json"
        )
    for number, each in enumerate(items, 1):
        try:
            if each.get("kind") != "Workload":
                yield number, LeftOut("are no workloads of Kueue")
                continue
            yield number, _workload(each)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            yield number, Unreadable(f"not as Kueue writes a workload: {error!r}")


def _workload(each: Mapping[str, Any]) -> Record:
    meta, spec = each["metadata"], each["spec"]
    reached = {
        one["type"]: moment_s(one.get("lastTransitionTime", ""), "lastTransitionTime")
        for one in each.get("status", {}).get("conditions", ())
        if one.get("status") == "True"
    }
    pods = [(int(pod.get("count", 1)), _requests(pod["template"]["spec"])) for pod in spec["podSets"]]
    gpus = sum(count * gpus_in(resources.get(GPU, "0"), GPU) for count, resources in pods)
    if not gpus and any(name.startswith(MIG) for _, resources in pods for name in resources):
        return INSTANCES
    return job(
        key=word(f"{meta['namespace']}/{meta['name']}"),
        submitted_s=moment_s(meta["creationTimestamp"], "creationTimestamp"),
        started_s=reached.get("QuotaReserved"),
        ended_s=reached.get("Finished"),
        gpus=gpus,
        names={"project": word(meta["namespace"]), "name": word(meta["name"])},
    )


def _requests(pod: Mapping[str, Any]) -> dict[str, str]:
    """What a pod asks for: containers together; those that only prepare run before, one by one."""
    total: dict[str, float] = {}
    for container in pod.get("containers", ()):
        for name, count in _asked(container).items():
            total[name] = total.get(name, 0.0) + count
    for container in pod.get("initContainers", ()):
        for name, count in _asked(container).items():
            total[name] = max(total.get(name, 0.0), count)
    return {name: str(count) for name, count in total.items()}


def _asked(container: Mapping[str, Any]) -> dict[str, float]:
    """A limit without a request is the request, by Kubernetes' own rule for such resources."""
    resources = container.get("resources") or {}
    amounts = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
    return {
        name: gpus_in(str(count), name) for name, count in amounts.items() if name.startswith("nvidia.com/")
    }


def ray_records(jobs: Sequence[Mapping[str, Any]]) -> Iterator[tuple[int, Record]]:
    """Each job of Ray's list, numbered from 1. It names the GPUs of the entry point alone."""
    for number, each in enumerate(jobs, 1):
        try:
            yield number, _ray(each)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            yield number, Unreadable(f"not as Ray writes a job: {error!r}")


def _ray(each: Mapping[str, Any]) -> Record:
    gpus = gpus_in(str(each.get("entrypoint_num_gpus") or 0), "entrypoint_num_gpus")
    if not gpus:
        return LeftOut("name no GPU for their entry point; what their tasks took is not in Ray's list")
    started = each.get("start_time")
    if not started:
        return NEVER_RAN
    started_s = moment_s(str(started / MS), "start_time")
    ended = each.get("end_time")
    return job(
        key=word(each.get("submission_id") or each.get("job_id")),
        submitted_s=started_s,
        started_s=started_s,
        ended_s=moment_s(str(ended / MS), "end_time") if ended else None,
        gpus=gpus,
        names={"project": word((each.get("metadata") or {}).get("project"))},
    )

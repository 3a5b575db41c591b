"""Pods and nodes as the API server has them, as jobs and nodes of a workload manager. Pure.

A pod that is bound to a node holds what it asked for until it has ended, also while it starts or is being
deleted; a pod that isn't bound waits. What a pod asks for is the larger of its init containers' largest and
the sum of the others (kubernetes.io, "Init Containers", resource sharing; a sidecar is one of the others).
Sources: core/v1 Pod and Node; NVIDIA's device plugin for the names of resources.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from collector.inventory.kubernetes import pod_holder
from collector.managers.kubernetes.api import Object
from collector.managers.kubernetes.devices import Claims
from collector.managers.model import Ask, Grant, JobKey, JobState, ManagedJob, ManagedNode, WaitCause
from collector.model import NodeName, OutOfService

WHOLE = "nvidia.com/gpu"
INSTANCE = "nvidia.com/mig-"
SHARED = "nvidia.com/gpu.shared"
"""Time-slices under a name of their own (k8s-device-plugin, renameByDefault)."""
PRODUCT = "nvidia.com/gpu.product"
OVER = frozenset({"Succeeded", "Failed"})
QUEUES = ("kueue.x-k8s.io/queue-name", "kai.scheduler/queue", "runai/queue")
"""Labels by which a pod names its queue."""
LONGEST = 400
"""Characters of a scheduler's message that are kept."""


def is_gpu(resource: str) -> bool:
    """Whether a resource is GPUs, whole, in instances or in slices."""
    return resource in (WHOLE, SHARED) or resource.startswith(INSTANCE)


def asked_of(pod: Object) -> int:
    """GPUs that a pod asks for by the device plugin."""
    spec = _part(pod, "spec")
    inits = _list(spec, "initContainers")
    sidecars = [each for each in inits if each.get("restartPolicy") == "Always"]
    running = sum(map(_gpus, (*_list(spec, "containers"), *sidecars)))
    return max([running, *(_gpus(each) for each in inits if each not in sidecars)])


def jobs_of(pods: Iterable[Object], claims: Claims, cluster: str) -> tuple[ManagedJob, ...]:
    """The pods that ask for GPUs and have not ended."""
    return tuple(
        job
        for pod in pods
        if (job := _job(pod, claims, cluster)) is not None and job.state is not JobState.ENDED
    )


def _job(pod: Object, claims: Claims, cluster: str) -> ManagedJob | None:
    meta, spec, status = _part(pod, "metadata"), _part(pod, "spec"), _part(pod, "status")
    counted, name = asked_of(pod), str(meta.get("name", ""))
    namespace, uid = str(meta.get("namespace", "")), str(meta.get("uid", ""))
    devices = claims.of(namespace, uid)
    claimed = len(devices) if devices else claims.asked(namespace, _claim_names(pod))
    if not uid or not name or not (counted or claimed):
        return None
    node = NodeName(str(spec.get("nodeName") or ""))
    state = _state(meta, status, node)
    conditions = {each.get("type"): each for each in _list(status, "conditions")}
    reason, cause = (
        _reason(spec, conditions.get("PodScheduled", {})) if state is JobState.PENDING else ("", None)
    )
    product = (spec.get("nodeSelector") or {}).get(PRODUCT, "")
    grants = tuple(
        grant
        for grant in (
            Grant(node=node, gpus=counted),
            Grant(node=node, gpus=len(devices), uuids=tuple(each.uuid for each in devices if each.uuid)),
        )
        if grant.gpus
    )
    labels = meta.get("labels") or {}
    return ManagedJob(
        key=JobKey(cluster=cluster, id=uid, submitted_ms=at_ms(meta.get("creationTimestamp")) or 0),
        holder=pod_holder(namespace, name),
        state=state,
        ask=Ask(nodes=1, gpus=counted + claimed, gpu_type=str(product)),
        shown_id=f"{namespace}/{name}",
        state_name=str(status.get("phase", "")),
        nodes=(node,) if node else (),
        given=grants if node else (),
        reason=reason,
        cause=cause,
        partition=next((str(labels[label]) for label in QUEUES if label in labels), ""),
        priority=spec.get("priority") if isinstance(spec.get("priority"), int) else None,
        started_ms=at_ms(status.get("startTime")),
    )


def nodes_of(nodes: Iterable[Object], jobs: Sequence[ManagedJob], claims: Claims) -> tuple[ManagedNode, ...]:
    """The nodes that have GPUs, by the device plugin or by drivers of dynamic resource allocation."""
    gpus_by_node: dict[str, int] = {}
    for job in jobs:
        for grant in job.given or ():
            gpus_by_node[grant.node] = gpus_by_node.get(grant.node, 0) + grant.gpus
    managed_nodes = []
    for node in nodes:
        name = str(_part(node, "metadata").get("name", ""))
        allocatable = _part(_part(node, "status"), "allocatable")
        gpus = sum(_count(amount) for resource, amount in allocatable.items() if is_gpu(resource))
        gpus = gpus or claims.devices_on(name)
        if not name or not gpus:
            continue
        state, reason = _out_of_service(node)
        product = (_part(node, "metadata").get("labels") or {}).get(PRODUCT, "")
        managed_nodes.append(
            ManagedNode(
                name=NodeName(name),
                state=state,
                reason=reason,
                gpus=gpus,
                given_gpus=gpus_by_node.get(name, 0),
                gpu_types=(str(product),) if product else (),
            )
        )
    return tuple(managed_nodes)


def _state(meta: Object, status: Object, node: str) -> JobState:
    if status.get("phase") in OVER:
        return JobState.ENDED
    if not node:
        return JobState.PENDING
    return JobState.ENDING if meta.get("deletionTimestamp") else JobState.RUNNING


def _reason(spec: Object, scheduled: Object) -> tuple[str, WaitCause]:
    """Why a pod is bound to no node, in its scheduler's words and in ours."""
    message = one_line(str(scheduled.get("message") or ""))
    if spec.get("schedulingGates") or scheduled.get("reason") == "SchedulingGated":
        return message or "its scheduling is gated", WaitCause.HELD
    if scheduled.get("reason") != "Unschedulable":
        return message, WaitCause.UNSAID
    if (
        any(f"Insufficient {resource}" in message for resource in (WHOLE, INSTANCE))
        or "cannot allocate" in message
    ):
        return message, WaitCause.RESOURCES
    if any(word in message for word in ("untolerated taint", "node affinity/selector", "unschedulable")):
        return message, WaitCause.NODES
    return message, WaitCause.OTHER


def _out_of_service(node: Object) -> tuple[OutOfService | None, str]:
    conditions = {each.get("type"): each for each in _list(_part(node, "status"), "conditions")}
    ready = conditions.get("Ready", {})
    if ready.get("status") != "True":
        return OutOfService.DOWN, one_line(str(ready.get("message") or "its kubelet says nothing"))
    if _part(node, "spec").get("unschedulable"):
        return OutOfService.DRAINED, "cordoned"
    return None, ""


def _gpus(container: Object) -> int:
    resources = _part(container, "resources")
    wanted = {**_part(resources, "limits"), **_part(resources, "requests")}  # equal for extended resources
    return sum(_count(amount) for resource, amount in wanted.items() if is_gpu(resource))


def _claim_names(pod: Object) -> tuple[str, ...]:
    """Names of the claims that a pod uses, made from a template or by hand."""
    named = {
        str(each.get("name")): str(each["resourceClaimName"])
        for each in (
            *_list(_part(pod, "spec"), "resourceClaims"),
            *_list(_part(pod, "status"), "resourceClaimStatuses"),
        )
        if each.get("resourceClaimName")
    }
    return tuple(sorted(set(named.values())))


def one_line(text: str) -> str:
    """A message of somebody else's on one line, bounded."""
    return " ".join("".join(each if each.isprintable() else " " for each in text).split())[:LONGEST]


def _part(of: Object, name: str) -> Mapping[str, Any]:
    value = of.get(name)
    return value if isinstance(value, Mapping) else {}


def _list(of: Object, name: str) -> list[Object]:
    value = of.get(name)
    return [each for each in value if isinstance(each, Mapping)] if isinstance(value, list) else []


def _count(amount: object) -> int:
    """A quantity of devices: a whole number, as extended resources have to be."""
    text = str(amount)
    return int(text) if text.isdecimal() and len(text) < 7 else 0


def at_ms(text: object) -> int | None:
    """A time as the API server writes it, UTC ms."""
    try:
        return round(datetime.fromisoformat(str(text)).timestamp() * 1000) if text else None
    except ValueError:
        return None

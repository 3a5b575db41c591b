"""A cluster's answers as a Kubernetes API server writes them, by its API reference; none was recorded.

Two nodes of four GPUs by the device plugin, a third by NVIDIA's driver for dynamic resource allocation. What
each object says is in the order of the reference: core/v1 Pod and Node, resource.k8s.io/v1 ResourceClaim and
ResourceSlice, kueue.x-k8s.io/v1beta1 Workload, scheduling.run.ai/v2alpha2 PodGroup.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any
from urllib.parse import parse_qs, urlsplit

from collector.managers.kubernetes.api import Answer

Object = dict[str, Any]

BEGAN = "2026-11-26T08:00:00Z"
BEGAN_MS = 1_795_680_000_000
INSUFFICIENT = (
    "0/4 nodes are available: 1 node(s) had untolerated taint {node-role.kubernetes.io/control-plane: }, "
    "3 Insufficient nvidia.com/gpu. preemption: 0/4 nodes are available: 4 Preemption is not helpful for "
    "scheduling."
)
QUOTA = (
    "couldn't assign flavors to pod set main: insufficient unused quota for nvidia.com/gpu in flavor a100, "
    "2 more needed"
)


def uid(number: int) -> str:
    return f"00000000-0000-4000-8000-{number:012d}"


def pod(
    name: str, number: int, *, gpus: int = 1, node: str | None = "gpu-a", phase: str = "Running"
) -> Object:
    """A pod of one container with GPUs by the device plugin; without a node it waits for one."""
    amount = {"nvidia.com/gpu": str(gpus)} if gpus else {}
    made: Object = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "vision", "uid": uid(number), "creationTimestamp": BEGAN},
        "spec": {
            "containers": [
                {"name": "main", "image": "site/train", "resources": {"limits": amount, "requests": amount}}
            ],
            "priority": 0,
        },
        "status": {"phase": phase if node else "Pending"},
    }
    if node:
        made["spec"]["nodeName"] = node
        made["status"]["startTime"] = BEGAN
        made["status"]["conditions"] = [{"type": "PodScheduled", "status": "True"}]
    else:
        made["status"]["conditions"] = [
            {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": INSUFFICIENT}
        ]
    return made


def node(name: str, gpus: int = 4, *, ready: str = "True") -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB"}},
        "spec": {},
        "status": {
            "allocatable": {"cpu": "64", "nvidia.com/gpu": str(gpus)} if gpus else {"cpu": "64"},
            "conditions": [{"type": "Ready", "status": ready, "message": "kubelet is posting ready status"}],
        },
    }


def claim(name: str, pod_number: int | None, device: str = "gpu-0", *, admin: bool = False) -> Object:
    """A claim of one GPU; with a pod it is allocated and reserved for that."""
    made: Object = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": "vision", "uid": uid(900)},
        "spec": {
            "devices": {
                "requests": [
                    {"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com", "count": 1}},
                ]
            }
        },
    }
    if pod_number is not None:
        result: Object = {"request": "gpu", "driver": "gpu.nvidia.com", "pool": "gpu-c", "device": device}
        if admin:
            result["adminAccess"] = True
        made["status"] = {
            "allocation": {"devices": {"results": [result]}},
            "reservedFor": [{"resource": "pods", "name": "any", "uid": uid(pod_number)}],
        }
    return made


def resource_slice(generation: int = 2, *, uuids: tuple[str, ...] = ("GPU-c0", "GPU-c1")) -> Object:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": f"gpu-c-{generation}"},
        "spec": {
            "driver": "gpu.nvidia.com",
            "nodeName": "gpu-c",
            "pool": {"name": "gpu-c", "generation": generation, "resourceSliceCount": 1},
            "devices": [
                {
                    "name": f"gpu-{at}",
                    "attributes": {"type": {"string": "gpu"}, "uuid": {"string": uuid}},
                    "capacity": {"memory": {"value": "80Gi"}},
                }
                for at, uuid in enumerate(uuids)
            ],
        },
    }


def workload(name: str, number: int, owner: Object, *, reserved: bool = False, gpus: int = 2) -> Object:
    template = {"spec": pod("x", 1, gpus=gpus)["spec"]}
    condition = {"type": "QuotaReserved", "status": "True" if reserved else "False", "reason": "Pending"}
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta1",
        "kind": "Workload",
        "metadata": {
            "name": f"job-{name}-4f1c2",
            "namespace": "vision",
            "uid": uid(number),
            "creationTimestamp": BEGAN,
            "ownerReferences": [owner],
        },
        "spec": {
            "queueName": "vision-queue",
            "podSets": [{"name": "main", "count": 2, "template": template}],
        },
        "status": {"conditions": [{**condition, "message": "" if reserved else QUOTA}]},
    }


def owner(kind: str, name: str, number: int) -> Object:
    return {"kind": kind, "name": name, "uid": uid(number), "controller": True, "apiVersion": "v1"}


def pod_group(name: str, reason: str, message: str) -> Object:
    return {
        "apiVersion": "scheduling.run.ai/v2alpha2",
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": "vision"},
        "spec": {"minMember": 2, "queue": "team-a"},
        "status": {
            "schedulingConditions": [
                {
                    "type": "UnschedulableOnNodePool",
                    "nodePool": "default",
                    "reason": "Unschedulable",
                    "reasons": [{"reason": reason, "message": message}],
                    "status": "True",
                }
            ]
        },
    }


def listed(kind: str, items: list[Object], token: str = "") -> Answer:
    meta = {"resourceVersion": "4711", **({"continue": token} if token else {})}
    return Answer(status=200, body={"kind": f"{kind}List", "metadata": meta, "items": items})


def refused(status: int, message: str) -> Answer:
    body = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": message, "code": status}
    return Answer(status=status, body=body)


GROUPS = {
    "resourceclaims": ("resource.k8s.io", "v1"),
    "resourceslices": ("resource.k8s.io", "v1"),
    "workloads": ("kueue.x-k8s.io", "v1beta1"),
    "podgroups": ("scheduling.run.ai", "v2alpha2"),
}


def served(kinds: Iterable[str]) -> Answer:
    """What GET /apis says of a cluster with these kinds."""
    groups = dict(GROUPS[kind] for kind in kinds)
    told = [
        {"name": name, "versions": [{"groupVersion": f"{name}/{version}", "version": version}]}
        for name, version in groups.items()
    ]
    return Answer(status=200, body={"kind": "APIGroupList", "apiVersion": "v1", "groups": told})


def serving(lists: Mapping[str, list[Object]]) -> Callable[[str], Answer]:
    """An API server of these lists by the ends of their paths; any other is none of this cluster's."""

    def get(path: str) -> Answer:
        kind = urlsplit(path).path.rpartition("/")[2]
        if kind == "apis":
            return served(kind for kind in lists if kind in GROUPS)
        if kind in lists:
            return listed(kind, list(lists[kind]))
        return refused(403, f"{kind} is forbidden: User cannot list resource")  # also of what isn't there

    return get


def token_of(path: str) -> str:
    return parse_qs(urlsplit(path).query).get("continue", [""])[0]

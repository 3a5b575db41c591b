"""Which GPU a dcgm-exporter row speaks of, and who holds it: every spelling the labels have had.

``Hostname`` until 4.8.2 and ``hostname`` after; ``UUID`` and ``uuid``; pod labels absent, empty (free),
``pod_name`` in the old namespace, ``exported_pod`` after a Prometheus in between; ``hpc_job`` repeats a row
for each job. Behind a Prometheus the bare ``pod`` can be the *exporter's own*: see ``sees_exported`` and
``own_pods``.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from collector.inventory.kubernetes import is_uid, pod_holder
from collector.inventory.visible_devices import index_in
from collector.model import ClaimSource, GpuUuid, Holder, JobId, NodeName

Labels = Mapping[str, str]

_UUID = ("UUID", "uuid", "gpu_uuid")
_NODE = ("Hostname", "hostname", "kubernetes_node", "node", "nodename")
_INDEX = ("gpu", "gpu_id", "minor_number")
_MODEL = ("modelName", "model_name", "model")
_DRIVER = ("DCGM_FI_SYSTEM_DRIVER_VERSION", "DCGM_FI_DRIVER_VERSION", "driver_version")
_INSTANCE = ("GPU_I_ID", "gpu_i_id", "gpu_instance_id")
_PROFILE = ("GPU_I_PROFILE", "gpu_i_profile", "gpu_instance_profile")
_EXPORTED_POD = ("exported_pod", "exported_pod_name")
_EXPORTED_NAMESPACE = ("exported_namespace", "exported_pod_namespace")
_POD = ("pod_name", "pod")
_NAMESPACE = ("pod_namespace", "namespace")
_POD_UID = ("pod_uid",)
"""Of an exporter with ``--kubernetes-enable-pod-uid`` (dcgm-exporter, pull request 531, July 2025)."""
_EXPORTED_POD_UID = ("exported_pod_uid", *_POD_UID)
"""A Prometheus renames what its target's labels clash with, and seldom has one that is called so."""
_JOB = ("hpc_job",)
_NO_JOB = "0"
"""What a Slurm epilog writes into the exporter's job file for "nobody": NVIDIA's dashboards filter it out."""
_EXPORTER = "dcgm-exporter"
_INSTANCE_OF_TARGET = "instance"
"""Prometheus puts it on every series that it scrapes, and an exporter on none."""
_CONTAINER = ("container", "container_name")
_GENERATED = re.compile(r".+-[bcdfghjklmnpqrstvwxz2456789]{5}")
"""How Kubernetes names a DaemonSet's pods: five characters of apimachinery's alphabet (util/rand)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """The device or MIG instance that a row speaks of; ``parent`` is set for an instance."""

    uuid: GpuUuid
    node: NodeName
    index: int | None = None
    model: str | None = None
    driver_version: str | None = None
    parent: GpuUuid | None = None
    profile: str | None = None
    instance: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """One holder that a row names, on whose word, and the uid of its pod where that is said.

    Two rows that differ in the uid alone make one claim: some rows of an older history have none.
    """

    holder: Holder
    source: ClaimSource
    pod_uid: str | None = field(default=None, compare=False)


def identity(labels: Labels, *, fallback_node: str) -> Identity | None:
    """The row's device, or ``None`` when no label names one (a switch, a CPU, the exporter itself)."""
    uuid = _first(labels, _UUID)
    if not uuid:
        return None
    instance = _first(labels, _INSTANCE)
    return Identity(
        uuid=instance_uuid(uuid, instance) if instance else GpuUuid(uuid),
        node=NodeName(_node(labels) or fallback_node),
        index=index_in(_first(labels, _INDEX).removeprefix("nvidia")),
        model=_first(labels, _MODEL) or None,
        driver_version=_first(labels, _DRIVER) or None,
        parent=GpuUuid(uuid) if instance else None,
        profile=_first(labels, _PROFILE) or None,
        instance=index_in(instance),
    )


def parent_of(instance: Identity) -> Identity:
    """The board that a MIG instance is part of, as far as the instance's row tells."""
    assert instance.parent is not None
    return replace(instance, uuid=instance.parent, parent=None, profile=None, instance=None)


def instance_uuid(parent: str, instance_id: str) -> GpuUuid:
    """A stable name for a MIG instance, of which the exporter gives the parent's UUID and ``GPU_I_ID`` only.

    ``MIG-<parent UUID>/<GPU instance id>``: how drivers before R470 began such names (``MIG-GPU-…/gi/ci``).
    """
    return GpuUuid(f"MIG-{parent}/{instance_id}")


def sees_exported(every: Iterable[Labels]) -> bool:
    """Whether a Prometheus renamed the workload's labels, so that a bare ``pod`` is the exporter's own."""
    return any(name in labels for labels in every for name in _EXPORTED_POD)


def own_pods(every: Iterable[Labels]) -> frozenset[str]:
    """The pods that are an exporter itself: a Prometheus puts its target's pod where no other stands.

    Without honor_labels a bare ``pod`` is always the target's, and with it wherever a GPU is free. One is
    known by its service, job or container; or because every GPU behind one ``instance`` names it, with no
    container (an exporter writes pod, namespace and container together) and a DaemonSet's kind of name.
    Sources: Prometheus, scrape_config honor_labels; dcgm-exporter's internal/pkg/transformation.
    """
    by_instance: dict[str, set[tuple[str, str]]] = {}
    found = set()
    for labels in every:
        pod = _first(labels, _POD)
        if not labels.get(_INSTANCE_OF_TARGET) or not _first(labels, _UUID):
            continue
        by_instance.setdefault(labels[_INSTANCE_OF_TARGET], set()).add((pod, _first(labels, _CONTAINER)))
        if pod and _is_target(labels, pod):
            found.add(pod)
    for together in by_instance.values():
        ((pod, container), *others) = together
        if not others and not container and _GENERATED.fullmatch(pod):
            found.add(pod)
    return frozenset(found)


def claims(labels: Labels, *, exported: bool, own: frozenset[str] = frozenset()) -> tuple[Claim, ...] | None:
    """Who holds the row's device; empty when the labels are there and empty, ``None`` when there are none.

    ``own`` are the pods of exporters (``own_pods``): they hold nothing.
    """
    pods = _EXPORTED_POD if exported else _POD
    namespaces = _EXPORTED_NAMESPACE if exported else _NAMESPACE
    if not any(name in labels for name in (*pods, *_JOB)):
        return None
    pod, namespace = _first(labels, pods), _first(labels, namespaces)
    found = []
    if pod and _EXPORTER not in pod and (exported or pod not in own):
        uid = _first(labels, _EXPORTED_POD_UID if exported else _POD_UID)
        found.append(
            Claim(
                holder=pod_holder(namespace, pod),
                source=ClaimSource.KUBERNETES,
                pod_uid=uid if is_uid(uid) else None,
            )
        )
    if (job := _first(labels, _JOB).strip()) and job != _NO_JOB:
        found.append(Claim(holder=Holder(job=JobId(f"slurm:{job}")), source=ClaimSource.SLURM))
    return tuple(found)


def _is_target(labels: Labels, pod: str) -> bool:
    """Whether the pod or its container is called as the target that Prometheus scraped."""
    service, job, container = labels.get("service", ""), labels.get("job", ""), _first(labels, _CONTAINER)
    return (
        _EXPORTER in container
        or bool(service and pod.startswith(f"{service}-"))
        or bool(container and container == service)
        or bool(job and pod.startswith(f"{job}-") and _GENERATED.fullmatch(pod) and len(pod) == len(job) + 6)
    )


def _first(labels: Labels, names: tuple[str, ...]) -> str:
    return next((labels[name] for name in names if labels.get(name)), "")


def _node(labels: Labels) -> str:
    """The host's name; an exporter that was not told it says its pod's, believed only for want of another."""
    told = [labels[name] for name in _NODE if labels.get(name)]
    return next((name for name in told if _EXPORTER not in name), told[0] if told else "")

"""Which GPU a dcgm-exporter row speaks of, and who holds it: every spelling the labels have had.

``Hostname`` until 4.8.2 and ``hostname`` after; ``UUID`` and ``uuid``; pod labels absent, empty (free),
``pod_name`` in the old namespace, ``exported_pod`` after a Prometheus in between; ``hpc_job`` repeats a row
for each job. Behind a Prometheus the bare ``pod`` can be the *exporter's own*: see ``own_pods``.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from collector.clusters import suffix
from collector.inventory.kubernetes import is_uid, pod_holder
from collector.inventory.visible_devices import index_in
from collector.model import ClaimSource, GpuUuid, Holder, JobId, NodeName

Labels = Mapping[str, str]

UUID = ("UUID", "uuid", "gpu_uuid")
NODE = ("Hostname", "hostname", "kubernetes_node", "node", "nodename")
_INDEX = ("gpu", "gpu_id", "minor_number")
_MODEL = ("modelName", "model_name", "model")
_DRIVER = ("DCGM_FI_SYSTEM_DRIVER_VERSION", "DCGM_FI_DRIVER_VERSION", "driver_version")
_INSTANCE = ("GPU_I_ID", "gpu_i_id", "gpu_instance_id")
_PROFILE = ("GPU_I_PROFILE", "gpu_i_profile", "gpu_instance_profile")
EXPORTED_POD = ("exported_pod", "exported_pod_name")
_EXPORTED_NAMESPACE = ("exported_namespace", "exported_pod_namespace")
POD = ("pod_name", "pod")
NAMESPACE = ("pod_namespace", "namespace")
_POD_UID = ("pod_uid",)
"""Of an exporter with ``--kubernetes-enable-pod-uid`` (dcgm-exporter, pull request 531, July 2025)."""
_EXPORTED_POD_UID = ("exported_pod_uid", *_POD_UID)
"""A Prometheus renames what its target's labels clash with, and seldom has one that is called so."""
_JOB = ("hpc_job",)
_NO_JOB = "0"
"""What a Slurm epilog writes into the exporter's job file for "nobody": NVIDIA's dashboards filter it out."""
EXPORTER = "dcgm-exporter"
CONTAINER = ("container", "container_name")
CLUSTER = ("cluster", "k8s_cluster_name")
"""Thanos', Mimir's and the operator's external label, and OpenTelemetry's ``k8s.cluster.name``."""


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
    cluster: str | None = None


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
    uuid = first(labels, UUID)
    if not uuid:
        return None
    instance = first(labels, _INSTANCE)
    return Identity(
        uuid=instance_uuid(uuid, instance) if instance else GpuUuid(uuid),
        node=NodeName(_node(labels) or fallback_node),
        index=index_in(first(labels, _INDEX).removeprefix("nvidia")),
        model=first(labels, _MODEL) or None,
        driver_version=first(labels, _DRIVER) or None,
        parent=GpuUuid(uuid) if instance else None,
        profile=first(labels, _PROFILE) or None,
        instance=index_in(instance),
        cluster=cluster_of(labels) or None,
    )


def without_uuid(labels: Labels, *, fallback_node: str) -> tuple[NodeName, str] | None:
    """The node and the number of a GPU that a row speaks of with no UUID; ``None`` for any other row."""
    index = first(labels, _INDEX)
    return None if first(labels, UUID) or not index else (NodeName(_node(labels) or fallback_node), index)


def parent_of(instance: Identity) -> Identity:
    """The board that a MIG instance is part of, as far as the instance's row tells."""
    assert instance.parent is not None
    return replace(instance, uuid=instance.parent, parent=None, profile=None, instance=None)


def instance_uuid(parent: str, instance_id: str) -> GpuUuid:
    """A stable name for a MIG instance, of which the exporter gives the parent's UUID and ``GPU_I_ID`` only.

    ``MIG-<parent UUID>/<GPU instance id>``: how drivers before R470 began such names (``MIG-GPU-…/gi/ci``).
    """
    return GpuUuid(f"MIG-{parent}/{instance_id}")


def claims(labels: Labels, *, own: bool = False, cluster: str = "") -> tuple[Claim, ...] | None:
    """Who holds the row's device; empty when the labels are there and empty, ``None`` when there are none.

    ``own``: the bare pod is the exporter itself (``own_pods``) and holds nothing. ``cluster``: where the jobs
    run, for their names, when others run elsewhere.
    """
    exported = is_exported(labels)
    pods = EXPORTED_POD if exported else POD
    namespaces = _EXPORTED_NAMESPACE if exported else NAMESPACE
    if not any(name in labels for name in (*pods, *_JOB)):
        return None
    pod, namespace = first(labels, pods), first(labels, namespaces)
    where = suffix(cluster)
    found = []
    if pod and EXPORTER not in pod and (exported or not own):
        uid = first(labels, _EXPORTED_POD_UID if exported else _POD_UID)
        holder = pod_holder(namespace, pod)
        found.append(
            Claim(
                holder=replace(holder, job=JobId(f"{holder.job}{where}"), name=f"{holder.name}{where}"),
                source=ClaimSource.KUBERNETES,
                pod_uid=uid if is_uid(uid) else None,
            )
        )
    if (job := first(labels, _JOB).strip()) and job != _NO_JOB:
        number = JobId(f"slurm:{job}{where}")
        found.append(Claim(holder=Holder(job=number), source=ClaimSource.SLURM))
    return tuple(found)


def is_exported(labels: Labels) -> bool:
    """Whether a Prometheus renamed the row's workload, so that its bare ``pod`` is the exporter's own."""
    return any(name in labels for name in EXPORTED_POD)


def cluster_of(labels: Labels) -> str:
    """The cluster that a Prometheus of several names on its series; empty where none is named."""
    return first(labels, CLUSTER)


def first(labels: Labels, names: tuple[str, ...]) -> str:
    """The first of the labels that is there and not empty."""
    return next((labels[name] for name in names if labels.get(name)), "")


def _node(labels: Labels) -> str:
    """The host's name; an exporter that was not told it says its pod's, believed only for want of another."""
    told = [labels[name] for name in NODE if labels.get(name)]
    return next((name for name in told if EXPORTER not in name), told[0] if told else "")

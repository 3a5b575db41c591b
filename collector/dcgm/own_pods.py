"""Which pods on an exporter's rows are exporters themselves, and hold nothing: decided row by row. Pure.

A Prometheus puts its target's pod where no other stands: without honor_labels on each row (and renames the
workload's to ``exported_pod``), with it wherever a GPU is free. Of the several targets behind one Prometheus
each is set up in its own way, and may have been set up anew: what one row says is said of its own pod only.
Sources: Prometheus, scrape_config honor_labels; dcgm-exporter, internal/pkg/transformation.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from collector.dcgm.labels import (
    CONTAINER,
    EXPORTER,
    NAMESPACE,
    POD,
    UUID,
    Claim,
    Labels,
    claims,
    cluster_of,
    first,
    is_exported,
)

UP = "up"
"""Prometheus' own series of each target, with the target's labels and no others."""
_INSTANCE_OF_TARGET = "instance"
"""Prometheus puts it on every series that it scrapes, and an exporter on none."""
_TAIL = 6
"""Characters that a controller adds to the name of a pod: a hyphen and five at random."""
_GENERATED = re.compile(r".+-[bcdfghjklmnpqrstvwxz2456789]{5}")
"""How Kubernetes names a DaemonSet's pods: five characters of apimachinery's alphabet (util/rand)."""

Pod = tuple[str, str, str]
"""Cluster, namespace and name."""
Target = tuple[str, str, str]
"""Job, instance and cluster."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exporters:
    """What is known of targets: ``pods`` are exporters; of ``told`` a Prometheus named each pod there was."""

    pods: frozenset[Pod] = frozenset()
    told: frozenset[Target] = frozenset()


def exporters(up: Iterable[Labels], rows: Iterable[Labels]) -> Exporters:
    """The pods of targets, as ``up`` has them and as rows do that name a workload beside their target's."""
    pods = tuple(up)
    beside = (labels for labels in rows if is_exported(labels))
    named = {_pod(labels) for labels in (*pods, *beside) if first(labels, POD)}
    return Exporters(pods=frozenset(named), told=frozenset(target_of(labels) for labels in pods))


def holders(
    rows: Sequence[Labels], known: Exporters | None = None, *, several_clusters: bool = False
) -> tuple[tuple[Claim, ...] | None, ...]:
    """Who holds each row's device, as ``claims`` has it: an exporter's own pod nothing.

    ``known``: of the targets beside these rows. ``several_clusters``: jobs are named with their cluster.
    """
    known = known or Exporters()
    pods = known.pods | exporters((), rows).pods
    by_name = _by_name(rows) | _without_container(rows)
    certain = pods | by_name
    guessed = certain | _on_every_gpu(rows)
    bases = {(cluster, namespace, pod[:-_TAIL]) for cluster, namespace, pod in certain if _is_generated(pod)}

    def is_own(labels: Labels) -> bool:
        pod = _pod(labels)
        if target_of(labels) in known.told:
            return pod in pods
        cluster, namespace, name = pod
        return pod in guessed or (_is_generated(name) and (cluster, namespace, name[:-_TAIL]) in bases)

    return tuple(
        claims(
            labels,
            own=is_own(labels),
            cluster=cluster_of(labels) if several_clusters else "",
        )
        for labels in rows
    )


def target_of(labels: Labels) -> Target:
    """The target that a row was scraped from; of an exporter's own page all rows have one."""
    return labels.get("job", ""), labels.get(_INSTANCE_OF_TARGET, ""), cluster_of(labels)


def _by_name(rows: Iterable[Labels]) -> frozenset[Pod]:
    return frozenset(
        _pod(labels)
        for labels in rows
        if _is_scraped(labels) and not is_exported(labels) and _is_called_astarget_of(labels)
    )


def _without_container(rows: Sequence[Labels]) -> frozenset[Pod]:
    """Pods with no container where the target's other rows have one: an exporter writes both or neither."""
    bare = [labels for labels in rows if _is_scraped(labels) and not is_exported(labels)]
    targets = {target_of(labels) for labels in bare if first(labels, CONTAINER)}
    return frozenset(
        _pod(labels)
        for labels in bare
        if first(labels, POD) and not first(labels, CONTAINER) and target_of(labels) in targets
    )


def _on_every_gpu(rows: Iterable[Labels]) -> frozenset[Pod]:
    """Pods with a DaemonSet's kind of name and no container, on every GPU behind their target."""
    by_target: dict[Target, set[tuple[Pod, str]]] = {}
    for labels in rows:
        if _is_scraped(labels) and not is_exported(labels):
            by_target.setdefault(target_of(labels), set()).add((_pod(labels), first(labels, CONTAINER)))
    alone = (next(iter(targets)) for targets in by_target.values() if len(targets) == 1)
    return frozenset(pod for pod, container in alone if not container and _is_generated(pod[2]))


def _is_called_astarget_of(labels: Labels) -> bool:
    """Whether the pod or its container is called as the target that Prometheus scraped.

    The operator calls the job of a PodMonitor by namespace and name (``monitoring/gpu-metrics``).
    """
    pod, container = first(labels, POD), first(labels, CONTAINER)
    service, job = labels.get("service", ""), labels.get("job", "").rpartition("/")[2]
    return bool(pod) and (
        EXPORTER in container
        or bool(service and pod.startswith(f"{service}-"))
        or bool(container and container == service)
        or bool(job and pod.startswith(f"{job}-") and _is_generated(pod) and len(pod) == len(job) + _TAIL)
    )


def _is_scraped(labels: Labels) -> bool:
    return bool(labels.get(_INSTANCE_OF_TARGET) and first(labels, UUID))


def _is_generated(pod: str) -> bool:
    return _GENERATED.fullmatch(pod) is not None


def _pod(labels: Labels) -> Pod:
    return cluster_of(labels), first(labels, NAMESPACE), first(labels, POD)

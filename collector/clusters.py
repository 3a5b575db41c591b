"""Machines of one name in two clusters are two machines: what their nodes and jobs are called. Pure.

A node keeps its plain name until a GPU of another cluster is seen on a node of that name: both bear their
cluster from then on (``gpu-1@a``), as jobs do. Clusters are those that labels name
(``collector.dcgm.labels``); who reads its own machine names none, and its node's name stays as it is
(docs/decisions/0148).
"""

from collections import defaultdict
from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from dataclasses import replace

from collector.model import (
    Allocation,
    Gpu,
    GpuUuid,
    Holder,
    HolderSample,
    JobId,
    NodeClaim,
    NodeName,
    NodeState,
    OutOfService,
    Unavailable,
)
from collector.reading import Reading

AT = "@"
"""Between a name and its cluster: in no host's, pod's or Slurm job's name."""
_MANAGERS = {"slurm": "slurm", "pod": "kubernetes"}
"""The manager that gives ids which begin so."""
Clusters = Mapping[NodeName, frozenset[str]]
"""The clusters that have a node of a name."""


def suffix(cluster: str | None) -> str:
    """What a name of the cluster ends with; a bare number after an @ is the time of a run, for others."""
    return f"{AT}{f'cluster-{cluster}' if cluster.isdigit() else cluster}" if cluster else ""


def called(gpu: Gpu, shared: Container[NodeName]) -> NodeName:
    """What the GPU's node is called, where nodes of several clusters have the names in ``shared``."""
    return NodeName(f"{gpu.node}{suffix(gpu.cluster)}") if gpu.node in shared else gpu.node


def clusters_of_nodes(gpus: Iterable[Gpu]) -> dict[NodeName, frozenset[str]]:
    """The clusters of each name, as far as GPUs say of which they are."""
    clusters: defaultdict[NodeName, set[str]] = defaultdict(set)
    for gpu in gpus:
        if gpu.cluster is not None:
            clusters[gpu.node].add(gpu.cluster)
    return {node: frozenset(found) for node, found in clusters.items()}


def shared_of(clusters: Clusters) -> dict[NodeName, frozenset[str]]:
    """The names that nodes of several clusters have, and those."""
    return {node: found for node, found in clusters.items() if len(found) > 1}


def short(node: NodeName) -> str:
    """The first label of a node's name, and its cluster: Slurm says gpu1, the host gpu1.lab.example."""
    host, at, cluster = node.partition(AT)
    return f"{host.partition('.')[0]}{at}{cluster}"


class JobsApart:
    """Ends the ids and names of jobs with their cluster, once GPUs of a second one were seen.

    A page that tells of both has named them so already; but one cluster may be silent for a while, or told of
    by an exporter of its own. Jobs of a manager that is asked itself, by the cluster that it says is its own,
    have the plain ids that it gives them: else each would be two jobs on its GPUs.
    """

    def __init__(self, known: Mapping[GpuUuid, str]) -> None:
        self._cluster_of = dict(known)
        self._labelled: set[str] = set()
        self._own: dict[str, str] = {}

    def told(self, outcomes: Sequence[Reading | Unavailable]) -> tuple[Reading | Unavailable, ...]:
        """The outcomes of a tick; what sources say that label no cluster is as they say it."""
        for outcome in outcomes:
            if isinstance(outcome, Reading):
                clusters = {gpu.uuid: gpu.cluster for gpu in outcome.gpus if gpu.cluster is not None}
                self._cluster_of |= clusters
                self._labelled |= {outcome.source} if clusters else set()
                if outcome.look is not None:
                    self._own[outcome.source] = outcome.look.cluster.casefold()
        if not self._labelled or len(set(self._cluster_of.values())) < 2:
            return tuple(outcomes)
        return tuple(
            _with_jobs_apart(each, self._cluster_of, self._own)
            if isinstance(each, Reading) and each.source in self._labelled
            else each
            for each in outcomes
        )


def with_nodes_apart(readings: Sequence[Reading]) -> tuple[Reading, ...]:
    """The readings, in which nodes of one name are two where two clusters have it.

    A workload manager knows its own nodes by their plain names. Where it says which cluster is its own, it
    means that one's; else nobody knows which it means, and no GPU of that name is known to be free.
    """
    shared = shared_of(clusters_of_nodes(gpu for reading in readings for gpu in reading.gpus))
    if not shared:
        return tuple(readings)
    uuids = {gpu.uuid: called(gpu, shared) for reading in readings for gpu in reading.gpus}
    return tuple(_with_nodes_apart(reading, shared, uuids) for reading in readings)


def _with_jobs_apart(reading: Reading, cluster_of: Mapping[GpuUuid, str], own: Mapping[str, str]) -> Reading:
    """``own``: the cluster of each manager that is asked itself, without regard to case."""

    def told(name: str, job: JobId, uuid: GpuUuid) -> str:
        cluster = cluster_of.get(uuid)
        manager = _MANAGERS.get(job.partition(":")[0])
        if cluster is not None and own.get(manager or "") == cluster.casefold():
            return name.removesuffix(suffix(cluster))
        return _ending(name, suffix(cluster))

    def holder(each: Allocation) -> Holder:
        job = each.holder.job
        name = None if each.holder.name is None else told(each.holder.name, job, each.uuid)
        return replace(each.holder, job=JobId(told(job, job, each.uuid)), name=name)

    allocations: tuple[Allocation, ...] | None = None
    if reading.allocations is not None:
        allocations = tuple(replace(each, holder=holder(each)) for each in reading.allocations)
    samples: tuple[HolderSample, ...] = tuple(
        replace(each, job=JobId(told(each.job, each.job, each.uuid))) for each in reading.holder_samples
    )
    return replace(reading, allocations=allocations, holder_samples=samples)


def _with_nodes_apart(reading: Reading, shared: Clusters, node_of: Mapping[GpuUuid, NodeName]) -> Reading:
    gpus = tuple(
        replace(gpu, node=called(gpu, shared)) if gpu.cluster is not None and gpu.node in shared else gpu
        for gpu in reading.gpus
    )
    own = "" if reading.look is None else reading.look.cluster
    claims: list[NodeClaim] = []
    doubted: dict[NodeName, None] = {}
    for claim in reading.claims or ():
        hosts = _hosts(claim.node, shared)
        meant = [node for host in hosts for node in _meant(host, own, shared[host])]
        if claim.uuid is not None and claim.uuid in node_of:
            claims.append(replace(claim, node=node_of[claim.uuid]))
        elif not hosts or meant:
            claims.append(replace(claim, node=meant[0]) if meant else claim)
        else:
            doubted |= dict.fromkeys(hosts)
    nodes: list[NodeState] = []
    for state in reading.nodes or ():
        hosts = _hosts(state.node, shared)
        meant = [node for host in hosts for node in _meant(host, own, shared[host])]
        if not hosts or meant:
            nodes.append(replace(state, node=meant[0]) if meant else state)
        else:
            doubted |= dict.fromkeys(hosts)
    unasked = [each for host in doubted for each in _unasked(host, reading.source, shared[host])]
    return replace(
        reading,
        gpus=gpus,
        claims=None if reading.claims is None else tuple(claims),
        nodes=None if reading.nodes is None and not unasked else (*nodes, *unasked),
    )


def _hosts(node: NodeName, shared: Clusters) -> list[NodeName]:
    """The shared names that a manager's node may be: its own, else those that begin with it."""
    if node in shared:
        return [node]
    return [host for host in sorted(shared) if short(host) == short(node)]


def _meant(host: NodeName, own: str, clusters: Collection[str]) -> list[NodeName]:
    """The node that the manager of the cluster ``own`` means by a name."""
    return [
        NodeName(f"{host}{suffix(cluster)}") for cluster in clusters if cluster.casefold() == own.casefold()
    ]


def _unasked(host: NodeName, source: str, clusters: Iterable[str]) -> Iterable[NodeState]:
    named = sorted(clusters)
    both = " and ".join(named)
    reason = f"nodes of {both} are called {host}, and which of them {source} means is not known"
    for cluster in named:
        node = NodeName(f"{host}{suffix(cluster)}")
        yield NodeState(node=node, state=OutOfService.UNASKED, reason=reason)


def _ending(name: str, end: str) -> str:
    return name if name.endswith(end) else f"{name}{end}"

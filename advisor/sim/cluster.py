"""The hardware of a simulated world, and its projects with their quotas. Pure values."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import ceil

from advisor.sim.workload import Workload, alone_s
from advisor.state.model import Gpu, Node, Project, ProjectName, Telemetry
from collector.model import GpuUuid, NodeName

GIB = 1024**3
# More than any cluster has; a typing error should not fill the memory.
MOST_GPUS = 1_000_000
# Enough for any count; longer numbers are refused before they are read.
MOST_DIGITS = 12


class BadCluster(ValueError):
    """A cluster that cannot be: the message names what was given."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """Nodes of equally many GPUs; ``quotas`` are guaranteed GPUs by project, none where nothing is."""

    nodes: int
    gpus_per_node: int
    memory_bytes: int = 80 * GIB
    quotas: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.nodes < 1 or self.gpus_per_node < 1 or self.gpus > MOST_GPUS:
            raise BadCluster(
                f"a cluster has 1 to {MOST_GPUS} GPUs; got {self.nodes} nodes of {self.gpus_per_node}"
            )
        negative = [name for name, quota in self.quotas.items() if quota < 0]
        if negative:
            raise BadCluster(f"a quota is not negative: {', '.join(negative)}")
        if sum(self.quotas.values()) > self.gpus:
            raise BadCluster(
                f"the quotas guarantee {sum(self.quotas.values())} GPUs and there are {self.gpus}: "
                "lower them or add nodes"
            )

    @property
    def gpus(self) -> int:
        """How many GPUs there are."""
        return self.nodes * self.gpus_per_node


def parse_nodes(text: str) -> tuple[int, int]:
    """``16x4`` as 16 nodes of 4 GPUs. Raises BadCluster."""
    match = re.fullmatch(rf"(\d{{1,{MOST_DIGITS}}})x(\d{{1,{MOST_DIGITS}}})", text)
    if match is None:
        shown = text if len(text) <= 40 else f"{text[:40]}..."
        raise BadCluster(f"{shown!r} is not NODESxGPUS; 16 nodes of 4 GPUs are 16x4")
    return int(match[1]), int(match[2])


def sized_for(workload: Workload, load: float, gpus_per_node: int) -> Cluster:
    """A cluster that the workload loads to ``load``, with quotas in proportion to each project's demand.

    Demand is GPU time over the span of submissions. A quota is at least the project's largest gang, so that
    each project could live in its own GPUs alone. Nodes are rounded up to hold all quotas.
    """
    if not 0 < load <= 1:
        raise BadCluster(f"a load lies above 0 and at most at 1; got {load:g}")
    if not 1 <= gpus_per_node <= MOST_GPUS:
        raise BadCluster(f"a node has 1 to {MOST_GPUS} GPUs; got {gpus_per_node}")
    demand, largest = _demand_gpus(workload, gpus_per_node), _largest(workload)
    quotas = {name: max(ceil(demand[name] / load), largest[name]) for name in sorted(demand)}
    total = sum(quotas.values())
    if total > MOST_GPUS:
        raise BadCluster(f"a load of {load:g} needs {total:.3g} GPUs, and a cluster has 1 to {MOST_GPUS}")
    nodes = ceil(total / gpus_per_node)
    return Cluster(nodes=nodes, gpus_per_node=gpus_per_node, quotas=quotas)


def shared_out(workload: Workload, gpus: int, gpus_per_node: int) -> dict[str, int]:
    """All GPUs as quotas in proportion to demand, each at least the project's largest gang.

    Raises BadCluster when those gangs alone are more than there is.
    """
    if not workload.jobs:
        return {}
    demand, quotas = _demand_gpus(workload, gpus_per_node), _largest(workload)
    if sum(quotas.values()) > gpus:
        raise BadCluster(
            f"quotas by demand: the largest gangs of {len(quotas)} projects need {sum(quotas.values())} GPUs "
            f"and there are {gpus}; give more nodes, or no quotas"
        )
    total = sum(demand.values()) or 1.0
    for _ in range(gpus - sum(quotas.values())):
        poorest = min(sorted(quotas), key=lambda name: quotas[name] - gpus * demand[name] / total)
        quotas[poorest] += 1
    return dict(sorted(quotas.items()))


def nodes_of(cluster: Cluster) -> dict[NodeName, Node]:
    """The nodes, by name, in order."""
    return {name: Node(name=name) for name in (node_name(at) for at in range(cluster.nodes))}


def gpus_of(cluster: Cluster) -> dict[GpuUuid, Gpu]:
    """The GPUs, by UUID, in order: all healthy and well measured."""
    gpus = {}
    for at in range(cluster.nodes):
        for index in range(cluster.gpus_per_node):
            uuid = GpuUuid(f"{node_name(at)}-{index:02d}")
            gpus[uuid] = Gpu(
                uuid=uuid,
                node=node_name(at),
                memory_bytes=cluster.memory_bytes,
                telemetry=Telemetry.GOOD,
            )
    return gpus


def projects_of(cluster: Cluster, workload: Workload) -> dict[ProjectName, Project]:
    """A project for each name in the workload, with its quota; 0 where none is guaranteed."""
    names = sorted({job.project for job in workload.jobs} | set(cluster.quotas))
    return {
        ProjectName(name): Project(name=ProjectName(name), quota_gpus=float(cluster.quotas.get(name, 0)))
        for name in names
    }


def node_name(at: int) -> NodeName:
    """The name of a node by its place; names sort as places do."""
    return NodeName(f"node-{at:05d}")


def _demand_gpus(workload: Workload, gpus_per_node: int) -> dict[str, float]:
    """GPUs that each project's jobs keep busy on average over the span of submissions."""
    span_s = max(workload.jobs[-1].submitted_s - workload.jobs[0].submitted_s, 1.0)
    demand: dict[str, float] = {}
    for job in workload.jobs:
        gpu_s = alone_s(job, job.gpus, gpus_per_node) * job.gpus * job.share
        demand[job.project] = demand.get(job.project, 0.0) + gpu_s / span_s
    return demand


def _largest(workload: Workload) -> dict[str, int]:
    largest: dict[str, int] = {}
    for job in workload.jobs:
        largest[job.project] = max(largest.get(job.project, 0), job.gpus)
    return largest

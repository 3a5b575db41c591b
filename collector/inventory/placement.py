"""From a node's nth GPU to the GPU: claims that count indices, laid on the hardware that is there. Pure.

An index counts as the driver counts, by PCI bus. Where it says nothing (MIG, no index given, a driver
without indices), the job's own processes show which GPUs it got; Slurm said that it got some.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from collector.clusters import short
from collector.inventory.holders import claimed_by, is_of
from collector.inventory.ray import by_workers, is_rays
from collector.model import (
    Allocation,
    ClaimSource,
    Gpu,
    GpuUuid,
    JobId,
    NodeClaim,
    NodeName,
    NodeState,
    OutOfService,
    Process,
    ProcessKey,
    Withheld,
)

Where = Mapping[ProcessKey, frozenset[GpuUuid]]
"""The GPUs that each process is on."""

Seen = Mapping[JobId, Sequence[tuple[Process, frozenset[GpuUuid]]]]

T = TypeVar("T")

MANAGERS = frozenset({ClaimSource.SLURM, ClaimSource.KUBERNETES, ClaimSource.RAY})


def as_on_gpus(
    claims: Sequence[NodeClaim], gpus: Iterable[Gpu], people: Mapping[ProcessKey, Process], on: Where
) -> tuple[Allocation, ...]:
    """An allocation for each claim on a GPU of ``gpus``, by its index or shown by the job's processes."""
    if not claims:
        return ()
    by_node: defaultdict[NodeName, list[Gpu]] = defaultdict(list)
    for gpu in gpus:
        by_node[gpu.node].append(gpu)
    by_short_name = _by_short_name(by_node)
    processes = _seen_jobs(people, on)
    allocations: dict[Allocation, None] = {}
    nodes = {
        claim.node: by_node.get(claim.node) or by_short_name.get(short(claim.node), []) for claim in claims
    }
    of_workers = [claim for claim in claims if claim.of_gpus is not None]
    allocations |= dict.fromkeys(by_workers(of_workers, nodes, people, on))
    for claim in claims:
        if claim.of_gpus is not None:
            continue
        node = nodes[claim.node]
        for uuid in _uuids(claim, node, processes):
            allocation = Allocation(uuid=uuid, holder=claim.holder, share=claim.share, source=claim.source)
            allocations[allocation] = None
    return tuple(allocations)


def withheld(nodes: Iterable[NodeState], gpus: Iterable[Gpu]) -> tuple[Withheld, ...]:
    """Of ``gpus``, which nobody holds, those on nodes that are given to nobody, and why."""
    states = {each.node: each for each in nodes if each.state is not None}
    if not states:
        return ()
    by_short_name = _by_short_name(states)
    gpus_withheld = []
    for gpu in gpus:
        each = states.get(gpu.node) or by_short_name.get(short(gpu.node))
        if each is not None and each.state is not None:
            gpus_withheld.append(Withheld(uuid=gpu.uuid, state=each.state, reason=each.reason))
    return tuple(sorted(gpus_withheld, key=lambda each: each.uuid))


def doubted(
    nodes: Iterable[NodeState], gpus: Iterable[Gpu], allocations: Iterable[Allocation]
) -> tuple[NodeState, ...]:
    """The nodes; one whose manager gave out more GPUs than ``allocations`` names is as if unasked."""
    doubts = tuple(nodes)
    if all(each.given is None for each in doubts):
        return doubts
    node_of = {gpu.uuid: short(gpu.node) for gpu in gpus}
    held = {  # parts of a GPU that pods have are GPUs to Kubernetes, and parts to Ray
        (each.uuid, "" if is_rays(each.holder.job) else each.holder.job)
        for each in allocations
        if each.source in MANAGERS
    }
    named = Counter(node_of.get(uuid, "") for uuid, _ in held)
    return tuple(
        replace(
            each,
            state=OutOfService.UNASKED,
            reason=_unnamed(each.given - named[short(each.node)], each.source),
        )
        if each.state is None and each.given is not None and each.given > named[short(each.node)]
        else each
        for each in doubts
    )


def _unnamed(count: int, source: ClaimSource) -> str:
    what = "1 GPU of this node is" if count == 1 else f"{count} GPUs of this node are"
    if source is ClaimSource.RAY:
        return (
            f"{what} given to Ray's jobs, and nobody says which: their workers on it would, once they compute"
        )
    return f"{what} given to pods, and nobody says which: dcgm-exporter's pod labels would"


def without_jobs(nodes: Iterable[NodeState], claims: Iterable[NodeClaim]) -> tuple[NodeState, ...]:
    """Of the nodes that get no jobs, those that no claim is on: nobody holds their GPUs, seen or not."""
    busy_nodes = {short(claim.node) for claim in claims}
    return tuple(each for each in nodes if each.state is not None and short(each.node) not in busy_nodes)


def _uuids(claim: NodeClaim, node: Sequence[Gpu], processes: Seen) -> Iterator[GpuUuid]:
    if claim.uuid is not None:
        yield from (gpu.uuid for gpu in node if gpu.uuid == claim.uuid)
        return
    if claim.index is not None and not any(gpu.parent_uuid or gpu.index is None for gpu in node):
        yield from (gpu.uuid for gpu in node if gpu.index == claim.index)
        return
    users = processes.get(claim.holder.job, ())
    used = frozenset(
        uuid
        for process, uuids in users
        if is_of(process, claim.holder.job, claim.holder.user)
        for uuid in uuids
    )
    yield from (gpu.uuid for gpu in node if gpu.uuid in used)


def _seen_jobs(people: Mapping[ProcessKey, Process], on: Where) -> Seen:
    """The processes that may be of each job, by the system's signs or their own word, and where they are."""
    processes_by_job: defaultdict[JobId, list[tuple[Process, frozenset[GpuUuid]]]] = defaultdict(list)
    for key, uuids in on.items():
        process = people.get(key)
        for job in claimed_by(process) if process else ():
            if process is not None:
                processes_by_job[job].append((process, uuids))
    return processes_by_job


def _by_short_name(by_node: Mapping[NodeName, T]) -> dict[str, T]:
    """Nodes by their first label, where that is unambiguous: Slurm says gpu1, the host gpu1.lab.example."""
    named: defaultdict[str, list[T]] = defaultdict(list)
    for node, gpus in by_node.items():
        named[short(node)].append(gpus)
    return {short: gpus[0] for short, gpus in named.items() if len(gpus) == 1}

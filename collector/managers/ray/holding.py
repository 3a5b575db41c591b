"""Who holds which GPUs of a Ray cluster, node by node, and where more are given than is shown. Pure.

A worker holds the GPUs that its raylet has leased to it; a placement group holds its bundles' GPUs from the
time it is placed until it is removed, used or not, for the job that made it. Which device an unused bundle
has Ray tells nobody: where as many GPUs of the node are touched by nothing else, it has those.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from collector.managers.model import Grant, ManagedNode
from collector.managers.ray.answers import Group, RayNode, Slots
from collector.managers.ray.naming import Named, Names
from collector.model import NodeName, OutOfService

NEARLY = 0.01
"""Ray counts in ten-thousandths of a GPU and hands out no smaller parts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """GPUs that a job has on one node, and the processes that have them; without slots: nobody says which."""

    job: Named
    gpus: float
    slots: Slots = ()
    pids: tuple[int, ...] = ()


def held_on(
    node: RayNode, groups: Iterable[Group], names: Names, supervised: Mapping[str, str]
) -> tuple[Held, ...]:
    """What each worker and each placement group holds on the node."""
    held = []
    used_of_group: defaultdict[str, float] = defaultdict(float)
    for worker in node.workers or ():
        slots = (*worker.slots, *(slot for each in worker.of_groups.values() for slot in each))
        for id_, of_group in worker.of_groups.items():
            used_of_group[id_] += sum(share for _, share in of_group)
        if slots:
            job = names.of(worker.job, supervised.get(worker.actor))
            gpus = sum(share for _, share in slots)
            held.append(Held(job=job, gpus=gpus, slots=slots, pids=(worker.pid,)))
    idle: defaultdict[str, float] = defaultdict(float)
    for group in groups:
        reserved = sum(gpus for where, gpus in group.bundles if where == node.id)
        rest = reserved - used_of_group[group.id]
        if rest > NEARLY:
            idle[group.job] += rest
    held += _idle(node, idle, held, names)
    return tuple(held)


def _idle(node: RayNode, idle: Mapping[str, float], held: Sequence[Held], names: Names) -> Iterable[Held]:
    """What is reserved and used by no worker: with its devices where only one answer is left."""
    touched = {slot for each in held for slot, _ in each.slots}
    others = [slot for slot in range(node.gpus) if slot not in touched]
    is_told = len(idle) == 1 and abs(sum(idle.values()) - len(others)) < NEARLY
    for driver, gpus in idle.items():
        slots = tuple((slot, 1.0) for slot in others) if is_told else ()
        yield Held(job=names.of(driver), gpus=gpus, slots=slots)


def grants_of(node: RayNode, held: Iterable[Held]) -> tuple[Grant, ...]:
    """What one job holds on the node, as a manager's grants: whole GPUs together, of others each its part."""
    grants = []
    for each in held:
        shares = {share for _, share in each.slots} or {min(1.0, each.gpus)}
        for share in sorted(shares):
            indices = tuple(slot for slot, of_it in each.slots if of_it == share)
            grants.append(
                Grant(
                    node=NodeName(node.host),
                    gpus=len(indices) or math.ceil(each.gpus - NEARLY),
                    indices=indices,
                    of_gpus=node.gpus if node.is_alone else 0,
                    share=share,
                    pids=each.pids,
                )
            )
    return tuple(grants)


def on_hosts(nodes: Iterable[ManagedNode]) -> tuple[ManagedNode, ...]:
    """The nodes, one a host: of two Ray nodes on one host nobody can say which GPUs are whose."""
    by_host: dict[NodeName, ManagedNode] = {}
    for node in nodes:
        other = by_host.get(node.name)
        by_host[node.name] = (
            node
            if other is None
            else replace(
                node,
                state=OutOfService.UNASKED,
                reason="several of Ray's nodes have this host name: which of its GPUs are whose isn't known",
                gpus=(node.gpus or 0) + (other.gpus or 0),
                given_gpus=(node.given_gpus or 0) + (other.given_gpus or 0),
            )
        )
    return tuple(by_host.values())


def managed(node: RayNode, held: Sequence[Held]) -> ManagedNode:
    """The node, with the GPUs that are given out; none of its others is free where Ray's count is higher."""
    named = {slot for each in held for slot, _ in each.slots}
    unnamed = sum(math.ceil(each.gpus - NEARLY) for each in held if not each.slots)
    state, reason = _doubt(node, sum(each.gpus for each in held))
    if node.is_draining and state is None:
        state, reason = OutOfService.DRAINED, "Ray drains the node"
    return ManagedNode(
        name=NodeName(node.host),
        state=state,
        reason=reason,
        gpus=node.gpus,
        given_gpus=len(named) + unnamed,
        gpu_types=(node.gpu_type,) if node.gpu_type else (),
    )


def _doubt(node: RayNode, told: float) -> tuple[OutOfService | None, str]:
    if node.used is None:
        return OutOfService.UNASKED, (
            "Ray doesn't say how many GPUs of this node are in use: see that its autoscaler's process "
            "(monitor.py) runs on the head"
        )
    missing = node.used - told
    if missing > NEARLY:
        return OutOfService.UNASKED, (
            f"Ray gave out {node.used:g} GPUs of this node; its workers and placement groups have {told:g}"
        )
    return None, ""

"""A workload manager as a source of the tick: who was given what, which nodes get no jobs, and its queue."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace

from collector.managers.model import HOLDING, Grant, Look, ManagedJob, ManagedNode, Manager
from collector.model import (
    ClaimSource,
    NodeClaim,
    NodeState,
    Unavailable,
)
from collector.reading import Reading


class ManagerSource:
    """Reads ``manager``; the look itself rides along for the store."""

    def __init__(self, manager: Manager) -> None:
        self.name = manager.name
        self._manager = manager

    def read(self, now_ms: int) -> Reading | Unavailable:
        """Blocks as long as the manager's look does."""
        look = self._manager.look(now_ms)
        if isinstance(look, Unavailable):
            return look
        return Reading(
            source=self.name,
            at_ms=now_ms,
            claims=tuple(replace(claim, source=ClaimSource(self.name)) for claim in claims_of(look)),
            nodes=tuple(_node_state(node, self._manager) for node in look.nodes),
            look=look,
        )

    def close(self) -> None:
        """Nothing is held between two reads."""


def claims_of(look: Look) -> tuple[NodeClaim, ...]:
    """A claim for every GPU that a job of the look holds."""
    unshared: list[NodeClaim] = []
    shared: list[NodeClaim] = []
    for job in look.jobs:
        if job.state in HOLDING:
            for claim, is_shared in _claims(job, look):
                (shared if is_shared else unshared).append(claim)
    return (*unshared, *_with_shares(shared))


def _claims(job: ManagedJob, look: Look) -> Iterator[tuple[NodeClaim, bool]]:
    """One for each index, and one without for each GPU whose index isn't said."""
    if job.given is None:
        has = {node.name for node in look.nodes if node.gpus}
        each = max(1, (job.ask.gpus or 0) // max(1, len(job.nodes)))
        for node in job.nodes:
            if node in has and job.ask.gpus != 0:
                yield from ((NodeClaim(node=node, holder=job.holder), False) for _ in range(each))
        return
    for grant in job.given:
        if grant.is_shared:
            share = grant.gpus / len(grant.indices) if grant.indices else 0.0
            for index in grant.indices:
                yield NodeClaim(node=grant.node, holder=job.holder, index=index, share=share), True
            continue
        for uuid in grant.uuids:
            yield NodeClaim(node=grant.node, holder=job.holder, uuid=uuid), False
        if grant.of_gpus is not None:
            for at in grant.indices or (None,):
                yield _leased(job, grant, at, look.at_ms), False
            continue
        unnamed = max(0, grant.gpus - len(grant.indices) - len(grant.uuids))
        named = (*grant.indices, *(None,) * unnamed)
        yield from ((NodeClaim(node=grant.node, holder=job.holder, index=at), False) for at in named)


def _leased(job: ManagedJob, grant: Grant, index: int | None, said_ms: int) -> NodeClaim:
    """What Ray has leased to a worker: by its slot, and by its process."""
    return NodeClaim(
        node=grant.node,
        holder=job.holder,
        index=index,
        share=grant.share,
        pids=grant.pids,
        said_ms=said_ms,
        of_gpus=grant.of_gpus,
    )


def _with_shares(shared: Sequence[NodeClaim]) -> Iterator[NodeClaim]:
    """Shards as fractions of what is given of their GPU: how many it has Slurm tells for nodes alone."""
    shares: defaultdict[tuple[str, int | None], float] = defaultdict(float)
    for claim in shared:
        shares[claim.node, claim.index] += claim.share
    for claim in shared:
        yield replace(claim, share=claim.share / shares[claim.node, claim.index])


def _node_state(node: ManagedNode, manager: Manager) -> NodeState:
    allocated = None if manager.tells_which else node.given_gpus
    return NodeState(
        node=node.name,
        state=node.state,
        reason=node.reason,
        given=allocated,
        source=ClaimSource(manager.name),
    )

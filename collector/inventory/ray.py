"""From Ray's workers to GPUs: what was leased to a worker, by its slots and by where its process is. Pure.

A slot counts the GPUs that Ray's node counts. That is the driver's index where the node has as many GPUs, of
one model and not in MIG mode; and where a worker's process is on another GPU than its slots say (Ray was
started with CUDA_VISIBLE_DEVICES), the process is right. A pid is believed where the process is one of
Ray's on that node, in no container, and began before Ray spoke of it: in a container Ray counts pids anew.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from collector.model import Allocation, Gpu, GpuUuid, JobId, NodeClaim, NodeName, Process, ProcessKey

PREFIX = "ray:"
LAUNCHER = "ray"
"""``Process.launcher`` of what hangs below a raylet (``collector.procfs.job_root``)."""
CLOCK_MS = 2_000
"""Between a node's clock and the service's; what began later than Ray's word has another's pid."""

On = Mapping[ProcessKey, frozenset[GpuUuid]]
Share = tuple[NodeClaim, Mapping[GpuUuid, float]]


def is_rays(job: JobId) -> bool:
    """Whether the job is of a Ray cluster."""
    return job.startswith(PREFIX)


def by_workers(
    claims: Iterable[NodeClaim],
    gpus_of: Mapping[NodeName, Sequence[Gpu]],
    people: Mapping[ProcessKey, Process],
    on: On,
) -> Iterator[Allocation]:
    """An allocation for each GPU of each job, with the processes that are its own.

    ``gpus_of``: the GPUs of each claim's node.
    """
    together: defaultdict[tuple[NodeName, JobId, tuple[int, ...]], list[NodeClaim]] = defaultdict(list)
    for claim in claims:
        together[claim.node, claim.holder.job, claim.pids].append(claim)
    merged: dict[tuple[GpuUuid, JobId], Allocation] = {}
    for (node, job, _), own in together.items():
        for allocation in _of_one_worker(own, gpus_of.get(node, ()), people, on):
            before = merged.get((allocation.uuid, job))
            merged[allocation.uuid, job] = (
                allocation
                if before is None
                else replace(
                    allocation,
                    share=min(1.0, before.share + allocation.share),
                    launched=(*before.launched, *allocation.launched),
                )
            )
    yield from merged.values()


def _of_one_worker(
    claims: Sequence[NodeClaim],
    gpus: Sequence[Gpu],
    people: Mapping[ProcessKey, Process],
    on: On,
) -> Iterator[Allocation]:
    first = claims[0]
    here = {gpu.uuid for gpu in gpus}
    nodes = {gpu.node for gpu in gpus}
    keys = tuple(sorted(key for key in on if key.node in nodes and _is_workers(people.get(key), first)))
    by_slot = {gpu.index: gpu.uuid for gpu in gpus} if _counts_alike(gpus, first.of_gpus) else {}
    shares = {by_slot[claim.index]: claim.share for claim in claims if claim.index in by_slot}
    seen = {uuid for key in keys for uuid in on[key]} & here
    if not seen <= shares.keys():
        shares = dict.fromkeys(seen, first.share)
    for uuid in sorted(shares):
        own = tuple(key for key in keys if uuid in on[key])
        yield Allocation(
            uuid=uuid, holder=first.holder, share=shares[uuid], source=first.source, launched=own
        )


def _is_workers(process: Process | None, claim: NodeClaim) -> bool:
    """Whether it is one of the claim's processes, or a child of one."""
    return (
        process is not None
        and process.launcher == LAUNCHER
        and process.container is None
        and process.pod is None
        and (process.key.pid in claim.pids or process.parent_pid in claim.pids)
        and (claim.said_ms is None or process.key.started_ms <= claim.said_ms + CLOCK_MS)
    )


def _counts_alike(gpus: Sequence[Gpu], count: int | None) -> bool:
    """Whether Ray's count of the node's GPUs is the driver's."""
    is_plain = all(gpu.parent_uuid is None and gpu.index is not None for gpu in gpus)
    return is_plain and len(gpus) == count and len({gpu.model for gpu in gpus}) == 1

"""What the environments of running processes claim: CUDA_VISIBLE_DEVICES=2,3 holds GPU 3 even while unused.

Pure. The environment is the one at exec; a process that limits itself later claims nothing here. A
process found on a GPU that its environment excludes shows that its indices were misread: no claim.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import assert_never

from collector.inventory.holders import JobUsers, job_among, person_behind
from collector.inventory.visible_devices import Ambiguous, Unlimited, Visible, sight
from collector.model import Allocation, ClaimSource, Gpu, GpuUuid, Holder, Process, ProcessKey, ProcessSample

NOBODY_KNOWN: JobUsers = MappingProxyType({})
"""Where nobody who gives GPUs was asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentClaims:
    """What environments claim, and why some of them could not be read as a claim."""

    allocations: tuple[Allocation, ...]
    unclear: tuple[tuple[ProcessKey, str], ...]


def environment_claims(
    gpus: Iterable[Gpu],
    processes: Iterable[Process],
    samples: Iterable[ProcessSample],
    users: JobUsers = NOBODY_KNOWN,
) -> EnvironmentClaims:
    """The claims of processes that are on a GPU now; nobody else's environment was looked at.

    ``users``: whose the jobs are that stronger words name. A process claims as one that is its person's.
    """
    by_node: defaultdict[str, list[Gpu]] = defaultdict(list)
    for gpu in gpus:
        by_node[gpu.node].append(gpu)
    on = _where(samples)
    claimed: dict[tuple[GpuUuid, str], Allocation] = {}
    unclear: list[tuple[ProcessKey, str]] = []
    for process in sorted(processes, key=lambda each: each.key):
        if process.key not in on or not process.environment:
            continue
        claim = _claim(process, by_node[process.key.node], on[process.key])
        if isinstance(claim, Ambiguous):
            unclear.append((process.key, claim.reason))
            continue
        for allocation in _allocations(process, claim, users):
            claimed.setdefault((allocation.uuid, allocation.holder.job), allocation)
    return EnvironmentClaims(allocations=tuple(claimed.values()), unclear=tuple(unclear))


def _claim(process: Process, gpus: Sequence[Gpu], on: frozenset[GpuUuid]) -> tuple[GpuUuid, ...] | Ambiguous:
    sighting = sight(
        _with_own_slurm_job(process),
        gpus,
        in_container=process.container is not None or process.pod is not None,
    )
    match sighting:
        case Ambiguous():
            return sighting
        case Unlimited():
            return ()
        case Visible(uuids=uuids):
            covered = {gpu.uuid for gpu in gpus if gpu.uuid in uuids or gpu.parent_uuid in uuids}
            if on <= covered:
                return uuids
            return Ambiguous(reason="the process is on a GPU that its environment excludes")
        case _:
            assert_never(sighting)


def _with_own_slurm_job(process: Process) -> Mapping[str, str]:
    """The environment; a job known from its cgroup alone counts as one too."""
    environment = dict(process.environment)
    if process.slurm_job is not None:
        environment.setdefault("SLURM_JOB_ID", process.slurm_job)
    return environment


def _allocations(process: Process, uuids: Iterable[GpuUuid], users: JobUsers) -> Iterable[Allocation]:
    job = job_among(process, users)
    if job is None:
        return ()
    holder = Holder(job=job, user=person_behind(process))
    return (Allocation(uuid=uuid, holder=holder, source=ClaimSource.ENVIRONMENT) for uuid in uuids)


def _where(samples: Iterable[ProcessSample]) -> dict[ProcessKey, frozenset[GpuUuid]]:
    on: defaultdict[ProcessKey, set[GpuUuid]] = defaultdict(set)
    for sample in samples:
        on[sample.key].add(sample.uuid)
    return {key: frozenset(uuids) for key, uuids in on.items()}

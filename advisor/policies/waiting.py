"""How long a gang would wait if nobody made room for it: what help can bring it at most. Pure.

A job that reports what is left of it ends then. Of another only its age is known, and the guess is that it
ends within ``x`` with chance ``x / (TYPICAL_S + age + x)``: as likely as not an old one lasts as long again
(Gott, "Implications of the Copernican principle for our future prospects", 1993), and one that just began
half an hour; for sure it ends at its time limit. A GPU is free when all on it have ended, and a gang that
wants n may expect to start when the chances of its GPUs add up to n: of many GPUs some come free long before
any single one is likely to. Those who stand in line before the gang take the first. Who comes later and
passes it is not foreseen.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from math import inf

from advisor.goodput import time_left_s
from advisor.model import ClusterState, Gpu, Job
from advisor.projects import is_usable
from collector.model import GpuUuid

MS_PER_S = 1000
TYPICAL_S = 1800.0
SOONEST_S, INSTANTS = 30.0, 48

Kind = tuple[str | None, int | None]
"""Model and memory: a gang lies on GPUs of one kind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Freeing:
    """How many GPUs of each kind may be expected to be free at these times, in seconds from now."""

    times_s: tuple[float, ...]
    gpus: Mapping[Kind, tuple[float, ...]]


def freeing(state: ClusterState, horizon_s: float) -> Freeing:
    """What comes free by itself until the horizon. O(jobs and GPUs)."""
    ratio = (horizon_s / SOONEST_S) ** (1 / (INSTANTS - 1))
    times = (0.0, *(SOONEST_S * ratio**at for at in range(INSTANTS)))
    held: dict[GpuUuid, list[float]] = {}
    for job_id, placement in state.placements.items():
        ended = [ended_by(state, state.jobs[job_id], at_s) for at_s in times]
        for uuid in placement.gpus:
            before = held.get(uuid)
            held[uuid] = ended if before is None else [a * b for a, b in zip(before, ended, strict=True)]
    free = [1.0] * len(times)
    counts: dict[Kind, list[float]] = {}
    for gpu in state.gpus.values():
        if is_usable(gpu, state):
            found = counts.get(kind_of(gpu), [0.0] * len(times))
            more = held.get(gpu.uuid, free)
            counts[kind_of(gpu)] = [a + b for a, b in zip(found, more, strict=True)]
    return Freeing(times_s=times, gpus={kind: tuple(found) for kind, found in counts.items()})


def wait_s(seen: Freeing, gang: Job, ahead_gpus: int = 0) -> float:
    """Seconds until GPUs of one kind are free for it, after ``ahead_gpus`` others; ``inf``: not foreseen."""
    wanted = ahead_gpus + gang.min_gpus
    return min((_reached_s(seen, kind, wanted) for kind in seen.gpus if takes(gang, kind)), default=inf)


def ended_by(state: ClusterState, job: Job, at_s: float) -> float:
    """The chance 0..1 that a running job has ended ``at_s`` seconds from now."""
    left = time_left_s(job, len(state.placements[job.id].gpus))
    if left is not None:
        return float(at_s >= left)
    if job.started_ms is None:
        return 0.0
    ran = (state.as_of_ms - job.started_ms) / MS_PER_S
    if job.limit_s is not None and ran + at_s >= job.limit_s:
        return 1.0
    return at_s / (TYPICAL_S + ran + at_s)


def takes(gang: Job, kind: Kind) -> bool:
    """Whether the gang may lie on GPUs of this model and memory."""
    model, memory_bytes = kind
    fits = gang.memory_bytes is None or (memory_bytes or 0) >= gang.memory_bytes
    return fits and (not gang.gpu_models or model in gang.gpu_models)


def kind_of(gpu: Gpu) -> Kind:
    """Its model and memory."""
    return gpu.model, gpu.memory_bytes


def _reached_s(seen: Freeing, kind: Kind, wanted: float) -> float:
    """When the expected number of free GPUs reaches what is wanted, along straight lines."""
    points = list(zip(seen.times_s, seen.gpus[kind], strict=True))
    if points[0][1] >= wanted:
        return 0.0
    for (start, few), (end, many) in pairwise(points):
        if many >= wanted:
            return start + (end - start) * (wanted - few) / (many - few)
    return inf

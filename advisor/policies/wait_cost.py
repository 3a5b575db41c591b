"""What a gang would lose by waiting, if nobody made room for it: what help can bring it at most. Pure.

When those who run end, ``run_lengths`` says. A GPU is free when all on it have ended, the GPUs of a gang all
at once. Too few are free when nothing as large as the waiting gang has ended, and of what is smaller too
little, whose sum is taken to be normal. Those who stand in line before it take the first; larger ones only
what ends in one piece that holds them. Who comes later and passes it is not foreseen.

What is spared is the shorter of its wait and its run, whose length is guessed as well: up to the horizon that
is the integral of the chance that it would still wait and, helped, still run.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import erf, prod, sqrt
from types import MappingProxyType

from advisor.planner.free_gpus import Kind, kind_of, takes
from advisor.planner.quota import is_usable
from advisor.planner.run_lengths import RunLengths, instants, integral
from advisor.state.model import ClusterState, Job
from collector.model import GpuUuid

# A smaller variance is rounding: the count is certain, and the normal would divide by zero.
CERTAIN = 1e-9
NOBODY: Mapping[int, int] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """Of what holds so many GPUs: the chance that nothing ended, and mean and variance of the GPUs freed."""

    nothing: float
    mean: float
    variance: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Freeing:
    """What comes free of each kind, by how many GPUs at once, at each of ``times_s`` from now.

    ``only_instances``: the cluster has MIG instances and no devices.
    """

    endings: RunLengths
    times_s: tuple[float, ...]
    free: Mapping[Kind, Mapping[int, Sequence[Ended]]]
    only_instances: bool = False


def freeing(state: ClusterState, horizon_s: float, endings: RunLengths) -> Freeing:
    """What comes free by itself until the horizon. O(jobs and GPUs)."""
    times = instants(horizon_s)
    usable = {gpu.uuid: kind_of(gpu) for gpu in state.gpus.values() if is_usable(gpu, state)}
    chances: dict[tuple[Kind, int], list[list[float]]] = {}
    for gpus, ended in _together(state, times, endings).items():
        for kind, count in Counter(usable[uuid] for uuid in gpus if uuid in usable).items():
            chances.setdefault((kind, count), []).append(ended)
    free: dict[Kind, dict[int, tuple[Ended, ...]]] = {}
    for (kind, count), units in chances.items():
        free.setdefault(kind, {})[count] = tuple(_ended(count, at) for at in zip(*units, strict=True))
    only_instances = all(gpu.part_of_device is not None for gpu in state.gpus.values())
    return Freeing(endings=endings, times_s=times, free=free, only_instances=only_instances)


def spared_s(freeing: Freeing, gang: Job, ahead: Mapping[int, int] = NOBODY) -> float:
    """Expected seconds that it runs instead of waiting for GPUs of one kind.

    ``ahead`` is what those in line before it want, in GPUs, by the size of their gangs.
    """
    needed = gang.min_gpus + sum(gpus for size, gpus in ahead.items() if size <= gang.min_gpus)
    larger = {size: gpus for size, gpus in ahead.items() if size > gang.min_gpus}
    runs = freeing.endings.lasts_after(gang, freeing.times_s)
    fitting = (kind for kind in freeing.free if takes(gang, kind, only_instances=freeing.only_instances))
    waits = [_waits_on(freeing, kind, needed, larger) for kind in fitting]
    nowhere = [1.0] * len(runs)
    return min(integral(freeing.times_s, runs, each) for each in waits or [nowhere])


def _together(
    state: ClusterState, times: Sequence[float], endings: RunLengths
) -> dict[tuple[GpuUuid, ...], list[float]]:
    """The chances that GPUs are free at these times, by those that come free at once."""
    jobs_on: dict[GpuUuid, int] = Counter(uuid for each in state.placements.values() for uuid in each.gpus)
    result: dict[tuple[GpuUuid, ...], list[float]] = {
        (uuid,): [1.0] * len(times) for uuid in state.gpus if uuid not in jobs_on
    }
    for job_id, placement in state.placements.items():
        ended = endings.ended_by(state, state.jobs[job_id], times)
        shared = any(jobs_on[uuid] > 1 for uuid in placement.gpus)
        for gpus in [(uuid,) for uuid in placement.gpus] if shared else [placement.gpus]:
            before = result.get(gpus)
            result[gpus] = ended if before is None else [a * b for a, b in zip(before, ended, strict=True)]
    return result


def _ended(gpus: int, chances: Sequence[float]) -> Ended:
    """Of units of so many GPUs each, at one time."""
    return Ended(
        nothing=prod(1 - chance for chance in chances),
        mean=gpus * sum(chances),
        variance=gpus * gpus * sum(chance * (1 - chance) for chance in chances),
    )


def _waits_on(freeing: Freeing, kind: Kind, needed: int, larger: Mapping[int, int]) -> list[float]:
    """The chance, at each of the times, that fewer than ``needed`` of this kind are free for it."""
    return [
        _fewer({size: ended[at] for size, ended in freeing.free[kind].items()}, needed, larger)
        for at in range(len(freeing.times_s))
    ]


def _fewer(by_size: Mapping[int, Ended], needed: int, larger: Mapping[int, int]) -> float:
    """The chance that fewer than ``needed`` are free, in whole numbers; ``larger`` have what holds them."""
    no_large = prod(
        ended.nothing
        for size, ended in by_size.items()
        if size >= needed + sum(gpus for gang, gpus in larger.items() if gang <= size)
    )
    small = [ended for size, ended in by_size.items() if size < needed]
    mean, variance = sum(each.mean for each in small), sum(each.variance for each in small)
    if variance < CERTAIN:
        return no_large * (mean < needed - 0.5)
    return no_large * 0.5 * (1 + erf((needed - 0.5 - mean) / sqrt(2 * variance)))

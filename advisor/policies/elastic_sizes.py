"""How many GPUs each elastic job gets: the next GPU goes where its marginal goodput counts most. Pure.

With ``s(n)`` a job's steps a second on n GPUs, ``s*`` the best it gets out of one GPU, and ``g`` the GPU time
that it still needs at that best, n GPUs are worth

    value(n) = g ** -SHORTNESS * s(n) / s*

GPUs are handed out in the order of the slopes of each value's concave hull, so a job goes straight to a size
that is worth its GPUs and never rests at a poor one. SHORTNESS 0 would maximise goodput alone; the larger it
is, the more the shortest job comes first, whatever it makes of its GPUs. For one common law of speed-up the
best schedule is known to lie in between (Berg et al., "heSRPT", 2020). On Pollux's workloads the average JCT
is flat from 0.2 to 0.5 (within 4%), and worse below and above; 0.35 is the middle.

A GPU that is held already counts ``stickiness`` more, so that near ties don't cost resizes.
"""

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush

from advisor.planner.limits import Limits
from advisor.planner.throughput import step_s
from advisor.state.model import Job, ProjectName
from collector.model import JobId

# The middle of the flat range that the module's docstring describes.
SHORTNESS = 0.35
# A held GPU is worth so much more: a gain below that would not pay for the resize.
STICKINESS = 0.2
LEAST_GPU_S = 60.0
"""No job counts as shorter than this: the last seconds of a job are not worth a resize of others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """What a job could do with GPUs: steps a second by world size, sizes it should not take left out.

    It has ``gpus`` now, and keeps ``floor`` of them whatever others could do with these.
    """

    job: JobId
    project: ProjectName
    speeds: Mapping[int, float]
    gpu_s_left: float
    held: int = 0
    floor: int = 0


def claim_of(job: Job, gpus: int, limits: Limits) -> Claim | None:
    """The claim of a whole-GPU job with a profile; ``None`` when nobody measured how it scales.

    A job that doesn't report what is left is taken to need as much again as it has had: how long it has run
    is all that is known, and of long-lived jobs it is a fair guess (the reasoning of least attained service).
    """
    if job.profile is None or job.share < 1:
        return None
    step_times = {n: step_s(job.profile, n) for n in range(job.min_gpus, job.max_gpus + 1)}
    times = {n: seconds for n, seconds in step_times.items() if seconds is not None}
    if job.min_gpus not in times:
        return None
    least = job.min_gpus * times[job.min_gpus]
    sound = {n: 1 / t for n, t in times.items() if n * t <= limits.amplification * least}
    if gpus and gpus in times:
        sound[gpus] = 1 / times[gpus]
    steps_left = job.profile.steps_left
    cheapest = min(n / speed for n, speed in sound.items())
    gpu_s = job.attained_gpu_s if steps_left is None else steps_left * cheapest
    return Claim(job=job.id, project=job.project, speeds=sound, gpu_s_left=max(gpu_s, LEAST_GPU_S), held=gpus)


def apportion(
    claims: Sequence[Claim],
    gpus: int,
    *,
    budgets: Mapping[ProjectName, float] | None = None,
    stickiness: float = STICKINESS,
) -> dict[JobId, int]:
    """GPUs for each job, 0 left out: never more than ``gpus`` in all, nor than a project's budget.

    With budgets, what the jobs of a project hold stays with them: only what is held by nobody is for all.
    Floors come before both. Jobs with nothing but equal values are served in the order given.
    O(jobs * sizes + n log n).
    """
    heap = [
        (-slope, at, low, high)
        for at, claim in enumerate(claims)
        for slope, low, high in _slopes(claim, stickiness, claim.floor)
    ]
    heapify(heap)
    sizes = [claim.floor for claim in claims]
    rest = _Rest(claims, gpus, budgets)
    while heap and rest.left > 0:
        _, at, low, high = heappop(heap)
        claim = claims[at]
        room = rest.room(claim.project)
        if sizes[at] != low or room <= 0:
            continue
        if high - low > room:
            for slope, start, end in _slopes(claim, stickiness, low, low + room):
                heappush(heap, (-slope, at, start, end))
            continue
        sizes[at] = high
        rest.give(claim.project, high - low)
    _use_rest(claims, sizes, rest)
    return {claim.job: count for claim, count in zip(claims, sizes, strict=True) if count}


class _Rest:
    """What is left to hand out: in all, of each project's budget, and of what its own jobs held."""

    def __init__(
        self, claims: Sequence[Claim], gpus: int, budgets: Mapping[ProjectName, float] | None
    ) -> None:
        self.left = gpus
        self._budgets = None if budgets is None else dict(budgets)
        self._own: Counter[ProjectName] = Counter()
        if budgets is not None:
            for claim in claims:
                self._own[claim.project] += claim.held
        self._free = max(gpus - self._own.total(), 0)
        for claim in claims:
            self.give(claim.project, claim.floor)

    def room(self, project: ProjectName) -> int:
        """How many GPUs a job of the project could still get."""
        room = min(self.left, self._own[project] + self._free)
        return room if self._budgets is None else min(room, int(self._budgets.get(project, 0.0)))

    def give(self, project: ProjectName, gpus: int) -> None:
        """Count GPUs that a job of the project gets."""
        self.left -= gpus
        own = min(gpus, self._own[project])
        self._own[project] -= own
        self._free -= gpus - own
        if self._budgets is not None:
            self._budgets[project] = self._budgets.get(project, 0.0) - gpus


def _slopes(
    claim: Claim, stickiness: float, least: int = 0, most: int | None = None
) -> list[tuple[float, int, int]]:
    """The hull of a claim's value from size ``least`` to ``most`` as (slope, from size, to size)."""
    best = max(speed / n for n, speed in claim.speeds.items())
    weight = claim.gpu_s_left**-SHORTNESS / best
    hull = [(least, claim.speeds.get(least, 0.0))]
    for size in sorted(claim.speeds):
        speed = claim.speeds[size]
        if size <= least or (most is not None and size > most):
            continue
        while len(hull) > 1 and _turns_up(hull[-2], hull[-1], (size, speed)):
            hull.pop()
        if speed > hull[-1][1]:
            hull.append((size, speed))
    result = []
    for (low, slow), (high, fast) in itertools.pairwise(hull):
        bonus = 1 + stickiness if high <= claim.held else 1.0
        result.append((weight * bonus * (fast - slow) / (high - low), low, high))
    return result


def _turns_up(one: tuple[int, float], two: tuple[int, float], three: tuple[int, float]) -> bool:
    return (two[1] - one[1]) * (three[0] - one[0]) < (three[1] - one[1]) * (two[0] - one[0])


def _use_rest(claims: Sequence[Claim], amounts: list[int], rest: _Rest) -> None:
    """Hand what fits no step of a hull to whoever gets faster by it, the shortest job first."""
    for at in sorted(range(len(claims)), key=lambda at: (claims[at].gpu_s_left, at)):
        if rest.left <= 0:
            return
        claim, now = claims[at], amounts[at]
        room = rest.room(claim.project)
        sizes = [n for n in claim.speeds if now < n <= now + room]
        best = max(sizes, key=lambda n: (claim.speeds[n], -n), default=now)
        if best > now and claim.speeds[best] > claim.speeds.get(now, 0.0):
            amounts[at] = best
            rest.give(claim.project, best - now)

"""How fast a job goes on how many GPUs, and whether a resize pays: arithmetic shared by every decision. Pure.

The global batch is constant, so goodput is throughput: steps a second. With ``t(n)`` seconds a step on ``n``
GPUs, as measured on one GPU model:

    speed-up of going from n to m       t(n) / t(m)
    GPU-time amplification of n         n * t(n) / (n0 * t(n0)), n0 the smallest world (DeepPool's measure)
    speed-up after the cost             left(n) / (left(m) + resize_s),  left(k) = steps_left * t(k)

Between two measured sizes ``t`` is read off the straight line in log-log, as AdaptDL's model has it nearly
there; beyond the largest measured size nothing is known, and nothing is claimed. To find out costs a resize:
whether that is worth trying, ``hoped`` lets ask.
"""

from bisect import bisect_left
from dataclasses import replace
from math import exp, log

from advisor.planner.limits import Limits
from advisor.state.model import Job, Profile


def step_s(profile: Profile, gpus: int, *, spread: bool = False) -> float | None:
    """Seconds a step on ``gpus`` GPUs, ``spread`` over more nodes than needed; ``None``: not known."""
    table = profile.step_s_spread if spread and profile.step_s_spread else profile.step_s
    measured_s = table.get(gpus)
    if measured_s is not None:
        return measured_s
    sizes = sorted(table)
    at = bisect_left(sizes, gpus)
    if at in (0, len(sizes)):
        return None
    low, high = sizes[at - 1], sizes[at]
    along = log(gpus / low) / log(high / low)
    return exp(log(table[low]) * (1 - along) + log(table[high]) * along)


def speedup(profile: Profile, before: int, after: int) -> float | None:
    """How many times faster on ``after`` GPUs than on ``before``; ``None`` when either is not known."""
    slow, fast = step_s(profile, before), step_s(profile, after)
    return None if slow is None or fast is None else slow / fast


def hoped(profile: Profile, gpus: int) -> Profile:
    """As if measured on ``gpus`` GPUs as well, more than ever, and speed had gone on as it did up to there.

    As between its two largest sizes, that is; perfectly, where only one was measured.
    """
    sizes = sorted(profile.step_s)
    last = profile.step_s[sizes[-1]]
    slope = -1.0
    if len(sizes) > 1:
        slope = log(last / profile.step_s[sizes[-2]]) / log(sizes[-1] / sizes[-2])
    reached = last * (gpus / sizes[-1]) ** slope
    return replace(profile, step_s={**profile.step_s, gpus: reached})


def amplification(profile: Profile, gpus: int, least: int) -> float | None:
    """GPU time of a step on ``gpus`` over that on ``least``: 1 is perfect scaling."""
    gain = speedup(profile, least, gpus)
    return None if gain is None else gpus / (least * gain)


def base_gpus(job: Job) -> int:
    """The size that others are compared with: its smallest world, else the smallest that was measured."""
    if job.profile is None or step_s(job.profile, job.min_gpus) is not None:
        return job.min_gpus
    return min(job.profile.step_s)


def remaining_s_of(job: Job, gpus: int) -> float | None:
    """Seconds until the job is done on ``gpus`` GPUs, by its own report; ``None`` without one."""
    if job.profile is None or job.profile.steps_left is None:
        return None
    step = step_s(job.profile, gpus)
    return None if step is None else step * job.profile.steps_left


def remaining_gpu_s_of(job: Job) -> float | None:
    """GPU-seconds that the job still needs on its smallest world, by its own report."""
    rest_s = remaining_s_of(job, job.min_gpus)
    return None if rest_s is None else rest_s * job.min_gpus * job.share


def growth_pays(job: Job, before: int, after: int, limits: Limits) -> bool | None:
    """Whether growing from ``before`` to ``after`` GPUs pays for the resize; ``None``: not measured there.

    Without reported work left the cost is taken as a tenth of what is gained (AdaptDL's charge), and the rule
    of ten resize costs of work left cannot be asked.
    """
    if job.profile is None:
        return None
    gain = speedup(job.profile, before, after)
    grown = amplification(job.profile, after, base_gpus(job))
    if gain is None or grown is None:
        return None
    if grown > limits.amplification:
        return False
    cost = job.profile.resize_s if job.profile.resize_s is not None else limits.resize_s
    rest_s, then = remaining_s_of(job, before), remaining_s_of(job, after)
    if rest_s is None or then is None:
        return gain * 0.9 >= limits.resize_speedup
    return rest_s >= limits.resize_costs_left * cost and rest_s / (then + cost) >= limits.resize_speedup

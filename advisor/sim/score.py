"""What a run was worth: times, shares, waste and promises, from every job's life. Pure.

JCT                 from submission to the end; queueing is the part of it in which nothing was held
allocated share     GPU time held over what was installed until the last job ended
utilization         GPU time that brought work forward over what was installed, a GPU of a large world
                    counted by what it gets done against one of the job's smallest world. For jobs whose
                    trace says only how long they ran, what they did on their GPUs is not known: ``None``
finish-time fairness  a job's JCT over its JCT in its project's own GPUs (the static partition of the
                    same run), averaged over the project's jobs; at most 1: nobody is worse off (HiveD)
quota violation     seconds in which a project's next job would have fitted into its quota and waited,
                    as far as each such time exceeded the grace
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import pairwise
from math import ceil

from advisor.sim.job import MS, Life
from advisor.sim.run import Point, Run
from advisor.sim.workload import SteadySteps, TraceJob, Workload, alone_s
from advisor.sim.world import START_MS
from analytics.thresholds import LOW_RATIO, SATURATED_RATIO
from analytics.vocabulary.states import GpuState
from collector.model import JobId

GRACE_S = 60.0
HOUR_S = 3600.0
USES = (
    (GpuState.LOW_SATURATION, LOW_RATIO),
    (GpuState.MODERATE, SATURATED_RATIO),
    (GpuState.GOOD, 1.01),  # all the rest: nothing is busier than 1
)
"""Under which use a GPU that works is in which state, as the ledger has it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """One policy on one workload; seconds, ratios 0..1, GPU-hours. ``gpu_hours`` adds up to the hardware."""

    policy: str
    jobs: int
    gpus: int
    avg_jct_s: float
    p99_jct_s: float
    max_jct_s: float
    avg_queueing_s: float
    makespan_s: float
    allocated_ratio: float
    utilization_ratio: float | None
    gpu_hours: Mapping[str, float]
    free_while_waiting_gpu_hours: float
    lost_gpu_hours: float
    quota_violation_s: float
    fairness_avg: Mapping[str, float] = field(default_factory=dict)
    fairness_worst: Mapping[str, float] = field(default_factory=dict)
    preemptions: int = 0
    resizes: int = 0
    decisions: int = 0
    dropped_steps: int = 0


def score(policy: str, run: Run, own: Run | None = None, *, grace_s: float = GRACE_S) -> Score:
    """The score of a finished run; ``own`` is the run in which each project had its own GPUs."""
    lives = list(run.lives.values())
    jcts = sorted(jct_s(life) for life in lives)
    makespan_s = _makespan_s(lives)
    installed = run.cluster.gpus * makespan_s
    gpu_s = sum(life.held_gpu_s for life in lives)
    average, worst = _fairness(run, own)
    return Score(
        policy=policy,
        jobs=len(lives),
        gpus=run.cluster.gpus,
        avg_jct_s=sum(jcts) / len(jcts),
        p99_jct_s=jcts[ceil(0.99 * len(jcts)) - 1],
        max_jct_s=jcts[-1],
        avg_queueing_s=sum(_queueing_s(life) for life in lives) / len(lives),
        makespan_s=makespan_s,
        allocated_ratio=gpu_s / installed,
        utilization_ratio=_utilization(lives, installed),
        gpu_hours=_by_state(lives, installed),
        free_while_waiting_gpu_hours=_free_while_waiting(run.points, run.cluster.gpus) / HOUR_S,
        lost_gpu_hours=sum(life.lost_gpu_s for life in lives) / HOUR_S,
        quota_violation_s=sum(max(each.to_s - each.from_s - grace_s, 0.0) for each in run.violations),
        fairness_avg=average,
        fairness_worst=worst,
        preemptions=sum(life.preemptions for life in lives),
        resizes=sum(life.resizes for life in lives),
        decisions=run.decisions,
        dropped_steps=run.dropped_steps,
    )


def jct_s(life: Life) -> float:
    """Seconds from the submission of a finished job to its end."""
    assert life.end_ms is not None
    return (life.end_ms - START_MS) / MS - life.job.submitted_s


def alone_bound_s(workload: Workload, gpus: int, gpus_per_node: int) -> float:
    """The average JCT if each job had the cluster to itself at its best size: no schedule is below it."""
    return sum(_fastest(job, gpus, gpus_per_node) for job in workload.jobs) / len(workload.jobs)


def fluid_bound_s(workload: Workload, gpus: int, gpus_per_node: int) -> float:
    """The average JCT of one server as fast as all GPUs, serving the least remaining work first.

    The work of a job is the least GPU time in which it can be done. Every schedule can be mimicked by that
    server with no job ending later, and least remaining work first is the best one server can do, so no
    schedule is below it.
    """
    works = [_cheapest(job, gpus, gpus_per_node) / gpus for job in workload.jobs]
    order = sorted(range(len(works)), key=lambda at: workload.jobs[at].submitted_s)
    waiting: list[tuple[float, int]] = []
    now = total = 0.0
    for at, number in enumerate(order):
        now = workload.jobs[number].submitted_s
        heappush(waiting, (works[number], number))
        until = workload.jobs[order[at + 1]].submitted_s if at + 1 < len(order) else float("inf")
        while waiting and now < until:
            rest, first = heappop(waiting)
            if now + rest > until:
                heappush(waiting, (rest - (until - now), first))
                now = until
            else:
                now += rest
                total += now - workload.jobs[first].submitted_s
    return total / len(works)


def _fastest(job: TraceJob, gpus: int, gpus_per_node: int) -> float:
    return min(alone_s(job, n, gpus_per_node) for n in _sizes(job, gpus))


def _cheapest(job: TraceJob, gpus: int, gpus_per_node: int) -> float:
    return min(alone_s(job, n, gpus_per_node) * n * job.share for n in _sizes(job, gpus))


def _sizes(job: TraceJob, gpus: int) -> range:
    return range(job.smallest, min(job.largest, gpus) + 1)


def _makespan_s(lives: Sequence[Life]) -> float:
    first = min(life.job.submitted_s for life in lives)
    return max((life.end_ms or START_MS) - START_MS for life in lives) / MS - first


def _queueing_s(life: Life) -> float:
    return max(jct_s(life) - life.with_gpus_s, 0.0)


def _utilization(lives: Sequence[Life], installed: float) -> float | None:
    if any(_use(life) is None for life in lives):
        return None
    return sum(life.useful_gpu_s * (_use(life) or 0.0) for life in lives) / installed


def _use(life: Life) -> float | None:
    """How busy the job keeps a GPU at its smallest world; 1 for jobs known by their steps alone."""
    if life.job.work.sm_active_ratio is not None:
        return life.job.work.sm_active_ratio
    return None if isinstance(life.job.work.times, SteadySteps) else 1.0


def _by_state(lives: Sequence[Life], installed: float) -> dict[str, float]:
    """GPU-hours by state: stalled by starts and resizes is held-idle; not measured is unknown."""
    hours: defaultdict[GpuState, float] = defaultdict(float)
    for life in lives:
        hours[GpuState.HELD_IDLE] += life.stalled_gpu_s
        worked = life.held_gpu_s - life.stalled_gpu_s
        use = _use(life)
        if use is None:
            hours[GpuState.UNKNOWN] += worked
        elif worked > 0:
            ratio = use * life.useful_gpu_s / worked
            hours[next(state for state, below in USES if ratio < below)] += worked
    hours[GpuState.FREE] = installed - sum(hours.values())
    states = (GpuState.FREE, GpuState.HELD_IDLE, *(state for state, _ in USES), GpuState.UNKNOWN)
    return {state.value: hours.get(state, 0.0) / HOUR_S for state in states}


def _free_while_waiting(points: Sequence[Point], gpus: int) -> float:
    return sum(
        (after.at_s - before.at_s) * (gpus - before.held_gpus)
        for before, after in pairwise(points)
        if before.waiting_jobs
    )


def _fairness(run: Run, own: Run | None) -> tuple[dict[str, float], dict[str, float]]:
    if own is None:
        return {}, {}
    ratios: defaultdict[str, list[float]] = defaultdict(list)
    for name, life in run.lives.items():
        ratios[life.job.project].append(jct_s(life) / jct_s(own.lives[JobId(name)]))
    average = {project: sum(each) / len(each) for project, each in sorted(ratios.items())}
    return average, {project: max(each) for project, each in sorted(ratios.items())}

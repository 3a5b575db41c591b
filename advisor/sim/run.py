"""Runs one scheduler through one workload, event by event, and keeps what is needed to score it.

Jobs come and end at their exact times. The scheduler is asked at the next tick after something has changed
(as a service would be), and again every ``again_s`` while jobs wait. No randomness: the same input gives the
same run.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from advisor.outcomes import Done
from advisor.sim.cluster import Cluster
from advisor.sim.job import MS, Life
from advisor.sim.schedulers import Scheduler
from advisor.sim.workload import BadRow, TraceJob, Workload
from advisor.sim.world import START_MS, Physics, World
from advisor.state.model import ClusterState
from collector.model import JobId

# Shares are sums of floats.
EPSILON = 1e-6
# Days without any change, at the scheduler's own rhythm, after which nothing can change any more.
STUCK_DECISIONS = 3


class SimulationError(Exception):
    """The run cannot go on; the message says who did what, when, and what was found."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """The cluster from one instant to the next point. ``used_gpus`` counts a GPU by what it gets done."""

    at_s: float
    held_gpus: float
    used_gpus: float
    waiting_jobs: int
    waiting_gpus: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """A time in which a project's next job would have fitted into its quota, and waited."""

    project: str
    from_s: float
    to_s: float


@dataclass(slots=True, kw_only=True)
class Run:
    """What happened: every job's life, the course of the cluster, broken promises."""

    cluster: Cluster
    lives: dict[JobId, Life]
    points: list[Point] = field(default_factory=list)
    violations: list[Violation] = field(default_factory=list)
    refused: tuple[BadRow, ...] = ()
    decisions: int = 0
    dropped_steps: int = 0


def simulate(
    cluster: Cluster,
    workload: Workload,
    scheduler: Scheduler,
    physics: Physics,
    *,
    tick_s: float = 10.0,
    on_progress: Callable[[int, int], None] | None = None,
) -> Run:
    """The whole workload until its last job is done. ``on_progress`` hears (jobs done, jobs).

    Raises SimulationError when jobs are left that the scheduler never starts.
    """
    if not tick_s * MS >= 1:
        raise SimulationError(f"a tick is at least a millisecond; got {tick_s:g} s")
    world = World(cluster, workload, physics)
    run = Run(cluster=cluster, lives=world.lives)
    quota = _QuotaWatch(cluster)
    tick_ms, idle = round(tick_s * MS), 0
    while not world.finished:
        at = _next_tick(world, scheduler, tick_ms)
        if at is None or idle > STUCK_DECISIONS * (86_400 / (scheduler.again_s or 86_400)):
            state: ClusterState = world.state
            names = ", ".join(list(state.jobs)[:5])
            raise SimulationError(
                f"simulating at second {(world.now_ms() - START_MS) / MS:.0f}: {len(state.jobs)} jobs wait "
                f"and nothing runs that could make room ({names}); give the cluster or their projects "
                "more GPUs"
            )
        happened = world.advance(at)
        steps = scheduler.decide(world)
        done = world.do_all(steps) if steps else []
        run.decisions += 1
        run.dropped_steps += len(steps) - sum(isinstance(each, Done) for each in done)
        idle = 0 if happened or steps or world.totals.held_gpus else idle + 1
        _note(run, world)
        quota.look(world)
        if on_progress is not None and happened:
            on_progress(len(world.lives) - len(world.state.jobs), len(workload.jobs))
    run.violations = quota.close(world.now_ms())
    return run


def fitting(
    workload: Workload, cluster: Cluster, *, shrunk: bool = False
) -> tuple[Workload, tuple[BadRow, ...]]:
    """The workload without jobs that the cluster can never start, and those, named.

    A job starts on as many GPUs as it asks for; where every policy may shrink it (``shrunk``), on its fewest.
    """
    jobs: list[TraceJob] = []
    named: list[BadRow] = []
    for job in workload.jobs:
        if (job.smallest if shrunk else job.gpus) <= cluster.gpus:
            jobs.append(job)
        else:
            named.append(_too_large(job, cluster))
    return replace(workload, jobs=tuple(jobs)), tuple(named)


def _next_tick(world: World, scheduler: Scheduler, tick_ms: int) -> int | None:
    """The next tick after the next event, or when the scheduler wants to be asked again."""
    now, event = world.now_ms(), world.next_event_ms()
    times = []
    if event is not None:
        times.append(START_MS + -(-(event - START_MS) // tick_ms) * tick_ms)
    if scheduler.again_s is not None and world.totals.waiting_jobs:
        times.append(now + round(scheduler.again_s * MS))
    return max(min(times), now) if times else None


def _too_large(job: TraceJob, cluster: Cluster) -> BadRow:
    reason = f"job {job.name} asks for {job.gpus:,} GPUs and the cluster has {cluster.gpus:,}"
    if job.smallest > cluster.gpus:
        return BadRow(line=0, reason=reason)
    return BadRow(line=0, reason=f"{reason}; not every policy of this run can start it on {job.smallest:,}")


def _note(run: Run, world: World) -> None:
    totals = world.totals
    run.points.append(
        Point(
            at_s=(world.now_ms() - START_MS) / MS,
            held_gpus=round(totals.held_gpus, 6),
            used_gpus=round(totals.used_gpus, 6),
            waiting_jobs=totals.waiting_jobs,
            waiting_gpus=round(totals.waiting_gpus, 6),
        )
    )


class _QuotaWatch:
    """Since when each project has waited for what it was guaranteed."""

    def __init__(self, cluster: Cluster) -> None:
        self._quotas = cluster.quotas
        self._since: dict[str, int] = {}
        self._found: list[Violation] = []

    def look(self, world: World) -> None:
        """Judge this instant: the first job in a project's queue, and whether it would fit into the quota."""
        if not self._quotas:
            return
        now = world.now_ms()
        for name, quota in self._quotas.items():
            queue = world.queues.get(name)
            head = world.lives[queue[0][1]].job if queue else None
            gpus = world.totals.by_project.get(name, 0.0)
            if head is not None and gpus + head.smallest * head.share <= quota + EPSILON:
                self._since.setdefault(name, now)
            else:
                self._end(name, now)

    def close(self, now: int) -> list[Violation]:
        """All of them, the last ones ended ``now``."""
        for name in sorted(self._since):
            self._end(name, now)
        return self._found

    def _end(self, name: str, now: int) -> None:
        since = self._since.pop(name, None)
        if since is not None:
            span = ((at - START_MS) / MS for at in (since, now))
            self._found.append(Violation(project=name, from_s=next(span), to_s=next(span)))

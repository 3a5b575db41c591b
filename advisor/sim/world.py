"""A world in memory: Engine, inventory and Clock in one, moved on by measured profiles and nothing else.

What a step does to who holds what is ``advisor.planner.transition``, the planner's own; this file only adds
what a real world adds: time, progress, and what a step costs the job. Nothing in here decides.

    Start                 stalls for ``start_s``
    Resize, Move, Resume  stall for ``resize_s`` of that job
    Pause                 loses nothing: the state lies in host memory
    Requeue               falls back to the last checkpoint; loses nothing where jobs save when asked
"""

from bisect import bisect_left, insort
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from typing import assert_never

from advisor.actions import Action, Cancel, Move, Pause, Requeue, Resize, Resume, Start
from advisor.outcomes import Done, Outcome, Stale, Unsupported
from advisor.planner.transition import StepError, replay
from advisor.sim.cluster import Cluster, gpus_of, nodes_of, projects_of
from advisor.sim.job import MS, Life
from advisor.sim.usage import SAMPLE_S, UseMemory
from advisor.sim.workload import TraceJob, Workload, packed
from advisor.state.model import ClusterState, Job, Placement, Profile, ProjectName, Topology, Use
from collector.model import JobId

START_MS = 1_767_225_600_000
"""Second 0 of every workload: 2026-01-01, so that times read as times."""

# As on real shared GPUs: `SHARED_RESERVE_BYTES` of the planner.
MEMORY_KEPT_BYTES = 2 * 1024**3
MOVING = (Start, Resize, Pause, Resume, Requeue, Move)
Cost = Callable[[TraceJob], float]


def nothing(_: TraceJob) -> float:
    """A cost of 0 s."""
    return 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Physics:
    """What things cost in this world, in seconds, by job.

    ``checkpoint_s`` is how often a job saves its work; ``saves_on_request`` when it can save at once, as
    elastic jobs do before they leave. ``reports_left`` when jobs tell how much is left of them.
    """

    start_s: Cost = nothing
    resize_s: Cost = nothing
    checkpoint_s: float = 1800.0
    saves_on_request: bool = False
    reports_left: bool = True
    elastic: bool = True


@dataclass(slots=True)
class Totals:
    """What the cluster holds now, and who waits, kept as things change.

    ``queues`` are the waiting jobs of each project as (second of submission, job), in that order.
    """

    held_gpus: float = 0.0
    used_gpus: float = 0.0
    by_project: dict[str, float] = field(default_factory=dict)
    queues: dict[str, list[tuple[float, JobId]]] = field(default_factory=dict)
    waiting_jobs: int = 0
    waiting_gpus: float = 0.0

    def hold(self, project: str, gpus: float) -> None:
        """Count GPUs that a project holds more, or less."""
        self.held_gpus += gpus
        self.by_project[project] = self.by_project.get(project, 0.0) + gpus

    def wait(self, job: TraceJob) -> None:
        """Put a job into its project's queue."""
        insort(self.queues.setdefault(job.project, []), (job.submitted_s, JobId(job.name)))
        self.waiting_jobs += 1
        self.waiting_gpus += job.gpus * job.share

    def serve(self, job: TraceJob) -> None:
        """Take a job out of its project's queue."""
        queue, entry = self.queues[job.project], (job.submitted_s, JobId(job.name))
        del queue[bisect_left(queue, entry)]
        self.waiting_jobs -= 1
        self.waiting_gpus -= job.gpus * job.share


class World:
    """One cluster and its workload at one instant, ``now_ms``."""

    def __init__(self, cluster: Cluster, workload: Workload, physics: Physics) -> None:
        self.cluster, self.physics = cluster, physics
        self.lives: dict[JobId, Life] = {}
        self.totals = Totals()
        self._coming = list(reversed(workload.jobs))
        self._due: list[tuple[int, JobId]] = []
        self._profiles: dict[JobId, Profile] = {}
        self._jobs: dict[JobId, Job] = {}
        self._placements: dict[JobId, Placement] = {}
        self._used = UseMemory(cluster.gpus, START_MS + round(SAMPLE_S * MS))
        self._state = ClusterState(
            as_of_ms=START_MS,
            jobs=self._jobs,
            placements=self._placements,
            nodes=nodes_of(cluster),
            gpus=gpus_of(cluster),
            projects=projects_of(cluster, workload),
        )

    @property
    def state(self) -> ClusterState:
        """Who holds what now: good until time goes on. ``observe`` gives a snapshot to keep."""
        return self._state

    def now_ms(self) -> int:
        """The instant, as of which everything is."""
        return self._state.as_of_ms

    def monotonic_ms(self) -> int:
        """The same: this world's time never goes back."""
        return self._state.as_of_ms

    def sleep(self, seconds: float) -> None:
        """Let ``seconds`` of this world's time go by."""
        self.advance(self.now_ms() + round(seconds * MS))

    def next_event_ms(self) -> int | None:
        """When the next job comes or is done, if nobody decides anything; ``None``: never."""
        # Entries of the heap go stale when a job moves or pauses: they are dropped when they come up.
        while self._due and self.lives[self._due[0][1]].due_ms != self._due[0][0]:
            heappop(self._due)
        coming = self._submission_ms(self._coming[-1]) if self._coming else None
        due = self._due[0][0] if self._due else None
        return min((at for at in (coming, due) if at is not None), default=None)

    def advance(self, to_ms: int) -> int:
        """Go on to ``to_ms``, taking in the jobs that come and letting go those that are done; how many."""
        happened = 0
        while (at := self.next_event_ms()) is not None and at <= to_ms:
            self._pass(at)
            happened += self._finish(at) + self._submit(at)
        self._pass(to_ms)
        return happened

    def observe(self) -> ClusterState:
        """A snapshot with what jobs report of themselves: steps left, GPU time, saved work.

        Jobs without a profile are asked while others of their project wait: else it could change no decision.
        """
        jobs = dict(self._jobs)
        contended = {project for project, queue in self.totals.queues.items() if queue}
        for name in (*self._profiles, *self._placements) if contended else self._profiles:
            if name in self._profiles or jobs[name].project in contended:
                jobs[name] = self._reported(jobs[name], self._profiles.get(name))
        return replace(self._state, jobs=jobs, placements=dict(self._placements))

    def attained_gpu_s(self, job: JobId) -> float:
        """GPU-seconds that a job has held so far."""
        return self.lives[job].attained_gpu_s(self.now_ms())

    def left_s(self, job: JobId) -> float:
        """What no real scheduler knows of a job that reports nothing: the seconds it still needs."""
        return self.lives[job].left_s(self.now_ms())

    @property
    def queues(self) -> Mapping[str, Sequence[tuple[float, JobId]]]:
        """The waiting jobs of each project as (second of submission, job), in that order."""
        return self.totals.queues

    def do(self, step: Action, intent: int = 0) -> Outcome:
        """Carry out one step; see the top of this file for what it costs."""
        return self.do_all((step,))[0]

    def do_all(self, steps: Sequence[Action]) -> list[Outcome]:
        """Carry out steps in order, all at this instant; stops at the first that is not ``Done``."""
        for at, step in enumerate(steps):
            if isinstance(step, Cancel):
                done = self.do_all(steps[:at])
                return [*done, Unsupported(why="nothing is terminated in a simulation")]
        before = self._state
        try:
            # All at once is the quick way; only where one fails is each tried by itself.
            after = replay(before, steps)
        except StepError as error:
            if len(steps) == 1:
                return [Stale(found=str(error))]
            return self._one_by_one(steps)
        self._jobs, self._placements = dict(after.jobs), dict(after.placements)
        self._state = replace(after, jobs=self._jobs, placements=self._placements)
        self._feel(steps, before, after)
        return [Done()] * len(steps)

    @property
    def finished(self) -> bool:
        """Whether no job is to come and none is left."""
        return not self._coming and not self._state.jobs

    def _pass(self, to_ms: int) -> None:
        """Let time go by in which nothing changes hands; what is held is remembered."""
        usage = self._state.usage
        if self._used.due_ms <= to_ms:
            self._used.sample_to(to_ms, self.totals.by_project)
            usage = self._used.usage()
        self._state = replace(self._state, as_of_ms=max(to_ms, self.now_ms()), usage=usage)

    def _one_by_one(self, steps: Sequence[Action]) -> list[Outcome]:
        outcomes: list[Outcome] = []
        for step in steps:
            outcomes += self.do_all((step,))
            if not isinstance(outcomes[-1], Done):
                break
        return outcomes

    def _feel(self, steps: Sequence[Action], before: ClusterState, after: ClusterState) -> None:
        moving = [step for step in steps if isinstance(step, MOVING)]
        used = {step.job: self.lives[step.job].used_gpus for step in moving}
        for step in moving:
            self._touch(step)
        for name in dict.fromkeys(step.job for step in moving):
            life, placed = self.lives[name], after.placements.get(name)
            self.totals.used_gpus -= used.get(name, 0.0)
            was = before.placements.get(name)
            self.totals.hold(life.job.project, _size(placed) - _size(was))
            if (placed is None) != (was is None):
                (self.totals.wait if placed is None else self.totals.serve)(life.job)
            if placed is None:
                life.stop()
                continue
            by_node: dict[str, int] = {}
            for uuid in placed.gpus:
                node = self._state.gpus[uuid].node
                by_node[node] = by_node.get(node, 0) + 1
            life.run_on(tuple(by_node.values()), self.now_ms())
            self.totals.used_gpus += life.used_gpus
            assert life.due_ms is not None
            heappush(self._due, (life.due_ms, name))

    def _touch(self, step: Start | Resize | Pause | Resume | Requeue | Move) -> None:
        life, now = self.lives[step.job], self.now_ms()
        life.settle(now, self.physics.checkpoint_s)
        match step:
            case Start():
                life.ready_ms = now + round(self.physics.start_s(life.job) * MS)
            case Resize() | Move() | Resume():
                life.ready_ms = now + round(self.physics.resize_s(life.job) * MS)
                life.resizes += isinstance(step, Resize)
            case Pause() | Requeue():
                life.preemptions += life.size_gpus > 0
                if isinstance(step, Requeue) and not self.physics.saves_on_request:
                    life.fall_back()
                life.stop()
            case _:
                assert_never(step)

    def _finish(self, at: int) -> int:
        done: list[JobId] = []
        while self._due and self._due[0][0] <= at:
            due, name = heappop(self._due)
            if self.lives[name].due_ms == due:
                self.lives[name].due_ms = None  # it may stand here twice, when it came back to the same end
                done.append(name)
        if not done:
            return 0
        for name in done:
            life = self.lives[name]
            life.settle(at, self.physics.checkpoint_s)
            self.totals.hold(life.job.project, -life.size_gpus)
            self.totals.used_gpus -= life.used_gpus
            life.done, life.end_ms = life.job.work.steps, at
            life.stop()
            del self._jobs[name], self._placements[name]
            self._profiles.pop(name, None)
        return len(done)

    def _submit(self, at: int) -> int:
        come = 0
        while self._coming and self._submission_ms(self._coming[-1]) <= at:
            trace = self._coming.pop()
            name = JobId(trace.name)
            self.lives[name] = Life(job=trace, gpus_per_node=self.cluster.gpus_per_node, since_ms=at)
            self._jobs[name] = self._as_job(trace, at)
            come += 1
            self.totals.wait(trace)
        return come

    def _submission_ms(self, job: TraceJob) -> int:
        return START_MS + round(job.submitted_s * MS)

    def _as_job(self, trace: TraceJob, at: int) -> Job:
        elastic = self.physics.elastic and trace.largest > trace.smallest
        limit = min(trace.largest, self.cluster.gpus)
        profile = self._profile(trace, limit) if elastic else None
        if profile is not None:
            self._profiles[JobId(trace.name)] = profile
        return Job(
            id=JobId(trace.name),
            project=ProjectName(trace.project),
            user=trace.user or trace.project,
            name=trace.label,
            priority=trace.priority,
            min_gpus=trace.smallest if elastic else trace.gpus,
            max_gpus=limit if elastic else trace.gpus,
            share=trace.share,
            memory_bytes=self._memory(trace),
            may_share=trace.share < 1,
            gpu_models=(),
            topology=self._topology(trace),
            submitted_ms=at,
            preemptible=True,
            checkpointable=True,
            attached=False,
            use=Use.ACTIVE,
            profile=profile,
        )

    def _topology(self, trace: TraceJob) -> Topology:
        """What it asked for; on smaller nodes than it had, where none holds it, on as few as can be."""
        fits = (trace.smallest if self.physics.elastic else trace.gpus) <= self.cluster.gpus_per_node
        return trace.topology if fits or trace.topology is Topology.ANY else Topology.PREFER_NODE

    def _memory(self, trace: TraceJob) -> int | None:
        if trace.memory_bytes is not None or trace.share >= 1:
            return trace.memory_bytes
        return int(trace.share * (self.cluster.memory_bytes - MEMORY_KEPT_BYTES))

    def _profile(self, trace: TraceJob, limit: int) -> Profile:
        times, each = trace.work.times, self.cluster.gpus_per_node
        sizes = range(trace.smallest, limit + 1)
        # Seconds a step with one node more than needed, where there is one.
        result = {}
        for gpus in sizes:
            over = -(-gpus // each) + 1
            if gpus >= over and over <= self.cluster.nodes:
                base, rest = divmod(gpus, over)
                result[gpus] = times.step_s((base + 1,) * rest + (base,) * (over - rest))
        return Profile(
            step_s={n: times.step_s(packed(n, each)) for n in sizes},
            step_s_spread=result,
            steps_left=trace.work.steps if self.physics.reports_left else None,
            resize_s=self.physics.resize_s(trace),
        )

    def _reported(self, job: Job, profile: Profile | None) -> Job:
        life, now = self.lives[job.id], self.now_ms()
        life.settle(now, self.physics.checkpoint_s)
        if profile is not None:
            profile = replace(profile, steps_left=life.steps_left if self.physics.reports_left else None)
        saved_ms = now if self.physics.saves_on_request else life.saved_ms
        return replace(job, profile=profile, attained_gpu_s=life.held_gpu_s, checkpoint_ms=saved_ms)


def _size(placed: Placement | None) -> float:
    return 0.0 if placed is None else placed.size_gpus

"""What a trace says: who asked for which GPUs when, and how long the work takes on them.

Pure values, the same for every format. ``BadRow`` is how a row that makes no sense is kept: skipped, counted
and named, never silently. Times are seconds from the start of the workload; what a job does is ``Work``.
"""

from dataclasses import dataclass, replace
from typing import Protocol

from advisor.state.model import Topology


class StepTimes(Protocol):
    """How long one step of a job takes, by where it runs."""

    def step_s(self, counts: tuple[int, ...]) -> float:
        """Seconds a step with ``counts`` GPUs on each of its nodes."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SteadySteps:
    """The same on any GPUs: all that a trace of durations can say."""

    seconds: float = 1.0

    def step_s(self, counts: tuple[int, ...]) -> float:
        """``seconds``, wherever it runs."""
        return self.seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What has to be done: ``steps`` of it, each as long as ``times`` says where the job runs.

    ``sm_active_ratio`` is how busy it keeps its GPUs while it runs at the size it asked for, ``None`` where
    nobody measured it.
    """

    steps: float
    times: StepTimes = SteadySteps()
    sm_active_ratio: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceJob:
    """One job as its trace has it: ``gpus`` asked for and ``share`` of each; elastic with ``min_gpus``..

    ``memory_bytes`` on each GPU and ``gpu_models`` (none named: any) where the trace says so; ``priority``
    where it has a quality of service. ``topology``: whether its GPUs must lie on one node.
    """

    name: str
    project: str
    submitted_s: float
    gpus: int
    work: Work
    min_gpus: int | None = None
    max_gpus: int | None = None
    share: float = 1.0
    memory_bytes: int | None = None
    gpu_models: tuple[str, ...] = ()
    topology: Topology = Topology.ANY
    priority: int = 0
    user: str | None = None
    label: str | None = None

    @property
    def smallest(self) -> int:
        """The fewest GPUs it can run on."""
        return self.gpus if self.min_gpus is None else self.min_gpus

    @property
    def largest(self) -> int:
        """The most GPUs it can use."""
        return self.gpus if self.max_gpus is None else self.max_gpus


@dataclass(frozen=True, slots=True, kw_only=True)
class BadRow:
    """A row that was skipped: ``line`` of the file (the heading is line 1), and what is wrong with it."""

    line: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """The jobs of a trace in the order of their submission, and what was left out of it.

    ``left_out`` counts rows that are well formed and were not asked for, by why: another day, no GPU wanted.
    ``cut_off`` counts jobs that are played in part, by why; ``not_played`` are sentences on what is not.
    """

    origin: str
    jobs: tuple[TraceJob, ...]
    bad_rows: tuple[BadRow, ...] = ()
    left_out: tuple[tuple[str, int], ...] = ()
    cut_off: tuple[tuple[str, int], ...] = ()
    not_played: tuple[str, ...] = ()


def rigid(job: TraceJob) -> TraceJob:
    """The same job for a scheduler that cannot resize: exactly the GPUs it asked for."""
    return replace(job, min_gpus=None, max_gpus=None)


def alone_s(job: TraceJob, gpus: int, gpus_per_node: int) -> float:
    """Seconds that the whole work takes on ``gpus`` GPUs, packed on as few nodes as can be."""
    return job.work.steps * job.work.times.step_s(packed(gpus, gpus_per_node))


def packed(gpus: int, gpus_per_node: int) -> tuple[int, ...]:
    """How many GPUs on each node when packed on as few as can be: full nodes and one rest."""
    full, rest = divmod(gpus, gpus_per_node)
    return (gpus_per_node,) * full + ((rest,) if rest else ())

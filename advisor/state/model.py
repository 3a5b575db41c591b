"""The nouns of deciding: who may use what, who wants what, what runs where, and what could be done about it.

Pure values, no rules: steps are in ``advisor.actions``, what one does in ``advisor.planner.transition``, what
may not be done in ``advisor.planner.guard``, who deserves what in ``advisor.policies``. A ``ClusterState`` is
a whole snapshot; nothing in it reaches back to a live thing, so the same code decides live, in a dry run, in
a simulation and over last month's history.

Shares are 0..1 of a GPU, times UTC milliseconds, memory bytes on *each* GPU of a job; ``None`` is
"not known".

The life of a job:

    PENDING ──Start──► RUNNING ──Pause──► PAUSED        Resize and Move stay in RUNNING
       ▲                  │  ◄──Resume──────┘
       └─────Requeue──────┴──────── Requeue (from PAUSED as well)
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NewType

from analytics.vocabulary.actions import ActionClass as ActionClass  # noqa: PLC0414
from analytics.vocabulary.jobs import is_submitted as is_submitted  # noqa: PLC0414
from collector.model import GpuUuid, JobId, JobKind, NodeName

ProjectName = NewType("ProjectName", str)

MAY_BE_SAT_AT = (JobKind.INTERACTIVE, None)
"""Kinds of which somebody may sit at a job until it is known that nobody does."""


class Telemetry(StrEnum):
    """Whether what was measured of a GPU may be acted on; only GOOD may."""

    GOOD = "good"
    SUSPECT = "suspect"
    UNKNOWN = "unknown"


class Phase(StrEnum):
    """Where a job stands, as drawn at the top of this file. PAUSED: in host memory, holding no GPU."""

    PENDING = "pending"
    RUNNING = "running"
    PAUSED = "paused"


class Topology(StrEnum):
    """Where the GPUs of one job must lie to each other. NODE: all on one machine, or it waits.

    PREFER_NODE: on one machine where one has room, else on as few as can be.
    """

    ANY = "any"
    PREFER_NODE = "prefer-node"
    NODE = "node"


class Use(StrEnum):
    """What a running job makes of its GPUs, as analytics judged it. UNKNOWN is never idle."""

    ACTIVE = "active"
    IDLE = "idle"
    STARTING = "starting"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """A node of the project tree.

    ``quota_gpus`` is guaranteed; ``None`` on an inner project means the sum of its children's, on a leaf 0.
    ``limit_gpus`` is never exceeded, ``None`` is no limit. Surplus goes to the highest ``priority`` first and
    by ``weight`` among equals. Jobs belong to leaves.
    """

    name: ProjectName
    parent: ProjectName | None = None
    quota_gpus: float | None = None
    limit_gpus: float | None = None
    weight: float = 1.0
    priority: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A machine. ``schedulable`` is false while it is cordoned; ``in_flight`` while an action runs on it."""

    name: NodeName
    schedulable: bool = True
    in_flight: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """A device that can be given away: a whole GPU, or a MIG instance as a GPU of its own.

    A device that was cut into MIG instances is not in a ``ClusterState``, its instances are. Whoever uses a
    GPU that nobody handed out (a process without an allocation) makes it ``occupied``: never given away.
    So does it that nobody saw whether it is in use, which is ``unseen``.
    ``protected`` by the site: nothing is started there, and nothing there is touched. ``part_of_device`` is a
    MIG instance's part of its device's compute, ``None`` for a whole device; ``mig_profile`` is what NVIDIA
    calls such an instance, where it is known; ``model`` and ``memory_bytes`` are its board's and its own.
    ``memory_used_bytes`` is what the driver counts now, of all processes together.
    ``cluster`` is that of its machine, where several are in view, else ``None``: no job goes to another.
    """

    uuid: GpuUuid
    node: NodeName
    model: str | None = None
    memory_bytes: int | None = None
    memory_used_bytes: int | None = None
    healthy: bool = True
    occupied: bool = False
    unseen: bool = False
    protected: bool = False
    part_of_device: float | None = None
    mig_profile: str | None = None
    cluster: str | None = None
    telemetry: Telemetry = Telemetry.UNKNOWN

    @property
    def part(self) -> float:
        """What an hour of it counts as, in GPU-hours: 1 for a whole device."""
        return 1.0 if self.part_of_device is None else self.part_of_device


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """How fast a job steps, as measured on one GPU model at a constant global batch.

    ``step_s`` maps a world size, packed on as few nodes as can be, to seconds a step; ``step_s_spread`` the
    same for a world on more nodes than it needs. ``steps_left`` is what the job itself reports, ``None`` when
    it doesn't. ``resize_s`` is what one resize costs in seconds without progress. ``predicted`` are the sizes
    of ``step_s`` at which nothing was measured: those are from the times of its layers.
    """

    step_s: Mapping[int, float]
    step_s_spread: Mapping[int, float] = field(default_factory=dict)
    gpu_model: str | None = None
    steps_left: float | None = None
    resize_s: float | None = None
    predicted: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class IdleRule:
    """A site's rule for idle jobs of one place: paused after ``idle_s``, once ``warnings`` reached the owner.

    ``message`` is the site's own text, empty: the usual one.
    """

    name: str
    idle_s: int
    warnings: int
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class IdleGaps:
    """What a job says of its idle gaps on one GPU, in seconds; ``None`` where it was not measured.

    ``page`` is where it says so, ``steps`` how many it has counted there, ``alone_s`` a step of it with
    nobody beside it and ``gaps_s`` the gaps in that step together.
    """

    page: str
    steps: int
    alone_s: float | None = None
    gaps_s: float | None = None
    slowdown_ratio: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One job: what it wants, what it allows, and what is known of it.

    It runs on ``min_gpus`` to ``max_gpus`` GPUs at once or not at all (a gang), taking ``share`` of each;
    elastic when the two differ. ``memory_bytes`` is its peak need on each GPU, ``memory_held_bytes`` what it
    holds there now, caches included. ``gpu_models`` are the models it accepts; none named is any.
    ``topology``: how its GPUs lie to each other. ``after`` are the jobs that must end well before it starts
    and have not; ``after_failed`` those of them that never will.
    ``limit_s`` is a hard upper bound of its run time. ``started_ms`` is the start of the current run,
    ``acted_ms`` the last time it was paused, requeued or moved, ``resized_ms`` the last resize.
    ``paused_on`` are the GPUs that it left when it was paused: its state lies in those nodes' memory.
    ``kind`` is ``None`` where nobody knows it: such a job may be of any, and has the clocks of batch jobs.
    ``attached`` says whether a person sits at it now. ``opted_out`` are the classes of action its owner
    refuses; ``keep_until_ms`` the owner's word to be left alone until then.
    ``protected`` is the site's word: nothing is ever done to it. ``held`` while it is paused until somebody
    touches it or lets it go on. ``notified_ms`` is when its owner was first reached in this idle time, and
    ``warned_ms`` most lately, and ``unreached_ms`` when telling was last tried and reached nobody.
    ``cannot`` names steps, by verb (``advisor.tags``), that no engine here can carry out on it, each with the
    reason; ``withheld`` those that its owner does not allow (``advisor.planner.consent``). ``paced``: its
    steps are counted and its speed alone is known, so that a neighbour who slows it down is found.
    ``idle_gaps`` are told by GPU, where it announces any.
    ``manager`` is the name of the workload manager that gave it its GPUs and decides over them, ``None``
    where there is none; ``allowed_in_job`` what its owner allows in the job itself, by the names of
    ``advisor.planner.consent.Kind``. ``hook`` names the site's own commands that pause and resume it;
    ``idle_rule`` is the site's rule for it, which stands for consent.
    """

    id: JobId
    project: ProjectName
    user: str | None = None
    name: str | None = None
    kind: JobKind | None = JobKind.BATCH
    framework: str | None = None
    priority: int = 0
    phase: Phase = Phase.PENDING
    min_gpus: int = 1
    max_gpus: int = 1
    share: float = 1.0
    memory_bytes: int | None = None
    memory_held_bytes: int | None = None
    gpu_models: tuple[str, ...] = ()
    topology: Topology = Topology.ANY
    after: tuple[JobId, ...] = ()
    after_failed: tuple[JobId, ...] = ()
    submitted_ms: int = 0
    started_ms: int | None = None
    limit_s: float | None = None
    preemptible: bool = False
    checkpointable: bool = False
    checkpoint_ms: int | None = None
    attached: bool | None = None
    may_share: bool = False
    opted_out: frozenset[ActionClass] = frozenset()
    keep_until_ms: int | None = None
    keep_count: int = 0
    use: Use = Use.UNKNOWN
    idle_since_ms: int | None = None
    idle_gpu_hours: float | None = None
    attained_gpu_s: float = 0.0
    acted_ms: int | None = None
    resized_ms: int | None = None
    requeues: int = 0
    notified_ms: int | None = None
    notifications: int = 0
    warned_ms: int | None = None
    unreached_ms: int | None = None
    protected: bool = False
    held: bool = False
    cannot: Mapping[str, str] = field(default_factory=dict)
    withheld: Mapping[str, str] = field(default_factory=dict)
    paused_on: tuple[GpuUuid, ...] = ()
    next_launch: tuple[tuple[str, str], ...] = ()
    profile: Profile | None = None
    paced: bool = False
    idle_gaps: Mapping[GpuUuid, IdleGaps] = field(default_factory=dict)
    manager: str | None = None
    allowed_in_job: frozenset[str] = frozenset()
    hook: str | None = None
    idle_rule: IdleRule | None = None

    @property
    def elastic(self) -> bool:
        """Whether it may run on more than one world size."""
        return self.max_gpus > self.min_gpus

    @property
    def on_one_node(self) -> bool:
        """Whether all its GPUs must lie on one machine."""
        return self.topology is Topology.NODE

    @property
    def prefers_node(self) -> bool:
        """Whether one machine is better than several, and several are better than to wait."""
        return self.topology is Topology.PREFER_NODE

    @property
    def demand_gpus(self) -> float:
        """The most that it could use, in GPUs."""
        return self.max_gpus * self.share


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """The GPUs of a running job, in rank order, and the share of each that it was given."""

    gpus: tuple[GpuUuid, ...]
    share: float = 1.0

    @property
    def size_gpus(self) -> float:
        """What is held, in GPUs."""
        return len(self.gpus) * self.share


def held_gpus(placement: Placement, gpus: Mapping[GpuUuid, Gpu]) -> float:
    """What a placement counts as in quotas, in GPUs: its share of devices, of instances their part of one."""
    return placement.share * sum(gpus[uuid].part if uuid in gpus else 1.0 for uuid in placement.gpus)


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """A project's remembered use, decayed, as ratios of the cluster's capacity over the same window."""

    allocated_ratio: float = 0.0
    held_idle_ratio: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Reservation:
    """What the head of a queue was promised: to start on ``gpus`` no later than ``start_ms``."""

    start_ms: int
    gpus: tuple[GpuUuid, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionTaken:
    """A disturbing action of the recent past, for the limits on how often anything is disturbed."""

    at_ms: int
    job: JobId
    verb: str
    nodes: tuple[NodeName, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterState:
    """All that a decision may look at, at one instant. A job in ``placements`` is RUNNING, and only such.

    ``begun`` are waiting jobs for which others were asked to give way, each with those who still do.
    ``background`` are jobs that hold nothing, and are in no other mapping: they compute in the idle gaps of
    ``beside``, or wait for some.
    """

    as_of_ms: int
    nodes: Mapping[NodeName, Node] = field(default_factory=dict)
    gpus: Mapping[GpuUuid, Gpu] = field(default_factory=dict)
    projects: Mapping[ProjectName, Project] = field(default_factory=dict)
    jobs: Mapping[JobId, Job] = field(default_factory=dict)
    placements: Mapping[JobId, Placement] = field(default_factory=dict)
    usage: Mapping[ProjectName, Usage] = field(default_factory=dict)
    reservations: Mapping[JobId, Reservation] = field(default_factory=dict)
    actions: tuple[ActionTaken, ...] = ()
    begun: Mapping[JobId, tuple[JobId, ...]] = field(default_factory=dict)
    background: Mapping[JobId, Job] = field(default_factory=dict)
    beside: Mapping[JobId, tuple[JobId, GpuUuid]] = field(default_factory=dict)

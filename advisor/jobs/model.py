"""The nouns of a submitted job: its submission, its entry in the register, its directives and its reports.

Pure values. The service writes directives, the job's launcher (``fallow run``, running as the user) carries
them out in order and acknowledges each; neither ever runs anything on the other's behalf. A directive bears
the number of the journal's intent that caused it, so it is carried out at most once: a launcher that has
handled number N ignores whatever is numbered N or less.

    submit ─► PENDING ─Start─► RUNNING ─Pause─► PAUSED ─Resume─► RUNNING ... ─► ENDED

Times UTC milliseconds, memory bytes on each GPU, shares 0..1 of a GPU.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from advisor.state.model import ActionClass, ProjectName, Topology
from collector.model import GpuUuid, JobId, JobKind, NodeName


class JobState(StrEnum):
    """Where a submitted job stands. STARTING: a lease is granted, workers are not reported yet."""

    PENDING = "pending"
    STARTING = "starting"
    RUNNING = "running"
    PAUSED = "paused"
    ENDED = "ended"


class ExitReason(StrEnum):
    """How a job came to its end."""

    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"
    LOST = "lost"


class Elasticity(StrEnum):
    """How a job's world can be changed while it lives.

    ELASTIC uses ``fallow`` and is resized in place; CHECKPOINTS is signalled, given its grace and launched
    anew; RIGID is only ever queued, run and finished.
    """

    ELASTIC = "elastic"
    CHECKPOINTS = "checkpoints"
    RIGID = "rigid"


class Sharing(StrEnum):
    """What keeps sharers of a GPU apart, as the lease says it."""

    WHOLE = "whole"
    MIG = "mig"
    MPS = "mps"
    TIME_SLICED = "time-sliced"


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """What somebody asked for. The command is for people to read: only the launcher ever runs it.

    ``min_gpus`` to ``max_gpus`` devices, ``share`` of each; ``memory_bytes`` needed on each, ``None``
    unknown. ``grace_s`` is how long a signalled job may write its checkpoint. ``restarts`` is how often a
    job whose worker died is started again.
    """

    command: tuple[str, ...]
    user: str
    uid: int | None = None
    project: ProjectName
    name: str = ""
    folder: str = ""
    node: NodeName | None = None
    kind: JobKind = JobKind.BATCH
    min_gpus: int = 1
    max_gpus: int = 1
    share: float = 1.0
    memory_bytes: int | None = None
    priority: int = 0
    preemptible: bool = False
    may_share: bool = False
    mobility: Elasticity = Elasticity.RIGID
    checkpoint_signal: str | None = None
    grace_s: float = 60.0
    restarts: int = 0
    memory_defaults: bool = True
    gpu_models: tuple[str, ...] = ()
    topology: Topology = Topology.ANY
    limit_s: float | None = None
    opted_out: frozenset[ActionClass] = frozenset()
    after: tuple[JobId, ...] = ()
    """Jobs that must end well before its first start."""
    nonce: str = ""
    """Made by the launcher: the same submission sent twice is one job."""
    step_s_predicted: Mapping[int, float] = field(default_factory=dict)
    """Seconds a step by world size, from its layers' measured times; empty: nobody said."""
    background: bool = False
    """It computes in the idle gaps of others' GPUs and is given none of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Launcher:
    """The process that runs a job: on this machine it is known dead when pid and start time are gone."""

    node: NodeName
    pid: int
    started_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class IdleGapCounts:
    """What a launcher reads on the page of one GPU, in seconds; ``None`` where it was not measured.

    Of a foreground: its ``steps``, a step ``alone_s`` with nobody beside it and the gaps in it together,
    ``slowdown_ratio`` of its steps beside others to those alone. Of a background job: its own steps there
    since it started, and ``work_s``, the GPU time that one takes alone, in the mean.
    """

    gpu: GpuUuid
    page: str
    steps: int
    alone_s: float | None = None
    gaps_s: float | None = None
    slowdown_ratio: float | None = None
    work_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What a launcher says of its job: every few seconds, and at once when something changed.

    ``acknowledged`` is the number of the newest directive it has carried out, ``failed`` why that did not
    work. ``steps_left``, ``step_s`` (by world size) and ``checkpoint_ms`` are the job's own word, where it
    has one. ``counted_ms`` is when ``step`` was counted, by the launcher's steady clock: two counts make a
    speed. ``attached`` is whether somebody may sit at its terminal, ``quiet_s`` for how long nobody has typed
    there. ``proof`` is that of the newest command that it has carried out, empty where that one bore none.
    """

    at_ms: int
    launcher: Launcher
    state: JobState
    acknowledged: int = 0
    failed: str | None = None
    pids: tuple[int, ...] = ()
    gpus: tuple[GpuUuid, ...] = ()
    step: int | None = None
    counted_ms: int | None = None
    steps_left: float | None = None
    step_s: Mapping[int, float] = field(default_factory=dict)
    resize_s: float | None = None
    memory_held_bytes: int | None = None
    memory_needed_bytes: int | None = None
    checkpoint_ms: int | None = None
    attached: bool | None = None
    quiet_s: float | None = None
    exit_reason: ExitReason | None = None
    exit_code: int | None = None
    proof: str = ""
    idle_gaps: tuple[IdleGapCounts, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StartCommand:
    """Start the workers on these devices, in rank order, with the lease's environment ``settings``.

    With ``beside`` it is no lease: a background job computes in that job's idle gaps, told on ``page``.
    """

    number: int
    gpus: tuple[GpuUuid, ...]
    share: float = 1.0
    sharing: Sharing = Sharing.WHOLE
    memory_bytes: int | None = None
    settings: tuple[tuple[str, str], ...] = ()
    reason: str = ""
    proof: str = ""
    beside: JobId | None = None
    page: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PauseCommand:
    """Give the GPUs back and keep what was done: the job goes on later. Never for a RIGID job.

    ``for_idling``: an interactive one goes on when somebody touches it, and not before.
    """

    number: int
    reason: str = ""
    for_idling: bool = False
    proof: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumeCommand:
    """Go on after a ``PauseCommand``, on these devices."""

    number: int
    gpus: tuple[GpuUuid, ...]
    share: float = 1.0
    sharing: Sharing = Sharing.WHOLE
    memory_bytes: int | None = None
    settings: tuple[tuple[str, str], ...] = ()
    reason: str = ""
    proof: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReallocateCommand:
    """Go on with exactly these devices: an elastic job in place, one that checkpoints by a new launch.

    Also moves a job (as many devices, others) and restarts it with other ``settings`` (the same devices).
    """

    number: int
    gpus: tuple[GpuUuid, ...]
    share: float = 1.0
    sharing: Sharing = Sharing.WHOLE
    memory_bytes: int | None = None
    settings: tuple[tuple[str, str], ...] = ()
    reason: str = ""
    proof: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseMemoryCommand:
    """Have the job's library give cached memory back."""

    number: int
    reason: str = ""
    proof: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequeueCommand:
    """Stop the workers after a checkpoint and wait in the queue for a new ``StartCommand``."""

    number: int
    reason: str = ""
    proof: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NotifyCommand:
    """Show the person at the job a message; nothing else."""

    number: int
    message: str
    proof: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelCommand:
    """End the job for good."""

    number: int
    reason: str = ""
    proof: str = ""


Command = (
    StartCommand
    | PauseCommand
    | ResumeCommand
    | ReallocateCommand
    | ReleaseMemoryCommand
    | RequeueCommand
    | NotifyCommand
    | CancelCommand
)
"""The ``proof`` of each is the service's own word on the job's lease (``signing``), for its launcher to show
again; empty where an older Fallow gave it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRecord:
    """A submitted job as the register has it.

    ``gpus`` are its leased devices in rank order, empty while it holds none. ``directive`` is the newest one
    given, ``acknowledged`` the newest one that its launcher has acknowledged: while they differ, it is being
    carried out. ``heard_ms`` is when its launcher was last heard of, ``None`` since the service started.
    """

    id: JobId
    submission: Submission
    state: JobState = JobState.PENDING
    submitted_ms: int = 0
    started_ms: int | None = None
    ended_ms: int | None = None
    gpus: tuple[GpuUuid, ...] = ()
    share: float = 1.0
    sharing: Sharing = Sharing.WHOLE
    directive: Command | None = None
    acknowledged: int = 0
    failed: str | None = None
    """Why the newest acknowledged directive did not work; ``None`` when it did."""
    launcher: Launcher | None = None
    report: Report | None = None
    last_seen_ms: int | None = None
    paused_on: tuple[GpuUuid, ...] = ()
    keep_until_ms: int | None = None
    keep_count: int = 0
    requeues: int = 0
    acted_ms: int | None = None
    resized_ms: int | None = None
    notified_ms: int | None = None
    notifications: int = 0
    attained_gpu_s: float = 0.0
    counted_ms: int | None = None
    """Up to when ``attained_gpu_s`` counts; ``None`` while it holds no GPU."""
    leased_ms: int | None = None
    """Since when it has held GPUs without a break: what its workers are is younger. ``None`` while it holds
    none, and where an older Fallow gave them."""
    placed_ms: int | None = None
    """Since when it has held just these GPUs; ``None`` as above."""
    promised_ms: int | None = None
    promised_gpus: tuple[GpuUuid, ...] = ()
    next_launch: tuple[tuple[str, str], ...] = ()
    held_by_user: bool = False
    """Paused by its owner: only its owner or an operator lets it go on."""
    paused_for_idling: bool = False
    """Paused because it did nothing. An interactive one goes on when its launcher reports somebody at it
    (``attached``), or its owner or an operator resumes it; a batch job after its cooldown."""
    exit_reason: ExitReason | None = None
    """How it ended; set while it does not stand ENDED yet when its launcher is lost and workers linger."""
    exit_code: int | None = None
    message: str = ""
    """Why it stands where it stands, for people: what it waits for, or how it ended."""
    beside: JobId | None = None
    """The job in whose idle gaps a background job computes; ``None`` while it waits, and of all others."""
    beside_gpu: GpuUuid | None = None
    """The GPU on which it does; it is leased to that job alone."""
    alone: bool = False
    """Its owner wants nobody in its idle gaps."""
    memory_seen_bytes: int | None = None
    """Of a background job: GPU memory that it held, by the driver's count, where that had run short. It
    starts again only where so much is free: what it asked for was too little."""

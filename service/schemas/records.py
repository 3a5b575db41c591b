"""What the routes about jobs answer: jobs, queue, leases, consents, plans, actions, who may act.

One class is the service's answer, its shape in the OpenAPI document, and what client, verbs and pages read.
Pure. Times are UTC milliseconds since the epoch (``instant`` makes them moments), lengths of time seconds,
memory bytes; ``None`` where nothing is known.
"""

from collections.abc import Mapping
from dataclasses import field
from datetime import UTC, datetime
from typing import ClassVar, Literal

from service.schemas.answer import Answer, answer

MS_PER_S = 1000

Stood = Literal["pending", "starting", "running", "paused", "ended"]
Ended = Literal["done", "failed", "cancelled", "lost"]
Apart = Literal["whole", "mig", "mps", "time-sliced"]
"""``advisor.jobs.model`` has the same words as enums, and a test holds them together."""


def instant(ms: float | None) -> datetime | None:
    """Milliseconds since the epoch as an instant; ``None`` stays ``None``."""
    return None if ms is None else datetime.fromtimestamp(ms / MS_PER_S, UTC)


@answer
class Refusal(Answer):
    """Why not: a kind for programs, and a message for people that says what would do."""

    error: str
    """The kind, from a fixed list (docs/api.md)."""
    message: str
    """What was wrong, and what to do."""


@answer
class Caller(Answer):
    """Whom the service takes the asker for."""

    name: str = "unknown"
    """The account, or the user that a token was made for."""
    uid: int | None = None
    """The account's number on the service's machine; null where it has none."""
    role: Literal["node", "viewer", "user", "operator"] = "viewer"
    """A viewer sees everything, a user also acts on own jobs, an operator on all."""


@answer
class Launcher(Answer):
    """The process that runs a job, as the user who submitted it."""

    node: str
    """The machine that it runs on."""
    pid: int
    """Its process id there."""
    started_ms: int
    """When that process began, UTC ms; with the pid it names one process."""


@answer
class IdleGapCounts(Answer):
    """What is told of idle gaps on one GPU."""

    gpu: str
    """Its UUID."""
    page: str
    """The file of shared memory by which both jobs know of each other."""
    steps: int
    """Steps counted: the job's own, or a background job's since it started there."""
    alone_s: float | None = None
    """Seconds of a step with nobody beside it; null where it was not measured, and for a background job."""
    gaps_s: float | None = None
    """Seconds of gaps in such a step."""
    slowdown_ratio: float | None = None
    """Steps beside others over those with nobody."""
    work_s: float | None = None
    """GPU seconds that a background job's step takes alone; null for the others."""


@answer
class Report(Answer):
    """What a launcher last said of its job."""

    at_ms: int
    """When it said so, UTC ms."""
    launcher: Launcher
    """The process that said so."""
    state: Stood | Literal["unknown"] = "unknown"
    """Where the job stands by its launcher's word; unknown is never sent, and is how the client reads a
    service from before 0.1.0."""
    acknowledged: int = 0
    """The number of the newest directive that it has carried out; 0 before the first."""
    failed: str | None = None
    """Why that directive did not work; null where it did."""
    pids: tuple[int, ...] = ()
    """Process ids of the job's workers."""
    gpus: tuple[str, ...] = ()
    """UUIDs of the GPUs that the workers run on, in rank order."""
    step: int | None = None
    """Training steps done so far, by the job's own count."""
    counted_ms: int | None = None
    """When ``step`` was counted, ms of the launcher's steady clock."""
    steps_left: float | None = None
    """Training steps still to do, by the job's own word."""
    step_s: Mapping[str, float] = field(default_factory=dict)
    """Seconds a step takes, by the number of GPUs."""
    resize_s: float | None = None
    """Seconds that a resize takes."""
    memory_held_bytes: int | None = None
    """GPU memory in bytes that the job holds on each GPU, a cache included."""
    memory_needed_bytes: int | None = None
    """GPU memory in bytes that it needs of that."""
    checkpoint_ms: int | None = None
    """When it last wrote a checkpoint, UTC ms."""
    attached: bool | None = None
    """Whether somebody may sit at its terminal."""
    quiet_s: float | None = None
    """Seconds since somebody last typed there."""
    exit_reason: Ended | None = None
    """How its workers ended; null while they run."""
    exit_code: int | None = None
    """The exit status of the worker that decided it; negative for a signal."""
    proof: str = ""
    """The service's own word on the newest directive carried out; empty to everybody but the launcher."""
    idle_gaps: tuple[IdleGapCounts, ...] = ()
    """What is told of idle gaps, a row a GPU: the job's own, or those that it computes in."""


@answer
class Submission(Answer):
    """What somebody asked for when the job was submitted."""

    command: tuple[str, ...] = ()
    """The command's words; secrets in it are masked for others, and lists cut it."""
    user: str | None = None
    """Whose job it is."""
    uid: int | None = None
    """That account's number on the service's machine."""
    project: str | None = None
    """The project that its GPUs count for."""
    name: str = ""
    """What its owner calls it; empty where nothing was said."""
    folder: str = ""
    """The folder that it runs in; empty to others."""
    node: str | None = None
    """The machine that it must run on; null where any will do."""
    kind: str = ""
    """batch, interactive or inference."""
    min_gpus: int = 1
    """The fewest GPUs that it runs on."""
    max_gpus: int = 1
    """The most GPUs that it can use."""
    share: float = 1.0
    """The part of each GPU that it wants, above 0 to 1."""
    memory_bytes: int | None = None
    """GPU memory in bytes that it needs on each GPU; null where nothing was said."""
    priority: int = 0
    """Higher goes first within a project."""
    preemptible: bool = False
    """Whether it may be paused for other jobs."""
    may_share: bool = False
    """Whether it may run beside other people's jobs on one GPU."""
    mobility: Literal["elastic", "checkpoints", "rigid", ""] = ""
    """How its GPUs can be changed: in place, by a checkpoint and a new launch, or not at all."""
    checkpoint_signal: str | None = None
    """The signal on which it writes a checkpoint."""
    grace_s: float = 60.0
    """Seconds that it may take to write one."""
    restarts: int = 0
    """How often it is started again after a worker died."""
    memory_defaults: bool = True
    """Whether Fallow sets what keeps its memory from fragmenting."""
    gpu_models: tuple[str, ...] = ()
    """Models of GPU that will do; empty where any will."""
    topology: Literal["any", "prefer-node", "node"] = "any"
    """node: all its GPUs are on one machine, or it waits; prefer-node: where one machine has room."""
    limit_s: float | None = None
    """Seconds that it runs at most; null where it has no limit."""
    opted_out: tuple[str, ...] = ()
    """Classes of action that must not be done to it."""
    after: tuple[str, ...] = ()
    """Ids of jobs that must end well before its first start."""
    nonce: str = ""
    """The launcher's own name for this submission: sent twice, it is one job. Empty to others."""
    step_s_predicted: Mapping[str, float] = field(default_factory=dict)
    """Seconds a step by the number of GPUs, as predicted from its layers; empty where nobody said."""
    background: bool = False
    """Whether it computes in others' idle gaps, and is given no GPU of its own."""


@answer
class Command(Answer):
    """What a launcher is told; which fields there are depends on ``is``."""

    __pydantic_config__: ClassVar[dict[str, object]] = {
        **Answer.__pydantic_config__,
        "json_schema_serialization_defaults_required": False,
    }

    is_: str
    """Start, Pause, Resume, Reallocate, ReleaseMemory, Requeue, Notify or Cancel."""
    number: int
    """Its number in the journal; a launcher carries each out once, in order."""
    gpus: tuple[str, ...] = ()
    """UUIDs of the GPUs to run on, in rank order."""
    share: float = 1.0
    """The part of each GPU, above 0 to 1."""
    sharing: Apart = "whole"
    """What keeps sharers of a GPU apart."""
    memory_bytes: int | None = None
    """The most GPU memory in bytes that it may use on each GPU."""
    settings: tuple[tuple[str, str], ...] = ()
    """Environment variables for the workers: name and value."""
    reason: str = ""
    """Why, for people."""
    message: str = ""
    """What is shown to the person at the job (Notify)."""
    for_idling: bool = False
    """Paused because it did nothing (Pause)."""
    beside: str | None = None
    """The job in whose idle gaps it computes, without a lease (Start); null: it has GPUs of its own."""
    page: str = ""
    """Where both tell each other when the GPU idles (Start, with ``beside``)."""
    proof: str = ""
    """The service's own word on the lease; empty to everybody but the launcher."""


@answer
class Job(Answer):
    """A submitted job."""

    job: str
    """Its id: ``fallow:7``."""
    name: str = ""
    """What its owner calls it; empty where nothing was said."""
    user: str | None = None
    """Whose job it is."""
    project: str | None = None
    """The project that its GPUs count for."""
    id: str = ""
    """Its id once more; read ``job``."""
    submission: Submission = field(default_factory=Submission)
    """What was asked for."""
    state: Stood | Literal["unknown"] = "unknown"
    """Where it stands; starting: GPUs are leased, workers are not reported yet; unknown is never sent, and is
    how the client reads a service from before 0.1.0."""
    submitted_ms: int | None = None
    """When it was submitted, UTC ms."""
    started_ms: int | None = None
    """When its workers first ran, UTC ms; null before."""
    ended_ms: int | None = None
    """When it ended, UTC ms; null before."""
    gpus: tuple[str, ...] = ()
    """UUIDs of the GPUs that it holds, in rank order; empty while it holds none."""
    share: float = 1.0
    """The part of each of them that it holds, above 0 to 1."""
    sharing: Apart = "whole"
    """What keeps it apart from other jobs on its GPUs."""
    directive: Command | None = None
    """The newest thing that its launcher was told."""
    acknowledged: int = 0
    """The number of the newest directive that its launcher has carried out; 0 before the first."""
    failed: str | None = None
    """Why that directive did not work; null where it did."""
    launcher: Launcher | None = None
    """The process that runs it; null before there is one."""
    report: Report | None = None
    """What its launcher last said; null before it said anything."""
    last_seen_ms: int | None = None
    """When its launcher was last heard of, UTC ms; null since the service started."""
    paused_on: tuple[str, ...] = ()
    """UUIDs of the GPUs that it held when it was paused."""
    keep_until_ms: int | None = None
    """Until when it is left alone by its owner's word, UTC ms."""
    keep_count: int = 0
    """How often its owner has said so."""
    requeues: int = 0
    """How often it was put back into the queue."""
    acted_ms: int | None = None
    """When Fallow last did something to it, UTC ms."""
    resized_ms: int | None = None
    """When it last got other GPUs or another number of them, UTC ms."""
    notified_ms: int | None = None
    """When its owner was last notified that it idles, UTC ms."""
    notifications: int = 0
    """How often in this stretch of idling."""
    attained_gpu_s: float = 0.0
    """GPU-seconds that it has held so far, shares counted as parts."""
    counted_ms: int | None = None
    """Up to when that counts, UTC ms; null while it holds no GPU."""
    leased_ms: int | None = None
    """Since when it has held GPUs without a break, UTC ms."""
    placed_ms: int | None = None
    """Since when it has held just these GPUs, UTC ms."""
    promised_ms: int | None = None
    """When it will start at the latest, by Fallow's promise, UTC ms."""
    promised_gpus: tuple[str, ...] = ()
    """UUIDs of the GPUs that it was promised."""
    next_launch: tuple[tuple[str, str], ...] = ()
    """Environment variables that its workers get at their next launch: name and value."""
    held_by_user: bool = False
    """Whether its owner holds it: only the owner or an operator lets it go on."""
    paused_for_idling: bool = False
    """Whether it was paused because it did nothing."""
    beside: str | None = None
    """The job in whose idle gaps a background job computes; null while it waits, and for others."""
    beside_gpu: str | None = None
    """The UUID of the GPU on which it does."""
    alone: bool = False
    """Whether its owner wants nobody in its idle gaps."""
    memory_seen_bytes: int | None = None
    """GPU memory in bytes that a background job held where its GPU's had run short; null: it never had."""
    exit_reason: Ended | None = None
    """How it ended; null before."""
    exit_code: int | None = None
    """Its exit status, negative for a signal; null where there is none."""
    message: str = ""
    """Why it stands where it stands, for people."""


@answer
class GivenCommand(Answer):
    """One thing that a job's launcher was told, and when."""

    number: int
    """Its number in the journal."""
    given_ms: int | None = None
    """When it was given, UTC ms."""
    acknowledged_ms: int | None = None
    """When the launcher had carried it out, UTC ms; null before."""
    failed: str | None = None
    """Why it did not work; null where it did."""
    verb: str = ""
    """What to do, in a word: ``start``."""
    directive: Command | None = None
    """The whole of it."""


@answer
class Action(Answer):
    """A row of the journal: something that was done to a job."""

    action: int
    """Its number."""
    at_ms: int | None = None
    """When it was begun, UTC ms."""
    job: str = ""
    """The job that it was done to."""
    verb: str = ""
    """What was done, in a word: ``pause``."""
    actor: str = ""
    """Who did it: ``fallow``, or ``user NAME``."""
    user: str | None = None
    """Whose job it was; null where that is not known."""
    plan: int | None = None
    """The plan that it was a step of."""
    reason: str = ""
    """Why, for people."""
    outcome: str | None = None
    """done, stale, failed, unsupported or unknown; null while it is being done."""
    found: str | None = None
    """What was found when it was done, for people."""
    settled_ms: int | None = None
    """When its outcome was known, UTC ms."""
    undo: str | None = None
    """The shell command that takes it back; null where nothing does."""
    no_undo: str | None = None
    """Why nothing takes it back."""
    undone_by: int | None = None
    """The action that took it back."""


@answer
class JobDetail(Job):
    """A submitted job, with its history and its reasons."""

    directives: tuple[GivenCommand, ...] = ()
    """What its launcher was told, the oldest first."""
    actions: tuple[Action, ...] = ()
    """What was done to it, the newest first."""
    explain: tuple[str, ...] = ()
    """Sentences on why it stands where it stands, and on which terms it holds GPUs."""

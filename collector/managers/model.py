"""What a workload manager says at one look: its jobs, running and waiting, and its nodes. Pure values.

Which of a node's GPUs a job has, in indices, is as far as a manager knows; UUIDs are attribution's. Times are
UTC milliseconds; ``None`` is "not said".
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from collector.managers.owner_word import OwnerWord
from collector.model import GpuUuid, Holder, JobId, NodeName, OutOfService, Unavailable


class JobState(StrEnum):
    """Where a job stands with its manager.

    PENDING --> RUNNING <--> PAUSED
       ^           |           |
       |           v           |
       +------- ENDING <-------+      (a requeued job waits again, as a further run)
                   |
                   v
                 ENDED
    """

    PENDING = "pending"
    RUNNING = "running"
    PAUSED = "paused"
    ENDING = "ending"
    ENDED = "ended"


class WaitCause(StrEnum):
    """What a pending job waits for, whatever words its manager has for it."""

    RESOURCES = "resources"
    """What it asked for isn't free, or somebody with a higher priority is before it."""
    LIMIT = "limit"
    """Of its account, association or QOS."""
    RESERVATION = "reservation"
    """Its own hasn't begun, or one of others has the nodes."""
    NODES = "nodes"
    """Those that it must have are down, drained, or asked for by name."""
    HELD = "held"
    DEPENDENCY = "dependency"
    TIME = "time"
    """It is not to begin before a time of its own, or is back in the queue and pauses."""
    OWN = "own"
    """A limit that its owner set, of an array's tasks at once."""
    NEVER = "never"
    """It can't start as it was asked for."""
    OTHER = "other"
    UNSAID = "unsaid"


HOLDING = frozenset({JobState.RUNNING, JobState.PAUSED, JobState.ENDING})
"""States in which a job keeps what it was given."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobKey:
    """One run of a job. A manager may use an id again; id, submission and run together it does not.

    ``restarts``: how often the job was put back into the queue before this run.
    """

    cluster: str
    id: str
    submitted_ms: int
    restarts: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownRun:
    """Whose a number was when it was seen last, and as which job of ours."""

    key: JobKey
    user: str | None
    job: JobId


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """What a job asked for. ``gpus`` are all nodes' together; ``shards`` are parts of GPUs.

    ``None``: it isn't said, for example because GPUs were asked for a task. ``gpu_type`` is the manager's
    name of the kind asked for; empty: any.
    """

    nodes: int
    gpus: int | None
    shards: int = 0
    gpu_type: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """GPUs of one node that a job has. ``indices`` are as the manager counts; fewer than ``gpus``: not told.

    ``uuids`` are those that the manager names so. ``is_shared``: of each of these GPUs a part, and ``gpus``
    counts the parts. ``share``: of each of these GPUs, where the manager counts in fractions.
    ``pids``: the processes that have them, as the node counts. ``of_gpus``: how many GPUs of the node the
    manager counts; on a node with another number its indices are not the driver's. ``None``: all.
    """

    node: NodeName
    gpus: int
    indices: tuple[int, ...] = ()
    is_shared: bool = False
    uuids: tuple[GpuUuid, ...] = ()
    share: float = 1.0
    pids: tuple[int, ...] = ()
    of_gpus: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """A limit that keeps a job waiting. ``name``: of the account or QOS whose it is; ``user``: it is one of
    this person's there. ``what`` it is of: gres/gpu, cpu, jobs; memory is in MB.

    ``used``: how much of ``most`` is in use, by what the manager counts for it; ``None``: it is of each job.
    ``unseen``: why the number isn't known; then nothing else is.
    """

    name: str
    user: str = ""
    what: str = ""
    most: int | None = None
    used: int | None = None
    unseen: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ManagedJob:
    """A run of a job, as its manager shows it now.

    ``shown_id`` is what people call it (``4_[2-3]``); ``state_name`` and ``reason``, why it waits, are the
    manager's words. ``tasks``: how many a waiting array stands for. ``nodes``: where it is. ``given`` is
    ``None`` when it may hold GPUs and nobody says which. ``expected_ms``: when its manager expects a waiting
    one to begin. ``limit``: the one that it waits for. ``uid``: its owner's, there. ``word``: what its owner
    allows in its comment. A waiting job of ``priority`` 0 is held: its manager doesn't start it before
    somebody releases it.
    """

    key: JobKey
    holder: Holder
    state: JobState
    ask: Ask
    shown_id: str = ""
    state_name: str = ""
    nodes: tuple[NodeName, ...] = ()
    given: tuple[Grant, ...] | None = ()
    reason: str = ""
    partition: str = ""
    qos: str = ""
    reservation: str = ""
    tasks: int = 1
    priority: int | None = None
    limit_s: int | None = None
    eligible_ms: int | None = None
    started_ms: int | None = None
    expected_ms: int | None = None
    cause: WaitCause | None = None
    ended_ms: int | None = None
    word: OwnerWord | None = None
    limit: Limit | None = None
    uid: int | None = None

    @property
    def is_held(self) -> bool:
        """Whether it waits for somebody to release it."""
        return self.state is JobState.PENDING and self.priority == 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ManagedNode:
    """A node of a manager: why it gets no jobs (``None``: it does), its GPUs, and how many are given out.

    ``given_gpus`` counts whole GPUs, ``given_shards`` parts; both by the node's own word, not by jobs.
    """

    name: NodeName
    state: OutOfService | None = None
    reason: str = ""
    gpus: int | None = None
    given_gpus: int | None = None
    given_shards: int = 0
    partitions: tuple[str, ...] = ()
    gpu_types: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Reservation:
    """Nodes that a manager keeps for somebody. ``whose`` is in words: accounts and people.

    ``is_whole``: all of its nodes, else some of their cores.
    """

    name: str
    nodes: tuple[NodeName, ...]
    whose: str = ""
    is_whole: bool = True
    starts_ms: int | None = None
    ends_ms: int | None = None

    def is_on(self, now_ms: int) -> bool:
        """Whether it has begun and has not ended."""
        return (self.starts_ms or 0) <= now_ms and (self.ends_ms is None or now_ms < self.ends_ms)

    def told(self) -> str:
        """Its name, and whose it is."""
        return f"reservation {self.name}{f' of {self.whose}' if self.whose else ''}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """All that a manager showed at one time: its jobs, some that are over among them, and every node."""

    cluster: str
    at_ms: int
    jobs: tuple[ManagedJob, ...]
    nodes: tuple[ManagedNode, ...]
    reservations: tuple[Reservation, ...] = ()


class Manager(Protocol):
    """The read side of a workload manager.

    ``name`` is also the value of its ``ClaimSource``. ``tells_which``: it says which of a node's GPUs a job
    has.
    """

    name: str
    tells_which: bool

    def look(self, now_ms: int) -> Look | Unavailable:
        """Everything now, or why it can't be told. Blocks; an empty answer is given only if it is proven."""
        ...

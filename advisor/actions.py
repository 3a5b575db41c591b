"""What can be done: one small value a verb, and ``Action``, the closed set of them.

Pure values. ``advisor.planner.transition`` says what each does to a ``ClusterState``, and nothing else does.
Every step carries a ``reason`` for people: a sentence, without the verb's own words. ``for_job`` is the job
that is to get what another gives up, ``action`` the class of action that the step is switched with.
"""

from dataclasses import dataclass

from advisor.state.model import ActionClass
from collector.model import GpuUuid, JobId, NodeName


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """Start a PENDING job on these GPUs."""

    job: JobId
    gpus: tuple[GpuUuid, ...]
    share: float = 1.0
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resize:
    """Let a running elastic job go on with this set of GPUs, larger or smaller than its own.

    ``also_for`` are others that get a part of what it gives up, each with how many GPUs; the rest is for
    ``for_job``.
    """

    job: JobId
    gpus: tuple[GpuUuid, ...]
    for_job: JobId | None = None
    also_for: tuple[tuple[JobId, int], ...] = ()
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    """Take a running job off its GPUs into host memory, nothing lost."""

    job: JobId
    for_job: JobId | None = None
    action: ActionClass = ActionClass.RECLAIM
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resume:
    """Bring a PAUSED job back, onto GPUs of the nodes that hold its state; no ``share``: as it asked for.

    ``places`` instead of ``gpus``: a workload manager lets it go on, on so many GPUs of each node that it
    chooses; no node: of any.
    """

    job: JobId
    gpus: tuple[GpuUuid, ...]
    share: float | None = None
    places: tuple[tuple[NodeName | None, int], ...] = ()
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Requeue:
    """Stop a job and put it back in its queue; it goes on from its newest checkpoint."""

    job: JobId
    for_job: JobId | None = None
    action: ActionClass = ActionClass.FAIR_SHARE
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """Let a running job go on elsewhere, on as many GPUs; ``share`` when the share of each changes too."""

    job: JobId
    gpus: tuple[GpuUuid, ...]
    share: float | None = None
    for_job: JobId | None = None
    action: ActionClass = ActionClass.CONSOLIDATE
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseMemory:
    """Have the job's own library give cached memory back now; ``frees_bytes`` on each of its GPUs."""

    job: JobId
    frees_bytes: int
    action: ActionClass = ActionClass.CAP_MEMORY
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SetEnvAtRestart:
    """Launch the job with these environment settings next time; ``frees_bytes`` on each of its GPUs then."""

    job: JobId
    settings: tuple[tuple[str, str], ...]
    frees_bytes: int | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Notify:
    """Tell the owner; nothing is done to the job."""

    job: JobId
    message: str
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldForJob:
    """Promise the head of a queue its start; back-fill may not delay it past ``start_ms``.

    With no GPUs an earlier promise is taken back: it cannot be kept, and nothing is held back any more.
    """

    job: JobId
    start_ms: int
    gpus: tuple[GpuUuid, ...]
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancel:
    """End a job for good: only where an administrator switched it on, after two warnings."""

    job: JobId
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StartBackground:
    """Start a waiting background job in the idle gaps that ``beside`` has on this GPU; it gets no lease."""

    job: JobId
    beside: JobId
    gpus: tuple[GpuUuid, ...]
    action: ActionClass = ActionClass.BACKGROUND
    reason: str = ""


Action = (
    Start
    | Resize
    | Pause
    | Resume
    | Requeue
    | Move
    | ReleaseMemory
    | SetEnvAtRestart
    | Notify
    | HoldForJob
    | Cancel
    | StartBackground
)

"""A plan: the steps to take, in order, and everything that was refused, each with its reason. Pure values."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import assert_never

from advisor.advice import Abstain, Advice
from advisor.model import ActionClass, ProjectName
from advisor.steps import (
    CapAtNextLaunch,
    Move,
    Pause,
    Promise,
    ReleaseCaches,
    Requeue,
    Resize,
    Resume,
    Start,
    Step,
    Tell,
    Terminate,
)
from collector.model import GpuUuid, JobId


class Rule(StrEnum):
    """Which rule said no. The first twelve protect a running job, the others keep one waiting."""

    PROTECTED = "protected"
    IN_QUOTA = "in-quota"
    NOT_PREEMPTIBLE = "not-preemptible"
    INFERENCE = "inference"
    ATTACHED = "attached"
    OPTED_OUT = "opted-out"
    KEPT = "kept"
    MIN_RUNTIME = "min-runtime"
    COOLDOWN = "cooldown"
    TELEMETRY = "telemetry"
    IN_FLIGHT = "in-flight"
    RATE = "rate"
    UNSUPPORTED = "unsupported"
    MODE = "mode"
    NO_ROOM = "no-room"
    NEVER_FITS = "never-fits"
    LIMIT = "limit"
    UNGUARANTEED = "unguaranteed"
    STATE_ELSEWHERE = "state-elsewhere"
    DOES_NOT_PAY = "does-not-pay"
    NOT_MEASURED = "not-measured"
    STALE = "stale"


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Something that is not done: for which job, by which rule, why, and what would change it."""

    job: JobId
    action: ActionClass
    rule: Rule
    reason: str
    would_change: str = ""
    step: Step | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Holds:
    """The job must still hold exactly these GPUs."""

    job: JobId
    gpus: tuple[GpuUuid, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """The job must still be waiting."""

    job: JobId


@dataclass(frozen=True, slots=True, kw_only=True)
class Free:
    """This much of each of these GPUs must be free, once the steps before are done."""

    gpus: tuple[GpuUuid, ...]
    share: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Unattended:
    """Nobody may sit at the job, and its owner must not have refused, when it is disturbed."""

    job: JobId


Requirement = Holds | Waiting | Free | Unattended


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """What the cluster will be once the plan is done, briefly: ``transition`` must come to the same."""

    free_gpus: int
    running: int
    waiting: int
    allocated_gpus: Mapping[ProjectName, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What should be done at ``as_of_ms``; ``fair_gpus`` is what each project deserved when it was made."""

    as_of_ms: int
    steps: tuple[Step, ...] = ()
    refused: tuple[Refusal, ...] = ()
    fair_gpus: Mapping[ProjectName, float] = field(default_factory=dict)
    outlook: Outlook | None = None
    advice: tuple[Advice | Abstain, ...] = ()


def requirements(step: Step, holds: tuple[GpuUuid, ...] = ()) -> tuple[Requirement, ...]:
    """What must be true just before the step is done; ``holds`` are the GPUs that its job has by then."""
    match step:
        case Start() | Resume():
            share = 1.0 if step.share is None else step.share
            return (Waiting(job=step.job), Free(gpus=step.gpus, share=share))
        case Resize():
            new = tuple(uuid for uuid in step.gpus if uuid not in holds)
            return (Holds(job=step.job, gpus=holds), Unattended(job=step.job), *_free(new, 1.0))
        case Move():
            new = tuple(uuid for uuid in step.gpus if uuid not in holds)
            return (Holds(job=step.job, gpus=holds), Unattended(job=step.job), *_free(new, step.share or 1.0))
        case Pause() | Requeue() | Terminate() | ReleaseCaches():
            return (Holds(job=step.job, gpus=holds), Unattended(job=step.job))
        case CapAtNextLaunch() | Tell() | Promise():
            return ()
        case _:
            assert_never(step)


def _free(gpus: tuple[GpuUuid, ...], share: float) -> tuple[Free, ...]:
    return (Free(gpus=gpus, share=share),) if gpus else ()

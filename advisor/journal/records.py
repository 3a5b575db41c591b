"""What was done and how it is undone: the rows of the journal as values, and the rules over them. Pure.

A deed is a step that somebody meant to do. Before it is done it is written down with how its job stood, so
that whoever reads the journal later can put it back. Ages are told by the machine's steady clock where the
deed is of this boot, so that a clock that is set forward or back neither frees the brake on how often
anything is disturbed nor jams it; a deed of another boot is told by the wall clock, and one from the future
is new.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import assert_never

from advisor.actions import (
    Action,
    Cancel,
    HoldForJob,
    Move,
    Notify,
    Pause,
    ReleaseMemory,
    Requeue,
    Resize,
    Resume,
    SetEnvAtRestart,
    Start,
    StartBackground,
)
from advisor.outcomes import Done, Failed, Late, Outcome, Stale, Unsupported
from advisor.state.model import ActionClass, ActionTaken, ClusterState, Phase
from collector.model import GpuUuid, JobId, NodeName

FALLOW = "fallow"
"""The actor of what is done without anybody's order; people are ``user NAME``."""


class Result(StrEnum):
    """What came of a deed. UNDONE: it was never carried out. UNKNOWN: handed to a person to find out."""

    DONE = "done"
    STALE = "stale"
    UNSUPPORTED = "unsupported"
    FAILED = "failed"
    UNDONE = "undone"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stood:
    """How a job stood before a deed.

    ``nodes`` are those of its ``gpus``; ``may_wait`` says that it can stop and go on.
    """

    phase: Phase
    gpus: tuple[GpuUuid, ...] = ()
    nodes: tuple[NodeName, ...] = ()
    share: float = 1.0
    next_launch: tuple[tuple[str, str], ...] = ()
    may_wait: bool = False
    user: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """An instant by both clocks: ``at_ms`` UTC, ``steady_ms`` since ``boot``, which names this start of the
    machine."""

    at_ms: int
    steady_ms: int | None = None
    boot: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionRecord:
    """A row of the journal. ``step`` is ``None`` for orders that are no step, and for a newer Fallow's verbs.

    ``undo`` is the shell command that puts it back, ``None`` when there is none: then ``no_undo`` says why.
    ``result`` is ``None`` while it is not known what came of it.
    """

    number: int
    begun: Moment
    plan: int | None
    job: JobId
    verb: str
    actor: str
    reason: str
    step: Action | None
    stood: Stood | None
    result: Result | None = None
    found: str | None = None
    settled_ms: int | None = None
    undo: str | None = None
    no_undo: str | None = None
    undone_by: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Undo:
    """The shell command that undoes a deed; ``None`` with the reason when there is none."""

    command: str | None
    why_not: str | None = None


def state_before(state: ClusterState, id: JobId) -> Stood | None:
    """How a job stands in a snapshot; ``None`` for one that is not in it."""
    job = state.jobs.get(id)
    if job is None:
        return None
    placement = state.placements.get(id)
    gpus = job.paused_on if placement is None else placement.gpus
    return Stood(
        phase=job.phase,
        gpus=gpus,
        nodes=tuple(dict.fromkeys(state.gpus[uuid].node for uuid in gpus if uuid in state.gpus)),
        share=job.share if placement is None else placement.share,
        next_launch=job.next_launch,
        may_wait=job.checkpointable,
        user=job.user,
    )


def undo_of(step: Action, before: Stood | None, number: int) -> Undo:
    """The command that undoes a step once it is done, for the job's owner or an operator to type."""
    match step:
        case Pause():
            return Undo(command=f"fallow resume {step.job}")
        case Resume():
            return Undo(command=f"fallow pause {step.job}")
        case Start() if before is not None and before.may_wait:
            return Undo(command=f"fallow pause {step.job}")
        case StartBackground():
            return Undo(command=f"fallow keep {step.beside} --alone")
        case Requeue() if step.action is ActionClass.BACKGROUND:
            return Undo(command=None, why_not="it starts again by itself where it may")
        case Start():
            return Undo(command=None, why_not="it cannot stop and go on: it can only be cancelled or finish")
        case Resize() if before is not None and before.gpus:
            return Undo(command=f"fallow resize {step.job} {len(before.gpus)}")
        case Move() | Requeue() if before is not None and before.gpus:
            return Undo(command=f"fallow undo {number}")
        case Resize() | Move() | Requeue():
            return Undo(command=None, why_not="it was not known which GPUs it had before")
        case SetEnvAtRestart():
            return Undo(command=f"fallow undo {number}")
        case ReleaseMemory() | Notify() | HoldForJob() | Cancel():
            return Undo(command=None, why_not=_for_good(step))
        case _:
            assert_never(step)


def reverse_of(step: Action, before: Stood | None, because: str) -> Action | None:
    """The step that puts a job back to how it stood; ``None`` where no step does."""
    match step:
        case Pause() if before is not None and before.gpus:
            return Resume(job=step.job, gpus=before.gpus, share=before.share, reason=because)
        case Requeue() if before is not None and before.phase is Phase.RUNNING and before.gpus:
            return Start(job=step.job, gpus=before.gpus, share=before.share, reason=because)
        case Start() if before is not None and before.may_wait:
            return Pause(job=step.job, reason=because)
        case Resume():
            return Pause(job=step.job, reason=because)
        case Resize() if before is not None and before.gpus:
            return Resize(job=step.job, gpus=before.gpus, reason=because)
        case Move() if before is not None and before.gpus:
            return Move(job=step.job, gpus=before.gpus, share=before.share, reason=because)
        case _:
            return None


def disturbs(step: Action) -> bool:
    """Whether a step counts against the bound on how often anything is disturbed."""
    ends_gaps = isinstance(step, Requeue) and step.action is ActionClass.BACKGROUND
    return isinstance(step, Pause | Requeue | Move | Cancel) and not ends_gaps


def remembered(state: ClusterState, deeds: Iterable[ActionRecord], now: Moment) -> ClusterState:
    """``state`` with what the journal knows of the recent past: for the brake, and each job's cooldown.

    Counted is what Fallow did or began, of its own or because somebody approved its plan: what came of it
    need not be known, and what was found stale or never carried out disturbed nobody. What people did to
    their jobs themselves is no disturbance by Fallow.
    """
    actions, jobs = [], dict(state.jobs)
    for deed in deeds:
        if not _disturbed(deed) or deed.step is None:
            continue
        at_ms = state.as_of_ms - age_ms(deed.begun, now)
        nodes = () if deed.stood is None else deed.stood.nodes
        actions.append(ActionTaken(at_ms=at_ms, job=deed.job, verb=deed.verb, nodes=nodes))
        job = jobs.get(deed.job)
        if job is not None and (job.acted_ms is None or job.acted_ms < at_ms):
            jobs[deed.job] = replace(job, acted_ms=at_ms)
    return replace(state, actions=tuple(actions), jobs=jobs)


def age_ms(begun: Moment, now: Moment) -> int:
    """How long ago something was, never negative: by the steady clock within one boot, else by the other."""
    same_boot = begun.boot is not None and begun.boot == now.boot
    if same_boot and begun.steady_ms is not None and now.steady_ms is not None:
        return max(0, now.steady_ms - begun.steady_ms)
    return max(0, now.at_ms - begun.at_ms)


def result_of(outcome: Outcome) -> tuple[Result | None, str]:
    """How an outcome is written down: its result (``None``: not known yet), and what was found."""
    match outcome:
        case Done():
            return Result.DONE, outcome.note
        case Stale():
            return Result.STALE, outcome.found
        case Unsupported():
            return Result.UNSUPPORTED, outcome.why
        case Failed():
            return Result.FAILED, outcome.found
        case Late():
            return None, outcome.found
        case _:
            assert_never(outcome)


def _for_good(step: ReleaseMemory | Notify | HoldForJob | Cancel) -> str:
    match step:
        case ReleaseMemory():
            return "nothing was lost: the job fills its caches again when it needs them"
        case Notify():
            return "what was said cannot be unsaid"
        case HoldForJob():
            return "nothing was done: promises are made anew with every plan"
        case Cancel():
            return "an end is final; submit the job again"
        case _:
            assert_never(step)


def _disturbed(deed: ActionRecord) -> bool:
    harmless = (Result.STALE, Result.UNSUPPORTED, Result.UNDONE)
    ours = deed.actor == FALLOW or deed.plan is not None
    return ours and deed.step is not None and disturbs(deed.step) and deed.result not in harmless

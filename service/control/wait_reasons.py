"""What each waiting job waits for, and its place in the queue, as the last cycle left it. Pure."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from advisor.actions import Resume, Start
from advisor.jobs import lifecycle
from advisor.jobs.lifecycle import in_flight
from advisor.jobs.model import JobRecord, JobState
from advisor.outcomes import Done
from advisor.planner.guard import action_of
from advisor.planner.plan import Abstain, Rule
from advisor.state.model import ActionClass, Telemetry
from collector.model import JobId

if TYPE_CHECKING:
    from advisor.cycle import Cycle

NOT_LOOKED = "the next look at the queue"
AWAY = "its launcher, which is not connected"
QUEUES = (ActionClass.SCHEDULE, ActionClass.BACKGROUND)
"""Classes of action by which a waiting job starts; background jobs wait in a queue of their own."""
HELD = "somebody who lets it go on: `fallow resume`"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """One waiting job: its place from 1, of how many, and what it waits for."""

    place: int
    of: int
    waits_for: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Reasons:
    """Why jobs wait, in the order in which the last cycle looked at them."""

    by_job: Mapping[JobId, str] = field(default_factory=dict)
    otherwise: str = NOT_LOOKED


def reasons_of(cycle: "Cycle") -> Reasons:
    """What a cycle says of those whom it did not start; what it refused first by its turn in the queue."""
    begun = {step.job for step, outcome in cycle.outcomes if isinstance(outcome, Done)}
    blind = _unmeasured(cycle)
    result: dict[JobId, str] = {
        job: giving_way(coming) for job, coming in cycle.state.begun.items() if coming and job not in begun
    }
    for refusal in (*cycle.ruling.refused, *cycle.plan.refused):
        if refusal.action in QUEUES and refusal.job not in begun:
            more = blind if refusal.rule in (Rule.NEVER_FITS, Rule.NO_ROOM) else ""
            result.setdefault(refusal.job, helped(refusal.reason + more, refusal.would_change))
    for each in cycle.plan.advice:
        if isinstance(each, Abstain) and each.action is ActionClass.BACKGROUND and each.job is not None:
            result.setdefault(each.job, helped(each.reason, each.would_change))
    for step in cycle.plan.steps:
        if isinstance(step, Start | Resume) and step.job not in begun:
            result.setdefault(step.job, f"its turn: {action_of(step).value} stopped before it")
    return Reasons(by_job=result)


def helped(reason: str, would_change: str) -> str:
    """Why a job waits, and what would have to happen."""
    return f"{reason}; it takes {would_change}" if would_change else reason


def giving_way(coming: Sequence[JobId]) -> str:
    """What is said to a job for which others are giving their GPUs back just now."""
    return f"{', '.join(coming)} to give way to it: told to, and given the time that saving takes"


def waits(
    entries: Iterable[JobRecord], reasons: Reasons, absent: frozenset[JobId] = frozenset()
) -> dict[JobId, Wait]:
    """Every job that stands in the queue: those looked at in their turn, then the others by arrival."""
    waiting = {entry.id: entry for entry in entries if stands(entry)}
    turn = {job: at for at, job in enumerate(reasons.by_job)}
    order = sorted(waiting.values(), key=lambda each: _key(each, turn, absent))
    count = len(order)
    return {
        entry.id: Wait(place=at, of=count, waits_for=_waits_for(entry, reasons, absent))
        for at, entry in enumerate(order, start=1)
    }


def in_line(
    reasons: Mapping[JobId, Wait], entries: Mapping[JobId, JobRecord]
) -> Iterator[tuple[JobRecord, Wait]]:
    """The queue as the last cycle left it, then those who came since; no further than it is read."""
    last = 0
    for job, wait in reasons.items():
        entry = entries.get(job)
        if entry is not None and stands(entry):
            last = wait.place
            yield entry, wait
    new = [entry for job, entry in entries.items() if job not in reasons and stands(entry)]
    of = last + len(new)
    for at, entry in enumerate(new, start=last + 1):
        yield entry, Wait(place=at, of=of, waits_for=entry.message or NOT_LOOKED)


def wait_of(
    entry: JobRecord, reasons: Mapping[JobId, Wait], entries: Mapping[JobId, JobRecord]
) -> Wait | None:
    """Where an entry stands in that queue; ``None`` when it does not wait."""
    if not stands(entry):
        return None
    result = reasons.get(entry.id)
    return result or next((wait for each, wait in in_line(reasons, entries) if each.id == entry.id), None)


def _unmeasured(cycle: "Cycle") -> str:
    """What to add where there would be room, were it known what the GPUs do."""
    if not cycle.state.gpus:
        return "; no GPU is measured yet"
    blind = sum(1 for gpu in cycle.state.gpus.values() if gpu.telemetry is Telemetry.UNKNOWN)
    return f"; {blind} GPUs are not measured just now, and are given to nobody" if blind else ""


def stands(entry: JobRecord) -> bool:
    """Whether it stands in the queue."""
    return entry.state in (JobState.PENDING, JobState.PAUSED) and not in_flight(entry)


def never_began(entry: JobRecord) -> bool:
    """Whether it waits for its first start: what has begun goes on, whoever its project's members are."""
    return entry.state is JobState.PENDING and entry.started_ms is None


def _key(
    entry: JobRecord, turn: Mapping[JobId, int], absent: frozenset[JobId]
) -> tuple[bool, bool, int, int, int]:
    at = turn.get(entry.id)
    return (
        entry.held_by_user,
        entry.id in absent,
        len(turn) if at is None else at,
        -entry.submission.priority,
        entry.submitted_ms,
    )


def _waits_for(entry: JobRecord, reasons: Reasons, absent: frozenset[JobId]) -> str:
    if entry.held_by_user:
        return HELD if entry.message in ("", lifecycle.HELD_BY_OWNER) else f"{HELD} ({entry.message})"
    if entry.id in absent:
        return AWAY
    return reasons.by_job.get(entry.id) or entry.message or reasons.otherwise

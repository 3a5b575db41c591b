"""What a look at one of Slurm's jobs says of what was asked about it. Pure.

Slurm's own answer to a command is not believed: a controller that is killed just after it forgets. What
counts is the state of the same run, or of its next one, as it is seen.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from advisor.jobs.manager_acts import ManagedRun, ManagerAct
from collector.managers.model import HOLDING, Grant, JobState, ManagedJob

UNHEARD_MS = 60_000
"""How long a run may go on as before until what was asked counts as not heard: Slurm begins within 0.2 s
(22.05.8, two busy cores), and a site's TERM to KILL, 30 s by default, is in ENDING."""


class OutcomeSeen(StrEnum):
    """What is seen: the outcome asked for, another one, or nothing that is final."""

    DONE = "done"
    FAILED = "failed"
    WAITS = "waits"


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """What was seen, and the sentence for people."""

    outcome: OutcomeSeen
    found: str


def run_of(job: ManagedJob) -> ManagedRun:
    """What tells this run from every other of its number."""
    return ManagedRun(
        cluster=job.key.cluster,
        number=job.key.id,
        user=job.holder.user,
        name=job.holder.name,
        submitted_ms=job.key.submitted_ms,
        restarts=job.key.restarts,
    )


def given_text(given: Sequence[Grant]) -> str:
    """Which GPUs Slurm chose, as the end of a sentence; empty where it told none."""
    places = [
        f"{each.node} (GPU {', '.join(map(str, each.indices))})" if each.indices else f"{each.node}"
        for each in given
    ]
    return f" on {' and '.join(places)}" if places else ""


def observation(
    act: ManagerAct, job: ManagedJob | None, now_ms: int, refused: str | None, *, is_forgotten: bool = False
) -> Observation:
    """What came of ``act``, as the job of its number is now; ``refused``: what Slurm answered against it.

    ``is_forgotten``: the controller that was asked is gone, and what it had not kept never comes.
    """
    if job is None:
        return _failed(f"Slurm knows no job {act.asked.run.number} any more")
    before, now = act.asked.run, run_of(job)
    if _is_another(before, now):
        return _failed(f"{before.number} is another job's number now; nothing is done to that one")
    is_late = is_forgotten or refused is not None or now_ms - act.begun_ms > UNHEARD_MS
    return (_pause if act.asked.verb == "pause" else _resume)(before, job, refused, is_late)


def _pause(before: ManagedRun, job: ManagedJob, refused: str | None, is_late: bool) -> Observation:
    is_next = job.key.restarts > before.restarts
    if job.state is JobState.ENDING:
        return _waits("it is ending what it did, and is put back into the queue then")
    if job.state is JobState.ENDED:
        return _failed(f"it ended as {job.state_name or 'nobody saw what'}, and was not held")
    if job.is_held and is_next:
        return Observation(
            outcome=OutcomeSeen.DONE, found="it is back in Slurm's queue under its number, and held"
        )
    if job.state is JobState.PENDING:
        return _failed("it is back in Slurm's queue and not held, so Slurm starts it again")
    if is_next:
        return _failed("it was put back into Slurm's queue, and runs again already")
    if not is_late:
        return _waits("Slurm has not begun to take it off its GPUs")
    return _failed(f"it runs as before{f': {refused}' if refused else ''}")


def _resume(before: ManagedRun, job: ManagedJob, refused: str | None, is_late: bool) -> Observation:
    if job.state in HOLDING or job.state is JobState.ENDED:
        return Observation(
            outcome=OutcomeSeen.DONE, found="it runs again" if job.state in HOLDING else "it ran again"
        )
    if not job.is_held:
        return Observation(
            outcome=OutcomeSeen.DONE, found="it is released, and Slurm starts it when it is its turn"
        )
    if not is_late:
        return _waits("Slurm holds it still")
    return _failed(f"Slurm holds it still{f': {refused}' if refused else ''}")


def _is_another(before: ManagedRun, now: ManagedRun) -> bool:
    """A run that was put back has a later time of submission, and was restarted once more than before."""
    if (before.cluster, before.user, before.name) != (now.cluster, now.user, now.name):
        return True
    if now.restarts > before.restarts:
        return now.submitted_ms < before.submitted_ms
    return (before.submitted_ms, before.restarts) != (now.submitted_ms, now.restarts)


def _failed(reason: str) -> Observation:
    return Observation(outcome=OutcomeSeen.FAILED, found=reason)


def _waits(reason: str) -> Observation:
    return Observation(outcome=OutcomeSeen.WAITS, found=reason)

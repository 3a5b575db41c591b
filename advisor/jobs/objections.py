"""What a job cannot be told: never, because of what it is, or not now, because of how it stands. Pure."""

from typing import assert_never

from advisor.jobs.model import (
    CancelCommand,
    Command,
    Elasticity,
    JobRecord,
    JobState,
    NotifyCommand,
    PauseCommand,
    ReallocateCommand,
    ReleaseMemoryCommand,
    RequeueCommand,
    ResumeCommand,
    StartCommand,
)

PLACING = (StartCommand, ResumeCommand, ReallocateCommand)
"""Directives that give a job devices."""


class Refused(ValueError):
    """An entry cannot take this turn; the message says what it was to do and how it stands."""


class Unable(Refused):
    """The job is not made for it: nothing that comes later changes that."""


def unable(entry: JobRecord, command: Command, what: str) -> Refused | None:
    """Why a job of this kind can never be given the directive; ``None``: it can."""
    submission = entry.submission
    if submission.background and isinstance(command, PauseCommand | ReallocateCommand | ResumeCommand):
        return Unable(f"{what}: a background job has no GPUs of its own; it leaves by being requeued")
    if submission.background and isinstance(command, RequeueCommand):
        return None  # what it had not saved it does again: so it was submitted
    if submission.background is (getattr(command, "beside", None) is None) and isinstance(
        command, StartCommand
    ):
        return Unable(f"{what}: a background job starts in others' idle gaps, and no other job does")
    if submission.mobility is Elasticity.RIGID and isinstance(
        command, PauseCommand | RequeueCommand | ReallocateCommand | ResumeCommand
    ):
        return Unable(f"{what}: the job can neither be resized nor checkpointed; it only runs to its end")
    if not isinstance(command, PLACING):
        return None
    count = len(command.gpus)
    if len(set(command.gpus)) != count or not submission.min_gpus <= count <= submission.max_gpus:
        return Unable(
            f"{what}: it runs on {submission.min_gpus} to {submission.max_gpus} GPUs, each named once, "
            f"not on {count}"
        )
    if not 0 < command.share <= 1:
        return Unable(f"{what}: a share is above 0 and at most 1, not {command.share:g}")
    return None


def misplaced(entry: JobRecord, command: Command, what: str) -> Refused | None:
    """Why the job cannot be given it as it stands now; ``None``: it can."""
    match command:
        case StartCommand():
            states: tuple[JobState, ...] = (JobState.PENDING,)
        case ResumeCommand():
            states = (JobState.PAUSED,)
        case PauseCommand() | ReallocateCommand() | ReleaseMemoryCommand():
            states = (JobState.RUNNING,)
        case RequeueCommand():
            states = (JobState.RUNNING, JobState.PAUSED)
        case NotifyCommand() | CancelCommand():
            return None
        case _:
            assert_never(command)
    if entry.state in states:
        return None
    return Refused(f"{what}: the job is {entry.state.value}, and must be {' or '.join(states)}")

"""What happens to an entry of the register: pure transitions, the whole life of a submitted job.

Nobody else changes an entry. A directive is given once and is *in flight* until its launcher acknowledges it;
meanwhile the job holds what it had and what it is to get (``leased``), so that a GPU is nobody else's before
the job's own word that it let go. Only ``CancelCommand`` may follow a directive in flight.
"""

from dataclasses import replace
from typing import assert_never

from advisor.jobs.model import (
    CancelCommand,
    Command,
    ExitReason,
    JobRecord,
    JobState,
    NotifyCommand,
    PauseCommand,
    ReallocateCommand,
    ReleaseMemoryCommand,
    Report,
    RequeueCommand,
    ResumeCommand,
    StartCommand,
    Submission,
)
from advisor.jobs.objections import PLACING as PLACING  # noqa: PLC0414
from advisor.jobs.objections import Refused as Refused  # noqa: PLC0414
from advisor.jobs.objections import Unable as Unable  # noqa: PLC0414
from advisor.jobs.objections import misplaced, unable
from advisor.tags import verb_of
from collector.model import GpuUuid, JobId

HELD_BY_OWNER = "held by its owner"


def submitted(job: JobId, submission: Submission, now_ms: int) -> JobRecord:
    """A new entry, waiting. Its launcher counts as heard: it has just asked."""
    return JobRecord(
        id=job, submission=submission, submitted_ms=now_ms, last_seen_ms=now_ms, share=submission.share
    )


def in_flight(entry: JobRecord) -> bool:
    """Whether its newest directive is still being carried out."""
    return (
        entry.state is not JobState.ENDED
        and entry.directive is not None
        and entry.directive.number > entry.acknowledged
    )


def lapsing(entry: JobRecord) -> bool:
    """Whether its launcher is lost and its workers hold its GPUs still."""
    return entry.exit_reason is not None and entry.state is not JobState.ENDED


def leased(entry: JobRecord) -> tuple[GpuUuid, ...]:
    """Every GPU that nobody else may have: those it holds and those that it is about to get."""
    if in_flight(entry) and isinstance(entry.directive, ReallocateCommand):
        coming = tuple(uuid for uuid in entry.directive.gpus if uuid not in entry.gpus)
        return entry.gpus + coming
    return entry.gpus


def leased_shares(entry: JobRecord) -> dict[GpuUuid, float]:
    """The share of each leased GPU that is taken: the old one where it leaves, the larger where it stays."""
    if not (in_flight(entry) and isinstance(entry.directive, ReallocateCommand)):
        return dict.fromkeys(entry.gpus, entry.share)
    coming = dict.fromkeys(entry.directive.gpus, entry.directive.share)
    shares = {uuid: max(entry.share, coming.get(uuid, 0.0)) for uuid in entry.gpus}
    return coming | shares


def leased_share(entry: JobRecord) -> float:
    """One share for all leased GPUs: the smallest while it moves, so that none looks given away twice."""
    return min(leased_shares(entry).values(), default=entry.share)


def objection(entry: JobRecord, command: Command) -> Refused | None:
    """Why the entry cannot be given this directive now; ``None`` when it can."""
    what = f"{verb_of(command)} {entry.id}"
    if entry.state is JobState.ENDED:
        return Refused(f"{what}: the job has ended")
    if lapsing(entry):
        return Refused(f"{what}: its launcher is gone; only its processes are awaited")
    if in_flight(entry) and (
        isinstance(entry.directive, CancelCommand) or not isinstance(command, CancelCommand)
    ):
        doing = verb_of(entry.directive)
        return Refused(f"{what}: its launcher has not acknowledged {doing} yet; wait for that")
    newest = newest_number(entry)
    if command.number <= newest:
        return Refused(f"{what}: number {command.number} is not above {newest}, the newest one given")
    return unable(entry, command, what) or misplaced(entry, command, what)


def with_command(entry: JobRecord, command: Command, now_ms: int) -> JobRecord:
    """The entry with a directive in flight. Raises ``Refused`` (``Unable``: it never can)."""
    refused = objection(entry, command)
    if refused is not None:
        raise refused
    match command:
        case StartCommand(beside=str() as beside):
            return replace(
                entry,
                state=JobState.STARTING,
                beside=beside,
                beside_gpu=command.gpus[0],
                promised_ms=None,
                held_by_user=False,
                message=command.reason,
                directive=command,
            )
        case StartCommand() | ResumeCommand():
            placed = replace(
                entry,
                state=JobState.STARTING,
                gpus=command.gpus,
                share=command.share,
                sharing=command.sharing,
                counted_ms=now_ms,
                leased_ms=now_ms,
                placed_ms=now_ms,
                promised_ms=None,
                promised_gpus=(),
                held_by_user=False,
                message=command.reason,
            )
            return replace(placed, directive=command)
        case CancelCommand() if not leased(entry) and entry.beside is None:
            return _ended(replace(entry, directive=command), ExitReason.CANCELLED, now_ms, command.reason)
        case CancelCommand():
            return replace(entry, gpus=leased(entry), share=leased_share(entry), directive=command)
        case (
            ReallocateCommand() | PauseCommand() | RequeueCommand() | ReleaseMemoryCommand() | NotifyCommand()
        ):
            return replace(entry, directive=command)
        case _:
            assert_never(command)


def with_report(entry: JobRecord, report: Report, now_ms: int) -> JobRecord:
    """The entry after its launcher's word: an acknowledgement, an end, or a mere sign of life.

    A number that was never given to it acknowledges nothing (``claims``).
    """
    if entry.state is JobState.ENDED:
        return entry
    entry, command = with_sign_of_life(entry, report, now_ms), entry.directive
    if command is not None and in_flight(entry) and report.acknowledged == command.number:
        entry = _acknowledged(replace(entry, acknowledged=command.number), command, report, now_ms)
    elif entry.acknowledged < report.acknowledged < newest_number(entry):
        entry = replace(entry, acknowledged=report.acknowledged)
    if report.exit_reason is not None and entry.state is not JobState.ENDED:
        entry = _ended(entry, report.exit_reason, now_ms, report.failed or "", report.exit_code)
    return entry


def with_sign_of_life(entry: JobRecord, report: Report, now_ms: int) -> JobRecord:
    """The entry with its launcher's sign of life, and no more of its word than that."""
    touched = entry.state is JobState.PAUSED and entry.paused_for_idling and report.attached is True
    return replace(
        entry,
        paused_for_idling=entry.paused_for_idling and not touched,
        acted_ms=None if touched else entry.acted_ms,
        launcher=report.launcher,
        report=report,
        last_seen_ms=now_ms,
        exit_reason=None,
        message="" if lapsing(entry) else entry.message,
    )


def newest_number(entry: JobRecord) -> int:
    """The newest number of a directive that the register knows of."""
    return max(entry.acknowledged, 0 if entry.directive is None else entry.directive.number)


def silent(entry: JobRecord, now_ms: int, why: str) -> JobRecord:
    """Its launcher is lost: ended when it holds nothing, else its GPUs stay its own until ``vacated``."""
    if entry.state is JobState.ENDED:
        return entry
    if not leased(entry) and entry.beside is None:
        return _ended(entry, ExitReason.LOST, now_ms, why)
    return replace(entry, exit_reason=ExitReason.LOST, message=why)


def unlaunched(entry: JobRecord, now_ms: int) -> JobRecord:
    """A job that has just been told to stop is over where no launcher ever spoke: nothing of it can run."""
    command = entry.directive
    if entry.launcher is not None or entry.state is JobState.ENDED or not isinstance(command, CancelCommand):
        return entry
    return _ended(entry, ExitReason.CANCELLED, now_ms, command.reason)


def forced(entry: JobRecord, command: CancelCommand, now_ms: int) -> JobRecord:
    """The entry, ended by an operator whatever its launcher says or does; it holds nothing any more.

    Raises ``Refused`` where it has ended already.
    """
    if entry.state is JobState.ENDED:
        raise Refused(f"cancel {entry.id}: the job has ended")
    return _ended(replace(entry, directive=command), ExitReason.CANCELLED, now_ms, command.reason)


def vacated(entry: JobRecord, now_ms: int) -> JobRecord:
    """No process of a job whose launcher is lost is left: what it held is free."""
    return _ended(entry, ExitReason.LOST, now_ms, entry.message) if lapsing(entry) else entry


def on_hold(entry: JobRecord, reason: str = HELD_BY_OWNER) -> JobRecord:
    """A waiting job is kept from being started, until its owner or an operator lets it go on."""
    if entry.state not in (JobState.PENDING, JobState.PAUSED):
        raise Refused(f"hold {entry.id}: the job is {entry.state.value}, and must be waiting")
    return replace(entry, held_by_user=True, message=reason)


def let_go(entry: JobRecord) -> JobRecord:
    """A waiting job may start again, and need not rest first."""
    if entry.state not in (JobState.PENDING, JobState.PAUSED):
        raise Refused(f"resume {entry.id}: the job is {entry.state.value}, and must be waiting or paused")
    return replace(entry, held_by_user=False, paused_for_idling=False, acted_ms=None, failed=None, message="")


def attained_gpu_s(entry: JobRecord, now_ms: int) -> float:
    """GPU-seconds that it has held so far."""
    if entry.counted_ms is None:
        return entry.attained_gpu_s
    return entry.attained_gpu_s + len(entry.gpus) * entry.share * max(0, now_ms - entry.counted_ms) / 1000


def _acknowledged(entry: JobRecord, command: Command, report: Report, now_ms: int) -> JobRecord:
    """The entry after its launcher has carried a directive out, or has said why it could not."""
    entry = replace(entry, failed=report.failed)
    if report.failed is not None:
        return _unworked(entry, command, report, now_ms)
    match command:
        case StartCommand() | ResumeCommand():
            return replace(
                entry,
                state=JobState.RUNNING,
                started_ms=now_ms,
                paused_on=(),
                next_launch=(),
                paused_for_idling=False,
                message="" if entry.beside is None else command.reason,
            )
        case ReallocateCommand():
            return _reshaped(entry, command, now_ms)
        case PauseCommand():
            emptied = _emptied(entry, now_ms)
            return replace(
                emptied,
                state=JobState.PAUSED,
                paused_on=entry.gpus,
                acted_ms=now_ms,
                paused_for_idling=command.for_idling,
                message=command.reason,
            )
        case RequeueCommand():
            emptied = _emptied(entry, now_ms)
            return replace(
                emptied,
                state=JobState.PENDING,
                paused_on=(),
                acted_ms=now_ms,
                requeues=entry.requeues + 1,
                message=command.reason,
            )
        case NotifyCommand():
            first = entry.notified_ms if entry.notified_ms is not None else now_ms
            return replace(entry, notified_ms=first, notifications=entry.notifications + 1)
        case ReleaseMemoryCommand():
            return entry
        case CancelCommand():
            return _ended(
                entry, report.exit_reason or ExitReason.CANCELLED, now_ms, command.reason, report.exit_code
            )
        case _:
            assert_never(command)


def _unworked(entry: JobRecord, command: Command, report: Report, now_ms: int) -> JobRecord:
    """What was to be done could not be; the cooldown runs all the same, so that it isn't tried at once."""
    reason = f"{verb_of(command)} did not work: {report.failed}"
    match command:
        case StartCommand():
            return replace(_emptied(entry, now_ms), state=JobState.PENDING, acted_ms=now_ms, message=reason)
        case ResumeCommand():
            return replace(_emptied(entry, now_ms), state=JobState.PAUSED, acted_ms=now_ms, message=reason)
        case ReallocateCommand():
            had = set(entry.gpus) | set(command.gpus)
            gpus = report.gpus if report.gpus and set(report.gpus) <= had else entry.gpus
            counted = replace(entry, attained_gpu_s=attained_gpu_s(entry, now_ms), counted_ms=now_ms)
            return replace(counted, gpus=gpus, resized_ms=now_ms, message=reason)
        case PauseCommand():
            return replace(entry, acted_ms=now_ms, held_by_user=False, message=reason)
        case RequeueCommand() | CancelCommand() | ReleaseMemoryCommand() | NotifyCommand():
            acted_ms = now_ms if isinstance(command, RequeueCommand) else entry.acted_ms
            return replace(entry, acted_ms=acted_ms, message=reason)
        case _:
            assert_never(command)


def _reshaped(entry: JobRecord, command: ReallocateCommand, now_ms: int) -> JobRecord:
    resized = len(command.gpus) != len(entry.gpus)
    return replace(
        entry,
        attained_gpu_s=attained_gpu_s(entry, now_ms),
        counted_ms=now_ms,
        placed_ms=now_ms,
        gpus=command.gpus,
        share=command.share,
        sharing=command.sharing,
        resized_ms=now_ms if resized else entry.resized_ms,
        acted_ms=entry.acted_ms if resized else now_ms,
        next_launch=() if command.settings else entry.next_launch,
        message="",
    )


def _emptied(entry: JobRecord, now_ms: int) -> JobRecord:
    return replace(
        entry,
        attained_gpu_s=attained_gpu_s(entry, now_ms),
        counted_ms=None,
        leased_ms=None,
        placed_ms=None,
        gpus=(),
        beside=None,
        beside_gpu=None,
        started_ms=None,
        share=entry.submission.share,
    )


def _ended(
    entry: JobRecord, ending: ExitReason, now_ms: int, reason: str, exit_code: int | None = None
) -> JobRecord:
    return replace(
        _emptied(entry, now_ms),
        state=JobState.ENDED,
        started_ms=entry.started_ms,
        exit_reason=ending,
        ended_ms=now_ms,
        exit_code=exit_code,
        promised_ms=None,
        promised_gpus=(),
        message=reason,
    )

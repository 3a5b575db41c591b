"""Carries steps out on jobs that were submitted: a directive to the job's launcher, and waiting for its word.

A directive bears the number of its intent and is given once; what its launcher does not acknowledge in time
is not given again. New devices are granted by the register, which knows every holder. Whoever orders (the
acting loop, a person) goes through the same two functions: ``give`` and ``outcome``.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
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
from advisor.engines.effects import Effect, EffectKind, Preview, of_command
from advisor.jobs.background import names_page_of_guest
from advisor.jobs.command_outcomes import outcome
from advisor.jobs.gpu_sharing import Terms
from advisor.jobs.job_store import Register, Turn, UnknownJob
from advisor.jobs.lifecycle import PLACING, Refused, Unable, newest_number, objection
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
from advisor.outcomes import SLICE_S, Done, Interrupted, Late, Outcome, Stale, Unsupported
from advisor.state.model import ActionClass
from advisor.tags import verb_of
from collector.clock import Clock
from collector.model import GpuUuid, JobId

Agree = Callable[[JobRecord, tuple[GpuUuid, ...], float], Terms]
"""How an entry would hold a share of each of these GPUs: what keeps sharers apart, and the environment."""


Claim = Callable[[tuple[GpuUuid, ...]], str | None]
"""Take GPUs for this service, before any is leased; why they cannot be had."""

MOST_WAIT_S = 900.0
"""A job says itself how long its grace is, up to a day, and who waits for it holds up what was approved next.
This is longer than any that is usual; what takes more is found out by the journal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long a launcher may take, in seconds: to answer, and on top to start or stop workers."""

    answer_s: float = 10.0
    reshape_s: float = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SentCommand:
    """A directive on its way: its number, and how long its launcher may take."""

    job: JobId
    number: int
    timeout_s: float


class LocalEngine:
    """The engine of submitted jobs; safe from any thread. ``interrupt`` ends every wait."""

    def __init__(
        self,
        register: Register,
        clock: Clock,
        agree: Agree,
        patience: Patience | None = None,
        claim: Claim = lambda gpus: None,
    ) -> None:
        self._register, self._clock, self._agree, self._claim = register, clock, agree, claim
        self._patience = patience or Patience()
        self._stopping = threading.Event()

    def interrupt(self) -> None:
        """The service stops: every wait, now and later, ends with ``Interrupted``."""
        self._stopping.set()

    def do(self, step: Action, intent: int = 0) -> Outcome:
        """Give the step's directive and wait for its launcher. Raises ``Interrupted``."""
        ongoing = self.give(step, intent)
        return self.wait(ongoing, MOST_WAIT_S) if isinstance(ongoing, SentCommand) else ongoing

    def give(self, step: Action, intent: int = 0, also: Turn | None = None) -> SentCommand | Outcome:
        """Give the step's directive; its outcome at once where none is needed. Blocks for one commit.

        ``also`` changes the entry further, in the same commit.
        """
        try:
            entry = self._register.entry(step.job)
            order = self._order(step, intent, entry)
            if isinstance(order, Unsupported):
                return order
            if callable(order):
                self._register.change(step.job, order)
                return Done()
            takes = isinstance(order, PLACING) and not isinstance(step, StartBackground)
            claimed = self._claim(order.gpus) if takes else None  # type: ignore[union-attr]
            if claimed is not None:
                return Stale(found=claimed)
            after = self._register.give(step.job, order, also)
        except Unable as error:
            return Unsupported(why=str(error))
        except (Refused, UnknownJob) as error:
            return Stale(found=str(error))
        ongoing = SentCommand(job=step.job, number=order.number, timeout_s=self._timeout_s(order, entry))
        return outcome(after, order.number) or ongoing

    def wait(self, ongoing: SentCommand, at_most_s: float | None = None) -> Outcome:
        """What came of a directive, or ``Late`` when nothing was heard in time. Raises ``Interrupted``."""
        rest_s = ongoing.timeout_s if at_most_s is None else min(at_most_s, ongoing.timeout_s)
        until_ms = self._clock.monotonic_ms() + rest_s * 1000
        while True:
            entry = self._register.wait(
                ongoing.job, lambda each: outcome(each, ongoing.number) is not None, min(SLICE_S, rest_s)
            )
            result = outcome(entry, ongoing.number)
            if result is not None:
                return result
            if self._stopping.is_set():
                raise Interrupted
            rest_s = (until_ms - self._clock.monotonic_ms()) / 1000
            if rest_s <= 0:
                return Late(
                    found=f"the launcher of {ongoing.job} has not acknowledged it yet; until it does, "
                    "or is lost, the job keeps what it had and what it was to get"
                )

    def found(self, job: JobId, intent: int) -> Outcome | None:
        """What its launcher says of the directive of that number; nothing is done. ``None``: nothing yet, or
        the register has no such job."""
        try:
            return outcome(self._register.entry(job), intent)
        except UnknownJob:
            return None

    def preview(self, step: Action) -> Preview:
        """What giving the step would lead to; nothing is given, and no GPU is taken for this service.

        Whether the GPUs are free is not asked: a step before it in the same plan may free them.
        """
        try:
            entry = self._register.entry(step.job)
            order = self._order(step, newest_number(entry) + 1, entry)
            if callable(order):
                order(entry)
                return (Effect(kind=EffectKind.RECORD, text=f"{verb_of(step)}, kept with the job's record"),)
        except (Refused, UnknownJob) as error:
            return Stale(found=str(error))
        if isinstance(order, Unsupported):
            return order
        refused = objection(entry, order)
        if refused is None:
            return of_command(order, entry, self._timeout_s(order, entry))
        return Unsupported(why=str(refused)) if isinstance(refused, Unable) else Stale(found=str(refused))

    def _order(self, step: Action, number: int, entry: JobRecord) -> Command | Turn | Unsupported:
        match step:
            case Start() | StartBackground():
                return self._begin(step, number, entry)
            case Resume():
                return self._continue(step, number, entry)
            case Resize():
                return self._reshape(entry, number, step.gpus, entry.share, step.reason)
            case Move():
                share = entry.share if step.share is None else step.share
                return self._reshape(entry, number, step.gpus, share, step.reason)
            case Pause():
                idling = step.action is ActionClass.RECLAIM and step.for_job is None
                return PauseCommand(number=number, reason=step.reason, for_idling=idling)
            case Requeue():
                return RequeueCommand(number=number, reason=step.reason)
            case ReleaseMemory():
                return ReleaseMemoryCommand(number=number, reason=step.reason)
            case Notify():
                return NotifyCommand(number=number, message=step.message)
            case Cancel():
                return CancelCommand(number=number, reason=step.reason)
            case SetEnvAtRestart():
                return lambda each: replace(each, next_launch=_merged(each.next_launch, step.settings))
            case HoldForJob():
                return lambda each: _promised(each, step)
            case _:
                assert_never(step)

    def _begin(self, step: Start | StartBackground, number: int, entry: JobRecord) -> StartCommand:
        if isinstance(step, StartBackground):
            return self._begin_beside(step, number, entry)
        terms = self._agree(entry, step.gpus, step.share)
        return StartCommand(
            number=number,
            gpus=step.gpus,
            share=step.share,
            sharing=terms.sharing,
            memory_bytes=terms.memory_bytes,
            settings=_merged(terms.settings, entry.next_launch),
            reason=step.reason,
        )

    def _begin_beside(self, step: StartBackground, number: int, entry: JobRecord) -> StartCommand:
        """What a background job gets: no lease, and the memory that it asked for as its limit.

        Raises ``Refused`` where the other job's launcher has no page for it, or none of its own.
        """
        host, gpu = self._register.entry(step.beside), step.gpus[0]
        gaps = () if host.report is None else host.report.idle_gaps
        page = next((each.page for each in gaps if each.gpu == gpu), "")
        if not page or gpu not in host.gpus:
            raise Refused(f"start-background {step.job}: {step.beside} tells of no idle gaps on {gpu} now")
        if names_page_of_guest(page, host, entry):
            raise Refused(f"start-background {step.job}: {step.beside} tells of a page that is not its own")
        terms = self._agree(entry, step.gpus, 1.0)
        return StartCommand(
            number=number,
            gpus=step.gpus,
            sharing=terms.sharing,
            memory_bytes=entry.submission.memory_bytes,
            settings=_merged(terms.settings, entry.next_launch),
            reason=step.reason,
            beside=step.beside,
            page=page,
        )

    def _continue(self, step: Resume, number: int, entry: JobRecord) -> ResumeCommand:
        share = entry.submission.share if step.share is None else step.share
        terms = self._agree(entry, step.gpus, share)
        return ResumeCommand(
            number=number,
            gpus=step.gpus,
            share=share,
            sharing=terms.sharing,
            memory_bytes=terms.memory_bytes,
            settings=_merged(terms.settings, entry.next_launch),
            reason=step.reason,
        )

    def _reshape(
        self, entry: JobRecord, number: int, gpus: tuple[GpuUuid, ...], share: float, reason: str
    ) -> ReallocateCommand:
        terms = self._agree(entry, gpus, share)
        return ReallocateCommand(
            number=number,
            gpus=gpus,
            share=share,
            sharing=terms.sharing,
            memory_bytes=terms.memory_bytes,
            settings=_merged(terms.settings, entry.next_launch),
            reason=reason,
        )

    def _timeout_s(self, command: Command, entry: JobRecord) -> float:
        patience, submission = self._patience, entry.submission
        match command:
            case StartCommand() | ReleaseMemoryCommand() | NotifyCommand():
                return patience.answer_s
            case PauseCommand() | RequeueCommand() | CancelCommand():
                return patience.answer_s + submission.grace_s
            case ReallocateCommand() | ResumeCommand():
                grace_s = 0.0 if submission.mobility is Elasticity.ELASTIC else submission.grace_s
                return patience.reshape_s + grace_s
            case _:
                assert_never(command)


def _promised(entry: JobRecord, step: HoldForJob) -> JobRecord:
    if entry.state not in (JobState.PENDING, JobState.PAUSED):
        raise Refused(f"HoldForJob {entry.id}: the job is {entry.state.value}, and waits no more")
    return replace(entry, promised_ms=step.start_ms if step.gpus else None, promised_gpus=step.gpus)


def _merged(
    settings: tuple[tuple[str, str], ...], over: tuple[tuple[str, str], ...]
) -> tuple[tuple[str, str], ...]:
    """The settings, with those of ``over`` in place of their own."""
    return tuple(sorted({**dict(settings), **dict(over)}.items()))

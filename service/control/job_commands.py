"""What people and launchers order and ask: one method a route, plain rows as answers.

Here it is decided who may order what: everybody sees everything, a user acts on own jobs, an operator on all.
What is done about an order is the register's and the engine's; plans, the journal and the switch are
``service.control.approvals``.
"""

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING

from advisor.actions import Cancel, Pause, Resize, Resume
from advisor.jobs import lifecycle
from advisor.jobs.job_store import UnknownJob as NoEntry
from advisor.jobs.lifecycle import Refused, in_flight
from advisor.jobs.model import Command, ExitReason, JobRecord, JobState, Report, Submission
from advisor.jobs.repository import read_directives, read_leases
from advisor.outcomes import Done, Outcome, Stale
from advisor.serialize import to_tree
from advisor.state.model import ActionClass
from advisor.tags import verb_of
from collector.model import JobId
from service.control.admission import Admission
from service.control.command_stream import follow, is_meant, is_news
from service.control.engines import engine_rows
from service.control.errors import BadOrder, JobEnded, NotAllowed, UnknownJob, WrongState
from service.control.interface import Caller, Listed, OwnWord, Role, Which
from service.control.rows import entry_row, explained, fits, lease_row, queue_row, unfit
from service.control.wait_reasons import in_line, never_began, stands, wait_of
from service.schemas import control
from service.schemas.answer import Row, to_row

if TYPE_CHECKING:
    from advisor.cycle import Journal
    from advisor.engines.launched import Agree
    from advisor.jobs.job_store import Register, Turn
    from advisor.state.model import ClusterState
    from collector.clock import Clock
    from collector.store.database import Store
    from service.control.approvals import Papers
    from service.control.background_jobs import BackgroundJobs
    from service.control.consent import Consents
    from service.control.external_jobs import ExternalJobOrders
    from service.control.forced_cancel import ForcedEnd
    from service.control.free_gpus import FreeGpus
    from service.control.keep import Keeping
    from service.control.launcher_reports import LauncherReports
    from service.control.loop import ActingLoop
    from service.control.owner_commands import Orders
    from service.control.rejected_reports import Doubts


@dataclass(frozen=True, slots=True, kw_only=True)
class Dependencies:
    """What a desk sits between. ``projects`` are those that have projects below them: no place for jobs.

    ``by_launcher``: whether the engine of a job commands its launcher; orders about others go to ``foreign``.
    """

    register: "Register"
    store: "Store"
    clock: "Clock"
    journal: "Journal"
    orders: "Orders"
    taking: "FreeGpus"
    loop: "ActingLoop"
    observe: "Callable[[], ClusterState]"
    papers: "Papers"
    foreign: "ExternalJobOrders"
    keeping: "Keeping"
    trial: Callable[[], Row]
    consents: "Consents"
    by_launcher: Callable[[JobId], bool]
    admission: Admission
    inner_projects: frozenset[str] = frozenset()
    reports: "LauncherReports"
    doubts: "Doubts"
    background: "BackgroundJobs"
    forced: "ForcedEnd"
    agree: "Agree | None" = None


class JobCommands:
    """``service.control.interface.Desk``; safe from any thread."""

    def __init__(self, organs: Dependencies) -> None:
        self._organs = organs
        self._register = organs.register
        self.holdings = organs.admission.holdings
        self._reports = organs.reports

    def _row(self, entry: JobRecord, caller: Caller, *, listed: bool = False) -> Row:
        return entry_row(entry, caller, listed=listed)

    def submit(self, caller: Caller, submission: Submission) -> tuple[Row, bool]:
        """The entry of a job for its caller; the same nonce again is the same job. Blocks for a commit."""
        if caller.role is Role.VIEWER:
            raise NotAllowed(f"{caller.name} may look and not submit; an operator gives roles")
        own = replace(submission, user=caller.name, uid=caller.uid)
        problem = unfit(own, self._organs.inner_projects)
        if problem is not None:
            raise BadOrder(problem)
        if self._register.is_known(own):  # a launcher that asks again for what it has is answered
            entry, new = self._register.submit(own)
        else:
            for job in own.after:
                self._must_be_awaitable(job)
            with self._organs.admission.admitting(caller, own):
                entry, new = self._register.submit(own)
        return self._row(entry, caller), new

    def _must_be_awaitable(self, job: JobId) -> None:
        """Raise ``BadOrder`` unless the job may yet end well, or has."""
        try:
            entry = self._register.entry(job)
        except NoEntry as error:
            raise BadOrder(f"--after {job}: {error}") from error
        if entry.state is JobState.ENDED and entry.exit_reason is not ExitReason.DONE:
            raise BadOrder(f"--after {job}: it has ended already, and not well; leave --after out")

    def jobs(self, caller: Caller, which: Which, limit: int) -> Listed:
        """Entries, the newest first."""
        entries = self._register.entries()
        if which == Which():  # nobody need be looked at to be counted
            newest = islice(reversed(entries.values()), limit)
            return Listed(rows=[self._row(each, caller, listed=True) for each in newest], total=len(entries))
        result = [each for each in reversed(entries.values()) if fits(each, which)]
        return Listed(
            rows=[self._row(each, caller, listed=True) for each in result[:limit]], total=len(result)
        )

    def job(self, caller: Caller, job: JobId) -> Row:
        """One entry, with what it was told, what was done to it, and why it stands where it stands."""
        entry = self._entry(job)
        commands = [
            {name: row[name] for name in ("number", "given_ms", "acknowledged_ms", "failed")}
            | {"verb": verb_of(row["body"]), "directive": to_tree(replace(row["body"], proof=""), Command)}
            for row in read_directives(self._organs.store, job)
        ]
        actions = self._organs.papers.actions(caller, since_ms=None, job=job)
        agree = self._organs.agree
        terms = agree(entry, entry.gpus, entry.share) if agree is not None and entry.gpus else None
        return {
            **self._row(entry, caller),
            "directives": commands,
            "actions": actions,
            "explain": [
                *explained(entry, wait_of(entry, self._organs.loop.waits, self._register.entries()), terms),
                *self._organs.consents.told(entry),
                *self._organs.doubts.told(entry),
                *self._organs.background.told(entry),
            ],
        }

    def directives(self, caller: Caller, job: JobId, after: int, nonce: str = "") -> AsyncIterator[Row]:
        """What the job's launcher is told from now on, and its place while it waits. Never blocks.

        Raises for somebody else's job, and for one that ended unless ``CancelCommand`` is news.
        """
        entry = self._own(caller, job, nonce)
        if entry.state is JobState.ENDED and not is_news(entry, after):
            raise _ended(entry)
        is_launcher = self._reports.is_launcher(caller, entry)
        gates = self._organs.background.open_gaps
        return follow(self._register, self._organs.loop, job, after, is_launcher=is_launcher, gates=gates)

    def report(self, caller: Caller, job: JobId, report: Report, nonce: str = "") -> Row:
        """Take a launcher's word. Blocks only when something changed."""
        before = self._own(caller, job, nonce)
        if before.state is JobState.ENDED:
            raise _ended(before)
        self._reports.take(caller, before, report)
        return to_row(control.Taken(known=True))

    def sign_of_life(self, caller: Caller, job: JobId, report: Report, nonce: str = "") -> Row | None:
        """Take a launcher's word that says nothing new; ``None``: ``report`` has to. Never blocks."""
        entry = self._register.known(job)
        if entry is None or entry.state is JobState.ENDED or not is_meant(entry, nonce):
            return None
        if not caller.may_act_for(entry.submission.user, entry.submission.uid):
            return None
        return to_row(control.Taken(known=True)) if self._reports.take_sign(caller, entry, report) else None

    def pause(self, caller: Caller, job: JobId, because: str) -> Row:
        """Pause a running job until it is resumed; a waiting one is held in the queue."""
        if not self._organs.by_launcher(job):
            return self._organs.foreign.pause(caller, job, because)
        entry = self._changeable(caller, job)
        if entry.state in (JobState.PENDING, JobState.PAUSED) and not in_flight(entry):
            return self._turned(
                caller, Pause(job=job, reason=because), lifecycle.on_hold, "held in the queue"
            )
        return self._ordered(
            caller,
            Pause(job=job, action=ActionClass.SCHEDULE, reason=because),
            lambda each: replace(each, held_by_user=True),
        )

    def resume(self, caller: Caller, job: JobId, because: str, nonce: str = "") -> Row:
        """Let a paused or held job go on as soon as there is room."""
        if not self._organs.by_launcher(job):
            return self._organs.foreign.resume(caller, job, because)
        entry = self._changeable(caller, job, nonce)
        # Before its first start membership is asked again: the configuration may be another one than at
        # submission.
        if never_began(entry):
            self._organs.admission.must_be_member(caller, entry.submission)
        step = Resume(job=job, gpus=(), reason=because)
        return self._turned(caller, step, lifecycle.let_go, "it goes on as soon as there is room")

    def cancel(
        self, caller: Caller, job: JobId, because: str, nonce: str = "", *, force: bool = False
    ) -> Row:
        """End a job for good; with ``force`` an operator ends its lease too, whatever its processes do."""
        if not self._organs.by_launcher(job):
            raise self._organs.foreign.refuse(caller, job, "cancel")
        entry = self._changeable(caller, job, nonce)
        step = Cancel(job=job, reason=because or f"cancelled by {caller.name}")
        if force:
            return self._organs.forced.end(caller, entry, step)
        if self._register.is_followed(job):
            return self._ordered(caller, step)
        now_ms = self._organs.clock.now_ms()
        return self._ordered(caller, step, lambda each: lifecycle.unlaunched(each, now_ms))

    def resize(self, caller: Caller, job: JobId, gpus: int, because: str) -> Row:
        """Give a running job so many GPUs, when as many are free beside its own and promised to nobody."""
        if not self._organs.by_launcher(job):
            raise self._organs.foreign.refuse(caller, job, "resize")
        entry = self._changeable(caller, job)
        submission = entry.submission
        if not submission.min_gpus <= gpus <= submission.max_gpus:
            raise BadOrder(
                f"{job} was submitted for {submission.min_gpus} to {submission.max_gpus} GPUs, "
                f"not for {gpus}; submit it anew with other bounds"
            )
        if entry.state is not JobState.RUNNING or in_flight(entry):
            doing = "is just carrying something out" if in_flight(entry) else f"is {entry.state.value}"
            raise WrongState(f"{job} {doing}; a running job is resized")
        step = Resize(
            job=job,
            gpus=self._organs.taking.sized(entry, gpus),
            reason=because or f"asked for by {caller.name}",
        )
        return self._ordered(caller, step)

    def keep(
        self, caller: Caller, job: JobId, hours: float | None, because: str, *, alone: bool | None = None
    ) -> Row:
        """Leave a job alone for so long, launched by Fallow or not; or let nobody into its idle gaps."""
        keeping = self._organs.keeping
        if alone is None:
            return keeping.keep(caller, job, hours or 0.0, because)
        answer = keeping.keep_alone(caller, self._changeable(caller, job), because, alone=alone)
        self._organs.loop.wake()
        return answer

    def consents(self, caller: Caller, job: JobId | None) -> list[Row]:
        """What owners allow with one job, or with the caller's own; an operator's: with all."""
        return self._organs.consents.rows(caller, job)

    def consent(self, caller: Caller, reply: OwnWord) -> Row:
        """Take an owner's word about own jobs; what rests on it is decided anew at once."""
        answer = self._organs.consents.say(caller, reply)
        self._organs.loop.wake()
        return answer

    def queue(self, caller: Caller, limit: int) -> Listed:
        """The jobs that wait, in the order in which they are looked at."""
        entries = self._register.entries()
        line = islice(in_line(self._organs.loop.waits, entries), limit)
        total = sum(map(stands, entries.values()))  # the line is read no further than asked
        return Listed(
            rows=[queue_row(entry, wait) for entry, wait in line],
            total=total,
        )

    def leases(self, caller: Caller) -> list[Row]:
        """Who was given which GPU by Fallow."""
        state = self._organs.loop.state or self._organs.observe()
        entries = self._register.entries()
        return [
            lease_row(row, entries.get(JobId(row["job"])), state.gpus.get(row["gpu"]))
            for row in read_leases(self._organs.store)
        ]

    def engines(self, caller: Caller) -> list[Row]:
        """What is done at all to jobs of each kind."""
        return engine_rows()

    def plans(self, caller: Caller) -> list[Row]:
        """Plans, those that wait for somebody first."""
        return self._organs.papers.plans(caller)

    def try_plan(self, caller: Caller) -> Row:
        """What each step of a plan made now would do; nothing is done."""
        return self._organs.trial()

    def apply(self, caller: Caller, plan: int, steps: tuple[int, ...] | None) -> Row:
        """Do a waiting plan, or these steps of it."""
        answer = self._organs.papers.apply(caller, plan, steps)
        self._organs.loop.wake()
        return answer

    def reject(self, caller: Caller, plan: int, because: str, snooze_hours: float | None) -> Row:
        """Turn a waiting plan down."""
        return self._organs.papers.reject(caller, plan, because, snooze_hours)

    def actions(self, caller: Caller, *, since_ms: int | None, job: JobId | None) -> list[Row]:
        """The journal, the newest first."""
        rows = self._organs.papers.actions(caller, since_ms=since_ms, job=job)
        user_of = self._organs.consents.user_of
        return [{**row, "user": row["user"] or user_of(JobId(str(row["job"])))} for row in rows]

    def undo(self, caller: Caller, action: int) -> Row:
        """Take an action back."""
        return self._organs.papers.undo(caller, action)

    def acting(self, caller: Caller) -> Row:
        """Whether the service acts, who said so, the modes, and how long the newest cycle took."""
        return {**self._organs.papers.acting(caller), "cycle_s": self._organs.loop.cycle_s}

    def stop_acting(self, caller: Caller, because: str) -> Row:
        """The kill switch; operators alone."""
        self._organs.papers.stop_acting(caller, because)
        self._organs.loop.stir_all()
        return self.acting(caller)

    def start_acting(self, caller: Caller) -> Row:
        """Release the kill switch; operators alone."""
        self._organs.papers.start_acting(caller)
        self._organs.loop.stir_all()
        self._organs.loop.wake()
        return self.acting(caller)

    def _entry(self, job: JobId) -> JobRecord:
        try:
            return self._register.entry(job)
        except NoEntry as error:
            raise UnknownJob(str(error)) from error

    def _own(self, caller: Caller, job: JobId, nonce: str = "") -> JobRecord:
        """The entry of a job that the caller may act on, and means."""
        entry = self._entry(job)
        if not is_meant(entry, nonce):
            raise UnknownJob(f"the job that was {job} is not known here: {job} is another one now")
        if not caller.may_act_for(entry.submission.user, entry.submission.uid):
            raise NotAllowed(
                f"{job} is {entry.submission.user}'s; {caller.name} may look at it and not change it"
            )
        return entry

    def _changeable(self, caller: Caller, job: JobId, nonce: str = "") -> JobRecord:
        entry = self._own(caller, job, nonce)
        if entry.state is JobState.ENDED:
            raise _ended(entry)
        return entry

    def _ordered(self, caller: Caller, step: Pause | Resize | Cancel, also: "Turn | None" = None) -> Row:
        """Give an order to a launcher; what it cannot do is the caller's mistake."""
        row = self._organs.orders.give(step, f"user {caller.name}", also).row()
        if row["outcome"] == "unsupported":
            raise BadOrder(row["message"])
        if row["outcome"] == "stale":
            raise WrongState(row["message"])
        return row

    def _turned(self, caller: Caller, step: Pause | Resume, turn: "Turn", message: str) -> Row:
        """An order that needs no launcher: only the entry changes."""
        organs = self._organs
        number = organs.journal.intends(organs.clock.now_ms(), step, f"user {caller.name}")
        result: Outcome = Done(note=message)
        try:
            self._register.change(step.job, turn)
        except Refused as error:
            result = Stale(found=str(error))
        row = organs.orders.note(number, result).row()
        if isinstance(result, Stale):
            raise WrongState(result.found)
        organs.loop.wake()
        return row


def _ended(entry: JobRecord) -> JobEnded:
    return JobEnded(
        f"{entry.id} has ended: {entry.message or (entry.exit_reason and entry.exit_reason.value)}"
    )

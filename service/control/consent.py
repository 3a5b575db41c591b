"""What owners allow with their own jobs: their words taken, shown, and read again before every step.

The rule is ``advisor.planner.consent``. An owner speaks for own jobs alone; a site speaks in its
configuration, an operator by orders. Words count from the moment they are kept: every look at the cluster
reads them, and the engine asks once more before each step.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from advisor.jobs.consent_store import ConsentStore
from advisor.jobs.model import JobRecord, JobState
from advisor.jobs.with_snapshot import waiting_job
from advisor.outcomes import Engine, Outcome, Stale
from advisor.planner.consent import Held, Kind, Origin, holding, with_consent, withdrawn
from collector.model import JobId
from service.control.errors import BadOrder, NotAllowed, UnknownJob
from service.control.interface import Caller, OwnWord, Role
from service.schemas.answer import Row, to_row
from service.schemas.control import Consent, Consented

if TYPE_CHECKING:
    from advisor.actions import Action
    from advisor.jobs.job_store import Register
    from advisor.state.model import ClusterState, Job
    from collector.clock import Clock


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsentDependencies:
    """``by_owners``: the site takes an owner's own yes; an owner's no is always taken.

    ``by_launcher``: whether the register has a job's record, as the engines say.
    """

    book: ConsentStore
    register: "Register"
    clock: "Clock"
    by_launcher: Callable[[JobId], bool]
    by_owners: bool = True


class Consents:
    """Joined to every look by ``complete``; ``observe`` is set once that is known. Safe from any thread."""

    def __init__(self, parts: ConsentDependencies) -> None:
        self._parts = parts
        self._foreign: Mapping[JobId, Job] = {}
        self.observe: Callable[[], object] = lambda: None

    def complete(self, state: "ClusterState") -> "ClusterState":
        """The state with what owners said of their jobs. Reads the store; blocks briefly."""
        by_launcher = self._parts.by_launcher
        self._foreign = {id: job for id, job in state.jobs.items() if not by_launcher(id)}
        return with_consent(state, self._parts.book.words())

    def against(self, step: "Action") -> str | None:
        """Why a step that was planned must not be done any more: its job's owner has said no since."""
        user = self.user_of(step.job)
        if user is None:
            return None
        return withdrawn(step, user, self._parts.book.words(), self._parts.clock.now_ms())

    def rows(self, caller: Caller, job: JobId | None) -> list[Row]:
        """What holds of one job, or of the caller's own (an operator's: of all), a row a job and kind."""
        jobs = self._jobs() if job is None else (self._job(job),)
        mine = [each for each in jobs if job is not None or _may_see(caller, each)]
        words, now_ms = self._parts.book.words(), self._parts.clock.now_ms()
        return [to_row(_row(each, consent)) for each in mine for consent in holding(each, words, now_ms)]

    def told(self, entry: JobRecord) -> tuple[str, ...]:
        """The sentence on what may be done to a launched job; none once it has ended."""
        if entry.state is JobState.ENDED:
            return ()
        words, now_ms = self._parts.book.words(), self._parts.clock.now_ms()
        return (sentence(holding(waiting_job(entry), words, now_ms)),)

    def say(self, caller: Caller, reply: OwnWord) -> Row:
        """Take an owner's words about one job, or about all of theirs. Blocks for a commit."""
        if not reply.kinds:
            raise BadOrder(f"say what is allowed or withdrawn: {', '.join(Kind)}")
        if not self._parts.by_owners and any(reply.kinds.values()):
            raise BadOrder(
                "this site takes no yes from owners (consent.owners): an operator writes it into the "
                "configuration; to withdraw is always possible"
            )
        if reply.job is not None:
            self._must_own(caller, self._job(reply.job))
        hold_ms = None if reply.hold_s is None else round(reply.hold_s * 1000)
        until_ms = self._parts.book.say(caller.name, reply.job, tuple(reply.kinds.items()), hold_ms)
        message = _came_of(caller, reply, until_ms)
        return to_row(Consented(outcome="done", message=message, rows=self._after(reply.job)))

    def _after(self, job: JobId | None) -> tuple[Consent, ...]:
        if job is None:
            return ()
        words, now_ms = self._parts.book.words(), self._parts.clock.now_ms()
        result = self._job(job)
        return tuple(_row(result, consent) for consent in holding(result, words, now_ms))

    def _jobs(self) -> Sequence["Job"]:
        """Every job that runs or waits, as it is without its owner's later words."""
        self.observe()
        present = [
            each for each in self._parts.register.entries().values() if each.state is not JobState.ENDED
        ]
        return (*(waiting_job(each) for each in present), *self._foreign.values())

    def _job(self, job: JobId) -> "Job":
        entry = self._parts.register.entries().get(job)
        if entry is not None and entry.state is not JobState.ENDED:
            return waiting_job(entry)
        if not self._parts.by_launcher(job):
            self.observe()
        result = self._foreign.get(job)
        if result is None:
            raise UnknownJob(
                f"no job {job} runs or waits; `fallow status` and `fallow jobs` list those that do"
            )
        return result

    def user_of(self, job: JobId) -> str | None:
        """Whose job it is; ``None`` for one that Fallow neither launched nor saw at its newest look."""
        if not self._parts.by_launcher(job):
            result = self._foreign.get(job)
            return None if result is None else result.user
        entry = self._parts.register.entries().get(job)
        return None if entry is None else entry.submission.user

    def _must_own(self, caller: Caller, job: "Job") -> None:
        entry = self._parts.register.entries().get(job.id)
        same_uid = (
            entry is not None and entry.submission.uid is not None and entry.submission.uid == caller.uid
        )
        if caller.role is Role.VIEWER or (caller.name != job.user and not same_uid):
            raise NotAllowed(
                f"{job.id} is {job.user or 'somebody'}'s: only its owner says what is allowed with it; "
                "a site says it in [consent]"
            )


class Consenting:
    """An engine that asks, before each step, whether its job's owner has said no since it was planned."""

    def __init__(self, engine: Engine, against: Callable[["Action"], str | None]) -> None:
        self._engine, self._against = engine, against

    def do(self, step: "Action", intent: int = 0) -> Outcome:
        """Carry the step out unless its owner said no; blocks as the engine does."""
        why = self._against(step)
        return self._engine.do(step, intent) if why is None else Stale(found=why)


def sentence(consents: Sequence[Held]) -> str:
    """What a job's owner allows, in a sentence for people. Pure."""
    allowed = [each.kind.value for each in consents if each.allowed]
    own = [each for each in consents if each.origin is Origin.OWNER]
    lead = (
        f"It may be disturbed by: {', '.join(allowed)}" if allowed else "Nothing may be done to it by itself"
    )
    refused = [each.kind.value for each in own if not each.allowed]
    tail = f"; its owner withdrew {', '.join(refused)}" if refused else ""
    return f"{lead}{tail} (`fallow consent`)."


def _may_see(caller: Caller, job: "Job") -> bool:
    return caller.role is Role.OPERATOR or caller.name == job.user


def _row(job: "Job", consent: Held) -> Consent:
    return Consent(
        job=job.id,
        name=job.name,
        user=job.user,
        kind=consent.kind.value,
        allowed=consent.allowed,
        origin=consent.origin.value,
        for_all=consent.for_all,
        said_ms=consent.at_ms,
        until_ms=consent.until_ms,
    )


def _came_of(caller: Caller, reply: OwnWord, until_ms: int | None) -> str:
    whose = f"all jobs of {caller.name}" if reply.job is None else reply.job
    parts: list[str] = []
    for outcome, value in (("allowed", True), ("withdrawn", False), ("left to the site's word", None)):
        named = [kind.value for kind, allowed in reply.kinds.items() if allowed is value]
        parts += [f"{outcome}: {', '.join(named)}"] if named else []
    until = ""
    if until_ms is not None:
        until = f", until {datetime.fromtimestamp(until_ms / 1000, UTC):%Y-%m-%d %H:%M} UTC"
    return f"{'; '.join(parts)} with {whose}{until}"

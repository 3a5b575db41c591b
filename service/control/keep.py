"""Somebody's word to leave a job alone for a while; for any job that is seen, launched here or not.

An owner may say it three times, for 4, 8 or 24 hours; an operator at any time
(``advisor.policies.idle_escalation``). The word is kept in the table ``keeps``, which every look at the
cluster reads.
"""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from advisor.jobs.external_jobs import ExternalJobStore
from advisor.journal.journal import Order
from advisor.outcomes import Done
from advisor.planner.limits import PlannerConfig
from advisor.policies.idle_escalation import KEEP_HOURS, NotKept, keep
from advisor.state.owner_replies import with_spoken
from collector.model import JobId
from service.control.errors import BadOrder, NotAllowed, UnknownJob, WrongState
from service.control.interface import Caller, Role
from service.schemas import control as made
from service.schemas.answer import Row, to_row

if TYPE_CHECKING:
    from advisor.jobs.job_store import Register
    from advisor.jobs.model import JobRecord
    from advisor.journal.journal import StoreJournal
    from advisor.state.model import ClusterState, Job
    from collector.clock import Clock

HOUR_MS = 3_600_000


class Keeping:
    """``service.control.job_commands.Keeping`` on the store."""

    def __init__(
        self,
        book: ExternalJobStore,
        journal: "StoreJournal",
        observe: "Callable[[], ClusterState]",
        clock: "Clock",
        rules: PlannerConfig,
        *,
        register: "Register",
    ) -> None:
        self._register = register
        self._book, self._journal, self._observe = book, journal, observe
        self._clock, self._rules = clock, rules

    def keep(self, caller: Caller, job: JobId, hours: float, because: str) -> Row:
        """Keep the job for so long from now. Blocks for two commits."""
        if hours not in KEEP_HOURS:
            raise BadOrder(f"a job is kept for {', '.join(map(str, KEEP_HOURS))} hours, not for {hours:g}")
        result = self._job(caller, job)
        now_ms = self._clock.now_ms()
        operator = caller.role is Role.OPERATOR and caller.name != result.user
        outcome = keep(result, int(hours), now_ms, self._rules, by_administrator=operator)
        if isinstance(outcome, NotKept):
            raise WrongState(outcome.reason)
        until_ms = outcome.keep_until_ms or now_ms + int(hours) * HOUR_MS
        order = Order(job=job, verb="keep", reason=because, no_undo="it ends by itself")
        number = self._journal.ordered(now_ms, order, f"user {caller.name}")
        self._book.keep(job, until_ms, caller.name)
        until = datetime.fromtimestamp(until_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M UTC")
        message = f"{job} is left alone until {until}"
        self._journal.came_of(now_ms, number, Done(note=message))
        return to_row(made.Done(action=number, outcome="done", message=message))

    def keep_alone(self, caller: Caller, entry: "JobRecord", because: str, *, alone: bool) -> Row:
        """Let nobody compute in a job's idle gaps, or let them again. Blocks for two commits."""
        now_ms, back = self._clock.now_ms(), f"fallow keep {entry.id} --{'no-' if alone else ''}alone"
        order = Order(job=entry.id, verb="keep", reason=because, no_undo=f"`{back}`")
        number = self._journal.ordered(now_ms, order, f"user {caller.name}")
        self._register.change(entry.id, lambda each: replace(each, alone=alone))
        who = "nobody computes" if alone else "background jobs may compute"
        message = f"{who} in the idle gaps of {entry.id} from now on"
        self._journal.came_of(now_ms, number, Done(note=message))
        return to_row(made.Done(action=number, outcome="done", message=message))

    def _job(self, caller: Caller, job: JobId) -> "Job":
        """The job as it is seen now, with the newest words about it."""
        state = self._observe()
        if job not in state.jobs:
            raise UnknownJob(
                f"no job {job} runs or waits; `fallow status` and `fallow jobs` list those that do"
            )
        result = with_spoken(state, self._book.words()).jobs[job]
        if not caller.may_act_for(result.user or "") or (result.user is None and caller.role is Role.USER):
            raise NotAllowed(f"{job} is {result.user or 'somebody'}'s: its owner or an operator keeps it")
        return result

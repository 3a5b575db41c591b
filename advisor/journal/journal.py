"""The journal in the store: the intent is written before an act, its outcome after it.

Every call is durable when it returns; one that cannot be written raises, and then nothing may be done. The
numbers of intents grow for ever, and are given in the transaction that writes them, so that a directive which
bears one is carried out at most once. What the rows mean is in ``advisor.journal.records``.
"""

import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from advisor.actions import Action
from advisor.journal.pending_plans import PendingPlans
from advisor.journal.proposals import Standing, proposed
from advisor.journal.records import (
    FALLOW,
    ActionRecord,
    Moment,
    Result,
    Stood,
    Undo,
    result_of,
    state_before,
    undo_of,
)
from advisor.outcomes import Outcome
from advisor.planner.guard import Ruling
from advisor.planner.plan import Plan
from advisor.serialize import Unreadable, from_text, to_text
from advisor.state.model import ClusterState
from advisor.statements import asked, rows_of, statement
from advisor.tags import verb_of
from collector.clock import Clock
from collector.model import JobId

if TYPE_CHECKING:
    from collector.store.database import Store

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
HOUR_MS = 3_600_000
# Rows of one answer; older ones are asked for by their time.
MOST = 1_000
NOTHING_DONE = (Result.STALE, Result.UNSUPPORTED, Result.UNDONE)
"""What was refused before anything was begun: there is nothing to put back. A failed one may be half done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What somebody wants done that is no step of a plan: to keep a job, for example."""

    job: JobId
    verb: str
    reason: str = ""
    undo: str | None = None
    no_undo: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    """An intent that was just written: its number, and what is to be done to which job, by whom and why."""

    number: int
    job: JobId
    verb: str
    actor: str
    reason: str


class StoreJournal:
    """``advisor.cycle.Journal`` on the tables plans and intents. One for a service; one cycle at a time.

    Numbers are given ``above`` what launchers know, which an older backup does not.
    """

    def __init__(
        self,
        store: "Store",
        clock: Clock,
        boot: Callable[[], str | None] | None = None,
        above: Callable[[], int] = int,
    ) -> None:
        self._store, self._clock, self._above = store, clock, above
        self._boot = cache(boot or boot_name)
        self._seen: ClusterState | None = None
        self._plan: int | None = None
        self._at_work: Counter[int] = Counter()
        self._minding = threading.Lock()
        self._on_begun: Callable[[Begun], None] = lambda begun: None
        self._on_settled: Callable[[int, Result, str], None] = lambda number, result, reason: None

    def listen(
        self, on_begun: Callable[[Begun], None], on_settled: Callable[[int, Result, str], None]
    ) -> None:
        """Tell of each intent once it is written, and of each result. Called by whoever acts; never block."""
        self._on_begun, self._on_settled = on_begun, on_settled

    def watching(self, observe: Callable[[], ClusterState]) -> Callable[[], ClusterState]:
        """``observe`` itself; what it last saw is how jobs stood before what is done next."""

        def watched() -> ClusterState:
            state = observe()
            self.saw(state)
            return state

        return watched

    def saw(self, state: ClusterState) -> None:
        """This is how jobs stand before what is done next."""
        self._seen = state

    def moment(self) -> Moment:
        """Now, by both clocks."""
        return Moment(at_ms=self._clock.now_ms(), steady_ms=self._clock.monotonic_ms(), boot=self._boot())

    def decided(self, at_ms: int, plan: Plan, ruling: Ruling) -> None:
        """Keep the part of a plan that is about to be done; a plan of which nothing is done leaves no row."""
        steps = ruling.approved.steps
        self._plan = None
        if steps:
            plan_row = proposed(plan, steps, ruling.refused)
            self._plan = PendingPlans(self._store).put(at_ms, plan_row, Standing.DONE)

    def intends(self, at_ms: int, step: Action, actor: str = FALLOW, plan: int | None = None) -> int:
        """Write down a step with how its job stands; the number of the intent. Raises StoreFull."""
        before = None if self._seen is None else state_before(self._seen, step.job)
        row = {
            "plan": self._plan if plan is None and actor == FALLOW else plan,
            "job": step.job,
            "verb": verb_of(step),
            "actor": actor,
            "reason": step.reason,
            "step": to_text(step, Action),
            "stood": "" if before is None else to_text(before),
        }
        return self._add(at_ms, row, lambda number: undo_of(step, before, number))

    def ordered(self, at_ms: int, order: Order, actor: str) -> int:
        """Write down an order that is no step; the number of the intent. Raises StoreFull."""
        row = {
            "plan": None,
            "job": order.job,
            "verb": order.verb,
            "actor": actor,
            "reason": order.reason,
            "step": "{}",
            "stood": "",
        }
        return self._add(at_ms, row, lambda _: Undo(command=order.undo, why_not=order.no_undo))

    def came_of(self, at_ms: int, intent: int, outcome: Outcome) -> None:
        """Write down what came of an intent; what is settled stays, and what is late is settled later."""
        result, reason = result_of(outcome)
        try:
            if result is not None:
                self.settle(at_ms, intent, result, reason)
        finally:
            with self._minding:
                self._at_work.pop(intent, None)

    def is_at_work_on(self, intent: int) -> bool:
        """Whether this process has begun it and not said yet what came of it."""
        return intent in self._at_work

    def settle(self, at_ms: int, intent: int, result: Result, reason: str) -> bool:
        """Write down a result; whether there was still anything to settle."""
        parameters = {"number": intent, "outcome": result.value, "found": reason, "at_ms": at_ms}
        settled = self._change("settle_intent", parameters)
        if settled:
            self._on_settled(intent, result, reason)
        return settled

    def undone(self, intent: int, by: int) -> bool:
        """Write down that ``by`` undid ``intent``; whether nothing else had."""
        return self._change("mark_undone", {"number": intent, "undone_by": by})

    def unsettled(self) -> tuple[ActionRecord, ...]:
        """The deeds of which nothing is known yet, the oldest first."""
        return self._deeds(since_ms=0, only_open=True)[::-1]

    def deeds(self, since_ms: int, job: JobId | None = None, most: int = MOST) -> tuple[ActionRecord, ...]:
        """What was done since then, and all that is not settled; the newest first."""
        return self._deeds(since_ms=since_ms, job=job, most=most)

    def deed(self, number: int) -> ActionRecord | None:
        """One row, or ``None``."""
        return next(iter(self._deeds(since_ms=0, number=number)), None)

    def lately(self, span_ms: int = HOUR_MS) -> tuple[ActionRecord, ...]:
        """The deeds of the last span by either clock, those from the future, and those not settled yet."""
        now = self.moment()
        asking = {
            "after_ms": now.at_ms - span_ms,
            "after_steady_ms": (now.steady_ms or 0) - span_ms,
            "boot": now.boot,
        }
        return tuple(deed_of(row) for row in asked(self._store, "recent_intents", asking))

    def _deeds(self, **asking: Any) -> tuple[ActionRecord, ...]:
        asking = {"job": None, "number": None, "only_open": False, "most": MOST, **asking}
        return tuple(deed_of(row) for row in asked(self._store, "intents", asking))

    def _add(self, at_ms: int, row: dict[str, Any], undo: Callable[[int], Undo]) -> int:
        now = self.moment()
        more = {"at_ms": at_ms, "steady_ms": now.steady_ms, "boot": now.boot}

        numbers: list[int] = []

        def add(connection: Any) -> int:
            (counted,) = rows_of(connection.execute(statement("next_number"), {"above": self._above()}))
            number = int(counted["number"])
            numbers.append(number)
            self._mind((number,), 1)  # before anybody can see it: it is not for others to settle
            result = undo(number)
            undoing = {"number": number, "undo": result.command, "no_undo": result.why_not}
            connection.execute(statement("add_intent"), row | more | undoing)
            return number

        try:
            intent = self._store.together(f"writing down what is to be done to {row['job']}", add)
        except BaseException:
            self._mind(numbers, -1)
            raise
        self._mind(numbers[:-1], -1)
        self._on_begun(
            Begun(
                number=intent,
                job=JobId(row["job"]),
                verb=row["verb"],
                actor=row["actor"],
                reason=row["reason"],
            )
        )
        return intent

    def _mind(self, numbers: Sequence[int], more: int) -> None:
        """Count who is at work on which intent: a number that was undone may be another's by now."""
        with self._minding:
            for number in numbers:
                self._at_work[number] += more
                if self._at_work[number] <= 0:
                    del self._at_work[number]

    def _change(self, name: str, parameters: dict[str, Any]) -> bool:
        return self._store.together(
            "writing down what came of it",
            lambda connection: bool(rows_of(connection.execute(statement(name), parameters))),
        )


def boot_name() -> str | None:
    """The name of this start of the machine; ``None`` where the system does not tell."""
    try:
        return BOOT_ID.read_text(encoding="ascii").strip() or None
    except (OSError, UnicodeDecodeError):
        return None


def deed_of(row: dict[str, Any]) -> ActionRecord:
    """A row of the journal as a value; a step or a stand that cannot be read is ``None``."""
    result = None if row["outcome"] is None else Result(row["outcome"])
    changed_nothing = result in NOTHING_DONE
    return ActionRecord(
        number=row["intent"],
        begun=Moment(at_ms=row["at_ms"], steady_ms=row["steady_ms"], boot=row["boot"]),
        plan=row["plan"],
        job=JobId(row["job"]),
        verb=row["verb"],
        actor=row["actor"],
        reason=row["reason"],
        step=_read(Action, row["step"]),
        stood=_read(Stood, row["stood"]),
        result=result,
        found=row["found"],
        settled_ms=row["settled_ms"],
        undo=None if changed_nothing else row["undo"],
        no_undo="nothing was done" if changed_nothing else row["no_undo"],
        undone_by=row["undone_by"],
    )


def _read(kind: Any, text: str) -> Any:
    try:
        return from_text(kind, text)
    except Unreadable:
        return None

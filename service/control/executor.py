"""Carries out what a person approved or took back: one piece of work after the other, on a thread of its own.

The person waits a moment for the outcome, and reads it in the journal when it takes longer. Work stops at its
first surprise, and, where it is Fallow's own plan, as soon as somebody throws the switch.
"""

import logging
import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import assert_never

from advisor.actions import Action
from advisor.journal.journal import StoreJournal
from advisor.outcomes import Done, Engine, Failed, Interrupted, Late, Outcome, Stale, Unsupported
from collector.clock import Clock
from service.schemas.control import Applied, StepOutcome

log = logging.getLogger(__name__)

SOON_S = 3.0
"""How long a person waits for the outcome before it is left to the journal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Approval:
    """Steps that a person ordered, numbered as the person knows them; ``plan`` ``None`` for an undo.

    ``halted`` is asked before each, and ``against``, which says why not of one step; ``then`` is told the
    intent of each step that was done.
    """

    actor: str
    steps: tuple[tuple[int, Action], ...]
    plan: int | None = None
    halted: Callable[[], str | None] = lambda: None
    against: Callable[[Action], str | None] = lambda step: None
    then: Callable[[int], None] = lambda number: None


@dataclass(slots=True, kw_only=True)
class Work:
    """An approval on its way: what was begun, what came of it. Written by one thread, read by others."""

    approval: Approval
    ended: threading.Event = field(default_factory=threading.Event)
    begun: dict[int, int] = field(default_factory=dict)
    outcomes: dict[int, Outcome] = field(default_factory=dict)
    trouble: str | None = None

    def came(self) -> Applied:
        """What came of it so far: for the whole, and of each step."""
        steps = tuple(self._step(n) for n, _ in self.approval.steps)
        first_wrong = next((each for each in steps if each.outcome not in ("done", None)), None)
        if self.trouble is not None:
            outcome, message = "failed", self.trouble
        elif first_wrong is not None:
            outcome, message = first_wrong.outcome or "", first_wrong.message
        elif all(each.outcome == "done" for each in steps):
            outcome, message = "done", "; ".join(each.message for each in steps if each.message)
        else:
            outcome, message = "under way", "it is being carried out; `fallow actions` says what came of it"
        action = next((each.action for each in steps if each.action is not None), None)
        return Applied(action=action, outcome=outcome, message=message, steps=steps)

    def _step(self, n: int) -> StepOutcome:
        outcome = self.outcomes.get(n)
        note, message = (None, "") if outcome is None else spoken(outcome)
        return StepOutcome(n=n, action=self.begun.get(n), outcome=note, message=message)


class Applying:
    """Does approved work in its order. ``start`` and ``stop`` its thread; safe from any other."""

    def __init__(self, engine: Engine, journal: StoreJournal, clock: Clock) -> None:
        self._engine, self._journal, self._clock = engine, journal, clock
        self._queue: queue.SimpleQueue[Work | None] = queue.SimpleQueue()
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="applying", daemon=True)

    def start(self) -> None:
        """Begin; returns at once."""
        self._thread.start()

    def hurry(self) -> None:
        """The end is near: no further step is begun."""
        self._stopping = True

    def stop(self) -> None:
        """End after the step that is under way, whose wait the engine's owner interrupts; blocks."""
        self.hurry()
        self._queue.put(None)
        if self._thread.is_alive():
            self._thread.join(timeout=10)

    def carry_out(self, approval: Approval, soon_s: float = SOON_S) -> Work:
        """Have it done, and wait a moment for what comes of it."""
        work = Work(approval=approval)
        self._queue.put(work)
        work.ended.wait(soon_s)
        return work

    def _run(self) -> None:
        while (work := self._queue.get()) is not None and not self._stopping:
            try:
                self._do(work)
            except Interrupted:
                work.trouble = "the service is stopping; what came of it is found out at its next start"
            except Exception as error:
                log.exception("an approved step failed")
                work.trouble = f"it could not be done: {error}"
            finally:
                work.ended.set()

    def _do(self, work: Work) -> None:
        approval = work.approval
        for n, step in approval.steps:
            if self._stopping:
                raise Interrupted
            # Asked before each step: since the yes the switch may have been thrown, or the job have changed.
            halt = approval.halted() or approval.against(step)
            if halt is not None:
                work.outcomes[n] = Stale(found=halt)
                return
            # The intent is on disk before anything is done: what a crash cuts off is settled at the next
            # start.
            number = self._journal.intends(self._clock.now_ms(), step, approval.actor, approval.plan)
            work.begun[n] = number
            outcome = self._engine.do(step, number)
            self._journal.came_of(self._clock.now_ms(), number, outcome)
            if isinstance(outcome, Done):
                approval.then(number)
            work.outcomes[n] = outcome
            if not isinstance(outcome, Done):
                return


def spoken(outcome: Outcome) -> tuple[str, str]:
    """An outcome as its word and what was found."""
    match outcome:
        case Done():
            return "done", outcome.note
        case Stale() | Failed():
            return type(outcome).__name__.lower(), outcome.found
        case Unsupported():
            return "unsupported", outcome.why
        case Late():
            return "under way", outcome.found
        case _:
            assert_never(outcome)

"""What people order of their jobs, through the same journal and engine as everything else.

An order is written down before it is given, with who gave it. A person waits a moment for the launcher's
answer; one that comes later is written down by the loop (``advisor.journal.recovery``), which it wakes.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, assert_never

from advisor.actions import Action
from advisor.engines.launched import LocalEngine, SentCommand
from advisor.outcomes import Done, Failed, Interrupted, Late, Outcome, Stale, Unsupported
from service.schemas import control as made
from service.schemas.answer import Row, to_row

if TYPE_CHECKING:
    from advisor.cycle import Journal
    from advisor.jobs.job_store import Turn
    from collector.clock import Clock

SOON_S = 2.0
"""A person who orders waits so long for the launcher's answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ordered:
    """An order's number in the journal, and what came of it so far."""

    action: int
    outcome: Outcome

    def row(self) -> Row:
        """As the API says it."""
        note, message = said(self.outcome)
        return to_row(made.Done(action=self.action, outcome=note, message=message))


class Orders:
    """Gives people's orders. Safe from any thread."""

    def __init__(self, engine: LocalEngine, journal: "Journal", clock: "Clock") -> None:
        self._engine, self._journal, self._clock = engine, journal, clock

    def give(self, step: Action, actor: str, also: "Turn | None" = None) -> Ordered:
        """Write the order down, give it, and wait a moment for the answer. Raises StoreFull."""
        number = self._journal.intends(self._clock.now_ms(), step, actor)
        result = self._engine.give(step, number, also)
        if isinstance(result, SentCommand):
            try:
                result = self._engine.wait(result, SOON_S)
            except Interrupted:
                result = Late(found="the service stops; what came of it is found out at its next start")
        return self.note(number, result)

    def carry_out(self, step: Action, actor: str, work: Callable[[int], Outcome]) -> Ordered:
        """Write the order down, do it here, and write down what came of it. Raises what ``work`` raises."""
        number = self._journal.intends(self._clock.now_ms(), step, actor)
        try:
            result = work(number)
        except Exception as error:
            self.note(number, Stale(found=str(error)))
            raise
        return self.note(number, result)

    def note(self, number: int, outcome: Outcome) -> Ordered:
        """Write down what came of an order."""
        self._journal.came_of(self._clock.now_ms(), number, outcome)
        return Ordered(action=number, outcome=outcome)


def said(outcome: Outcome) -> tuple[str, str]:
    """An outcome as the API words it, and what there is to say. Pure."""
    match outcome:
        case Late():
            return "under way", "its launcher carries it out"
        case Done(note=note):
            return "done", note
        case Stale(found=found):
            return "stale", found
        case Failed(found=found):
            return "failed", found
        case Unsupported(why=why):
            return "unsupported", why
        case _:
            assert_never(outcome)

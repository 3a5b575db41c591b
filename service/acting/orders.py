"""What people order of their jobs, through the same journal and engine as everything else.

An order is written down before it is given, with who gave it, and settled when its launcher has answered:
mostly while the person waits, else by the thread here, which waits on.
"""

import logging
import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from advisor.engines.engine import Done, Failed, Late, Outcome, Stale, Unsupported
from advisor.engines.local import Given, Interrupted, LocalEngine, outcome
from advisor.register.model import Entry
from advisor.steps import Step

if TYPE_CHECKING:
    from advisor.cycle import Journal
    from advisor.register.register import Register, Turn
    from collector.clock import Clock

log = logging.getLogger(__name__)

SOON_S = 2.0
"""A person who orders waits so long for the launcher's answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ordered:
    """An order's number in the journal, and what came of it; ``None`` while its launcher carries it out."""

    action: int
    outcome: Outcome | None

    def row(self) -> dict[str, Any]:
        """As the API says it."""
        match self.outcome:
            case None | Late():
                said = ("under way", "its launcher carries it out")
            case Done(note=note):
                said = ("done", note)
            case Stale(found=found) | Failed(found=found):
                said = (type(self.outcome).__name__.lower(), found)
            case Unsupported(why=why):
                said = ("unsupported", why)
        return {"action": self.action, "outcome": said[0], "message": said[1]}


class Orders:
    """Gives orders and sees each to its end. ``start`` and ``stop`` its thread."""

    def __init__(self, register: "Register", engine: LocalEngine, journal: "Journal", clock: "Clock") -> None:
        self._register, self._engine, self._journal, self._clock = register, engine, journal, clock
        self._open: dict[int, Given] = {}
        self._guard = threading.Lock()
        self._stirred: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._settle_all, name="orders", daemon=True)
        self._unlisten: Callable[[], None] = lambda: None

    def start(self) -> None:
        """Begin to settle what is answered late; returns at once."""
        self._unlisten = self._register.listen(self._heard)
        self._thread.start()

    def stop(self) -> None:
        """End; what is open then is settled at the next start."""
        self._unlisten()
        self._stirred.put(None)
        if self._thread.is_alive():
            self._thread.join(timeout=5)

    def give(self, step: Step, actor: str, also: "Turn | None" = None) -> Ordered:
        """Write the order down, give it, and wait a moment for the answer. Raises StoreFull."""
        number = self._journal.intends(self._clock.now_ms(), step, actor)
        given = self._engine.give(step, number, also)
        if not isinstance(given, Given):
            return self._settled(number, given)
        self.watch(number, given)
        try:
            found = self._engine.wait(given, SOON_S)
        except Interrupted:
            return Ordered(action=number, outcome=None)
        self._settle(number)
        late = outcome(self._register.entry(step.job), given.number) is None
        return Ordered(action=number, outcome=None if late else found)

    def note(self, number: int, found: Outcome) -> Ordered:
        """Settle an order that needed no launcher."""
        return self._settled(number, found)

    def watch(self, number: int, given: Given) -> None:
        """See to it that this directive's outcome is written down when it is known."""
        with self._guard:
            self._open[number] = given

    def _heard(self, before: Entry | None, after: Entry) -> None:
        if self._open:
            self._stirred.put(after.id)

    def _settle_all(self) -> None:
        while (job := self._stirred.get()) is not None:
            with self._guard:
                numbers = [number for number, given in self._open.items() if given.job == job]
            for number in numbers:
                try:
                    self._settle(number)
                except Exception as error:
                    log.error("what came of order %d could not be written down: %s", number, error)

    def _settle(self, number: int) -> None:
        with self._guard:
            given = self._open.get(number)
        if given is None:
            return
        found = outcome(self._register.entry(given.job), given.number)
        if found is None:
            return
        with self._guard:
            mine = self._open.pop(number, None) is not None
        if mine:
            self._journal.came_of(self._clock.now_ms(), number, found)

    def _settled(self, number: int, found: Outcome) -> Ordered:
        self._journal.came_of(self._clock.now_ms(), number, found)
        return Ordered(action=number, outcome=found)

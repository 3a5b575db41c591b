"""The engines for who has more to do: they wait a moment for what they began, and no longer."""

from typing import Generic, Protocol, TypeVar

from advisor.actions import Action
from advisor.outcomes import Done, Failed, Late, Outcome, Stale, Unsupported

BRIEF_S = 1.0
"""What a launcher that has nothing to save takes to answer, with much to spare (docs/performance.md)."""

Ongoing = TypeVar("Ongoing")


class Giving(Protocol[Ongoing]):
    """An engine that first begins a step and then waits for its end."""

    def give(self, step: Action, intent: int = 0) -> Ongoing | Outcome:
        """Begin it; its outcome where nothing is to be waited for."""
        ...

    def wait(self, ongoing: Ongoing, at_most_s: float | None = None) -> Outcome:
        """What came of it, or ``Late`` when nothing did in that time."""
        ...


class Brief(Generic[Ongoing]):
    """The same engine, waiting ``soon_s`` at most.

    What is not over by then is ``Late``: it goes on by itself, and the journal finds out (``recovery``).
    """

    def __init__(self, engine: Giving[Ongoing], soon_s: float = BRIEF_S) -> None:
        self._engine, self._soon_s = engine, soon_s

    def do(self, step: Action, intent: int = 0) -> Outcome:
        """Begin the step and wait a moment for what comes of it. Raises ``Interrupted``."""
        ongoing = self._engine.give(step, intent)
        if isinstance(ongoing, Done | Stale | Unsupported | Failed | Late):
            return ongoing
        return self._engine.wait(ongoing, self._soon_s)

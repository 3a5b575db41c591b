"""A step that a workload manager was asked for, and the wait for what is seen of it."""

import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from advisor.actions import Action
from advisor.outcomes import SLICE_S, Interrupted, Late, Outcome, Stale

WATCH_S = 30.0
"""How long whoever gave an order waits for its end; after it the journal finds out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """What was asked, and whose outcome is looked for."""

    step: Action
    intent: int


class OutcomeWait:
    """Waits for what ``found`` sees of an intent; ``interrupt`` ends every wait, now and later."""

    def __init__(self, found: Callable[[int], Outcome | None]) -> None:
        self._found = found
        self._stopping = threading.Event()

    def interrupt(self) -> None:
        """The service stops: every wait ends with ``Interrupted``."""
        self._stopping.set()

    def wait(self, watched: Watched, at_most_s: float | None = None) -> Outcome:
        """What is seen of it, or ``Late``. Raises ``Interrupted``."""
        until_s = time.monotonic() + (math.inf if at_most_s is None else at_most_s)
        while True:
            outcome = self._found(watched.intent) or Stale(found="it was not written down")
            if not isinstance(outcome, Late) or time.monotonic() >= until_s:
                return outcome
            if self._stopping.wait(min(SLICE_S, max(0.0, until_s - time.monotonic()))):
                raise Interrupted

"""GPU memory on its way between a device and its host: begun, and over at some time that nobody knows.

Whoever began it may wait, or look again later; what comes of it is concluded once, by whoever sees the end.
"""

import threading
from collections.abc import Callable
from typing import Protocol

from advisor.actions import Action
from advisor.engines.cuda_checkpoint import Deed
from advisor.outcomes import Outcome


class Ongoing(Protocol):
    """What was asked of the driver and may not be over yet."""

    def ended(self, at_most_s: float) -> Deed | None:
        """What came of it, waiting so long at most; ``None`` when it still goes on."""
        ...


class Moving:
    """One pause or resume of a job under way. ``outcome`` is safe from any thread."""

    def __init__(self, step: Action, ongoing: Ongoing, conclude: Callable[[Deed], Outcome]) -> None:
        self.step = step
        self._ongoing, self._conclude = ongoing, conclude
        self._deed: Deed | None = None
        self._outcome: Outcome | None = None
        self._looking = threading.Lock()

    def outcome(self, at_most_s: float = 0.0) -> Outcome | None:
        """What came of it, waiting so long at most; ``None`` when it still goes on.

        Raises what concluding it does (``StoreFull``); it is tried again at the next call.
        """
        if not self._looking.acquire(timeout=at_most_s):
            return None  # somebody else waits for it, and would see its end first
        try:
            if self._deed is None:
                self._deed = self._ongoing.ended(at_most_s)
            if self._outcome is None and self._deed is not None:
                self._outcome = self._conclude(self._deed)
            return self._outcome
        finally:
            self._looking.release()

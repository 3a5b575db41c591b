"""GPU memory on its way between a device and its host: begun, and over at some time that nobody knows.

Whoever began it may wait, or look again later; what comes of it is concluded once, by whoever sees the end.
"""

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from advisor.actions import Action
from advisor.engines.cuda_checkpoint import Deed
from advisor.jobs.external_jobs import Seen
from advisor.outcomes import Outcome
from collector.model import GpuUuid


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


def memory_held(processes: Sequence[Seen]) -> dict[int, Mapping[GpuUuid, int]]:
    """What each held on which GPU; of one written down without it, all that it held, on each of them."""
    return {
        each.pid: each.held or dict.fromkeys(each.uuids, each.memory_bytes)
        for each in processes
        if each.memory_bytes is not None
    }


def took(deed: Deed) -> float:
    """Seconds of all its phases."""
    return round(sum(deed.seconds.values()), 3)


def sentence(deed: Deed) -> str:
    """What came of it, with the seconds of each phase."""
    phases = ", ".join(f"{phase} {seconds:.2f} s" for phase, seconds in deed.seconds.items())
    return f"{deed.found} ({phases})"

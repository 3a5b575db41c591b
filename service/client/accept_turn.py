"""How long a listening socket goes on accepting before its event loop does something else.

asyncio accepts until nothing waits, in one callback. Where somebody connects faster than connections are
taken in, that never ends, and everybody else waits for as long as it pleases that one: on a busy machine
others waited for 20 s (26 November 2026). So a callback has so much time, whatever comes in it.
"""

import time
from collections.abc import Callable

TURN_S = 0.005
"""A few hundred connections that are turned away, or some that are taken in, whose cost comes after."""


class AcceptTurn:
    """The time of one callback; for one listening socket, on its event loop alone."""

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        self._now_s = now_s
        self._until_s: float | None = None

    def goes_on(self) -> bool:
        """Whether one more connection may be accepted; the turn begins with the first."""
        now_s = self._now_s()
        if self._until_s is None:
            self._until_s = now_s + TURN_S
        if now_s < self._until_s:
            return True
        self._until_s = None
        return False

    def end(self) -> None:
        """Nothing waits any more."""
        self._until_s = None

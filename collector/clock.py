"""Time as an argument: the port through which every effect file learns what time it is.

Pure files never import this module; they are handed ``now_ms``. Do not add timers or scheduling here.
"""

import time
from typing import Protocol

MS_PER_S = 1000


class Clock(Protocol):
    """Wall and monotonic time, so that tests and simulations bring their own."""

    def now_ms(self) -> int:
        """UTC, milliseconds since the Unix epoch."""
        ...

    def monotonic_ms(self) -> int:
        """Milliseconds from an arbitrary start; never goes back."""
        ...

    def sleep(self, seconds: float) -> None:
        """Block for ``seconds`` of this clock's time."""
        ...


class SystemClock:
    """The machine's own clock."""

    def now_ms(self) -> int:
        """UTC, milliseconds since the Unix epoch."""
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        """Milliseconds from an arbitrary start; never goes back."""
        return time.monotonic_ns() // 1_000_000

    def sleep(self, seconds: float) -> None:
        """Block the calling thread."""
        time.sleep(seconds)


class HurriedClock:
    """A calendar that runs ``speed`` times as fast as ``base`` since ``since_ms``; the same before that.

    Only the calendar hurries: work takes as long as it takes, so monotonic time and sleep are ``base``'s own.
    The instant is an argument so that everything that lives by the same calendar, and the same service after
    a restart, agree on it.
    """

    def __init__(self, base: Clock, *, speed: float, since_ms: int) -> None:
        self._base, self._speed, self._since_ms = base, speed, since_ms

    def now_ms(self) -> int:
        """UTC of the hurried calendar, milliseconds since the Unix epoch."""
        now_ms = self._base.now_ms()
        return now_ms + round(max(0, now_ms - self._since_ms) * (self._speed - 1))

    def monotonic_ms(self) -> int:
        """Milliseconds from an arbitrary start, not hurried; never goes back."""
        return self._base.monotonic_ms()

    def sleep(self, seconds: float) -> None:
        """Block for so long, not hurried."""
        self._base.sleep(seconds)

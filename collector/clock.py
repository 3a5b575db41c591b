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

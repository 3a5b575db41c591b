"""When a node's tick was by the head's clock. Pure.

A node says two times: its calendar's, which may be wrong and may jump, and its steady clock's, which counts
from its boot. The head compares the steady one with its own calendar at each request. A request takes time,
so of the last few the one that seems to have travelled shortest tells most. Within ``TOLERANCE_MS`` the
node's calendar is kept as it is: of neighbouring ticks it says more exactly what a network blurs.
"""

from collections import deque
from dataclasses import dataclass, field

from collector.sources.nodes.wire import Batch, Record

TOLERANCE_MS = 1_000
"""Clocks that NTP keeps differ by less; a request on a busy network takes less too."""
REQUESTS = 8
"""At a tick of ten seconds the last minute or so: long enough for one that was quick."""


@dataclass(slots=True)
class NodeClock:
    """What is known of one node's clocks, from request to request."""

    boot: str = ""
    ahead: deque[int] = field(default_factory=lambda: deque(maxlen=REQUESTS))
    """Of the last requests: the node's steady clock less the head's calendar, ms."""
    kept_ms: int = 0
    """How far the node's calendar was last ahead of the head's; 0 within the tolerance."""

    def hear(self, batch: Batch, now_ms: int) -> None:
        """A request came: learn what it says of the node's clocks."""
        if batch.boot != self.boot:
            self.boot = batch.boot
            self.ahead.clear()
        self.ahead.append(batch.steady_ms - now_ms)
        off_ms = batch.sent_ms - self._true_ms(batch.steady_ms)
        if abs(off_ms) <= TOLERANCE_MS:
            self.kept_ms = 0
        elif abs(off_ms - self.kept_ms) > TOLERANCE_MS:
            self.kept_ms = off_ms

    def shift_ms(self, record: Record) -> int:
        """What is to be added to the times of a tick so that they are the head's; 0 within the tolerance.

        Of a boot that is over only the calendar is left: it is taken to have been as wrong as it is now.
        """
        if record.boot != self.boot:
            return -self.kept_ms
        off_ms = record.at_ms - self._true_ms(record.steady_ms)
        if abs(off_ms) <= TOLERANCE_MS:
            return 0
        return -self.kept_ms if abs(off_ms - self.kept_ms) <= TOLERANCE_MS else -off_ms

    def _true_ms(self, steady_ms: int) -> int:
        return steady_ms - max(self.ahead)

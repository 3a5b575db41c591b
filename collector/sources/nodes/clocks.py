"""When a node's tick was by the head's clock. Pure.

A node says two times: its calendar's, which may be wrong and may jump, and its steady clock's, which counts
from its boot. The head compares the steady one with its own calendar at each request. A request takes time:
how long is known, because a node sends back the time of the last answer and for how long it has had it. Of
the last few the quickest tells most. Within ``TOLERANCE_MS`` the node's calendar is kept as it is: of
neighbouring ticks it says more exactly what a network blurs.
"""

from collections import deque
from dataclasses import dataclass, field

from collector.sources.nodes.wire import Batch, Record

TOLERANCE_MS = 1_000
"""Clocks that NTP keeps differ by less."""
REQUESTS = 8
"""At a tick of ten seconds the last minute or so: long enough for one that was quick."""


@dataclass(frozen=True, slots=True)
class _Heard:
    """One request: how long it and the answer before it travelled, and the node's steady clock less ours."""

    travelled_ms: int
    ahead_ms: float


@dataclass(slots=True)
class NodeClock:
    """What is known of one node's clocks, from request to request."""

    boot: str = ""
    heard: deque[_Heard] = field(default_factory=lambda: deque(maxlen=REQUESTS))
    kept_ms: int = 0
    """How far the node's calendar was last ahead of the head's; 0 within what can be told."""

    def hear(self, batch: Batch, now_ms: int) -> None:
        """A request came that sends back an answer's time: learn what it says of the node's clocks."""
        if batch.boot != self.boot:
            self.boot = batch.boot
            self.heard.clear()
        travelled_ms = max(0, now_ms - batch.echo_ms - batch.held_ms)
        self.heard.append(_Heard(travelled_ms, batch.steady_ms - now_ms + travelled_ms / 2))
        off_ms = self._off_ms(batch.sent_ms, batch.steady_ms)
        if not off_ms:
            self.kept_ms = 0
        elif abs(off_ms - self.kept_ms) > TOLERANCE_MS:
            self.kept_ms = off_ms

    def shift_ms(self, record: Record) -> int:
        """What is to be added to the times of a tick so that they are the head's; 0 within the tolerance.

        Of a boot that is over only the calendar is left: it is taken to have been as wrong as it is now.
        """
        if record.boot != self.boot:
            return -self.kept_ms
        off_ms = self._off_ms(record.at_ms, record.steady_ms)
        return -self.kept_ms if abs(off_ms - self.kept_ms) <= TOLERANCE_MS else -off_ms

    def _off_ms(self, at_ms: int, steady_ms: int) -> int:
        """How far ahead the calendar was when the steady clock said so; 0 where that may be travelling."""
        best = min(self.heard, key=lambda each: each.travelled_ms)
        off_ms = round(at_ms - (steady_ms - best.ahead_ms))
        return off_ms if abs(off_ms) > TOLERANCE_MS + best.travelled_ms / 2 else 0

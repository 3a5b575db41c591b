"""Where a background job's device has got to, and how long its pieces take there.

A mark is put behind what was launched. On a GPU it is an event in the queue, so the host goes on and asks
later; on a processor all that was launched is done, and a mark is the time.
"""

import time
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

import torch

LATELY = 8
"""Runs of a piece that count: few, so that a batch that got longer is known after some steps."""

LITTLE_KNOWN = 3
"""A piece with fewer runs is little known: a first run loads kernels and takes a hundred times as long."""

FIRST_S = 0.002
"""What a piece is taken to last before it ran once."""

Mark = Any


class Marks(Protocol):
    """Ends of what was launched so far, of one device."""

    def mark(self) -> Mark:
        """The end of all that was launched up to now."""

    def is_done(self, mark: Mark) -> bool:
        """Whether the device has got there."""

    def wait(self, mark: Mark) -> None:
        """Until it has."""

    def between_s(self, earlier: Mark, later: Mark) -> float | None:
        """Seconds on the device from one to the other, the later one done; None where that has no meaning."""


class DeviceMarks:
    """Of the GPU that this process uses, once it uses one; of the processor before, and without one."""

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        self._now_s = now_s

    def mark(self) -> Mark:
        """An event of the current stream, or the time."""
        if not torch.cuda.is_initialized():
            return self._now_s()
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def is_done(self, mark: Mark) -> bool:
        """The host is not held up."""
        return isinstance(mark, float) or bool(mark.query())

    def wait(self, mark: Mark) -> None:
        """The host turns meanwhile: sleeping would cost more than what is waited for."""
        if not isinstance(mark, float):
            mark.synchronize()

    def between_s(self, earlier: Mark, later: Mark) -> float | None:
        """By the device's own clock."""
        if isinstance(earlier, float) and isinstance(later, float):
            return later - earlier
        if isinstance(earlier, float) or isinstance(later, float) or earlier.device != later.device:
            return None
        if not earlier.query():
            return None  # of another stream
        return float(earlier.elapsed_time(later)) / 1000


class Piece:
    """How long one piece usually takes: its upper quartile of late, so that a stray run counts for nothing.

    Its longest run would not do: one that met the foreground lasts as long as the foreground's work.
    ``middle_s`` is the median, 0 before it was measured: what the piece is counted as.
    """

    __slots__ = ("_lately", "middle_s", "runs", "usual_s")

    def __init__(self) -> None:
        self._lately: deque[float] = deque(maxlen=LATELY)
        self.runs = 0
        self.usual_s = FIRST_S
        self.middle_s = 0.0

    @property
    def is_little_known(self) -> bool:
        """Whether it ran so seldom that its usual length may be that of a first use."""
        return len(self._lately) < LITTLE_KNOWN

    @property
    def lately_s(self) -> tuple[float, ...]:
        """Its last measured runs, in seconds."""
        return tuple(self._lately)

    def lasted(self, seconds: float) -> None:
        """A run was measured."""
        self._lately.append(seconds)
        longest_first = sorted(self._lately, reverse=True)
        self.middle_s = longest_first[len(longest_first) // 2]
        if len(longest_first) < LITTLE_KNOWN:
            self.usual_s = longest_first[-1]
        else:
            self.usual_s = longest_first[max(1, len(longest_first) // 4)]

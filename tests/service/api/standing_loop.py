"""An event loop whose time is a number: whatever would wait goes on at once, and the number says how long."""

import asyncio
import selectors
from collections.abc import Coroutine
from functools import partial
from typing import Any, TypeVar

T = TypeVar("T")

THREADS_S = 0.002
"""So long a thread's answer is really waited for before time goes on."""


class _Jumping(selectors.DefaultSelector):
    def __init__(self, threads_s: float) -> None:
        super().__init__()
        self.now_s, self._threads_s = 0.0, threads_s

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            return super().select(None)
        ready = super().select(min(timeout, self._threads_s))
        if not ready:
            self.now_s += timeout
        return ready


class StandingLoop(asyncio.SelectorEventLoop):
    """For ``asyncio.Runner(loop_factory=StandingLoop)``."""

    def __init__(self, threads_s: float = THREADS_S) -> None:
        self._jumping = _Jumping(threads_s)
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.now_s


def in_no_time(story: Coroutine[Any, Any, T], threads_s: float = THREADS_S) -> T:
    """What the story comes to, on such a loop; one that uses no threads needs 0 s for them."""
    with asyncio.Runner(loop_factory=partial(StandingLoop, threads_s)) as runner:
        return runner.run(story)

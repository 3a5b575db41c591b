"""An event loop whose time is a number: whatever would wait goes on at once, and the number says how long."""

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

THREADS_S = 0.002
"""So long a thread's answer is really waited for before time goes on."""


class _Jumping(selectors.DefaultSelector):
    def __init__(self) -> None:
        super().__init__()
        self.now_s = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            return super().select(None)
        ready = super().select(min(timeout, THREADS_S))
        if not ready:
            self.now_s += timeout
        return ready


class StandingLoop(asyncio.SelectorEventLoop):
    """For ``asyncio.Runner(loop_factory=StandingLoop)``."""

    def __init__(self) -> None:
        self._jumping = _Jumping()
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.now_s


def in_no_time(story: Coroutine[Any, Any, T]) -> T:
    """What the story comes to, on such a loop."""
    with asyncio.Runner(loop_factory=StandingLoop) as runner:
        return runner.run(story)

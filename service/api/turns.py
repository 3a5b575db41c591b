"""So many of one person's requests are worked on at once; their others wait in a line of their own.

The lines are what keeps one who asks much from standing before everybody else: work is handed on only when
its owner's turn has come. On the event loop alone.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from service.api.pace import Delivery
from service.api.persons import person_of
from service.control.errors import OverLimit
from service.control.interface import Caller, Role

RETRY_S = 1
"""Said to who found all turns taken: they are short, and a longer wait would leave them empty."""


@dataclass(slots=True)
class _Line:
    running: int = 0
    waiting: "deque[asyncio.Future[None]]" = field(default_factory=deque)


class Turns:
    """``at_once`` of each person, ``waiting`` more in line; ``what`` and ``setting`` are for refusals."""

    def __init__(self, *, at_once: int, waiting: int, what: str, setting: str) -> None:
        self._at_once, self._waiting = at_once, waiting
        self._what, self._setting = what, setting
        self._lines: dict[str, _Line] = {}

    async def enter(self, person: str | None) -> "Turn":
        """Wait for a turn; ``None`` is not bounded. Raises ``OverLimit`` when too many wait already."""
        if person is None:
            return Turn(lambda: None)
        line = self._lines.setdefault(person, _Line())
        if line.running < self._at_once:
            line.running += 1
            return Turn(lambda: self._leave(person))
        if len(line.waiting) >= self._waiting:
            raise OverLimit(
                f"{line.running + len(line.waiting)} {self._what} of yours are being answered or wait, as "
                f"many as one person may have ({self._setting}); ask again in {RETRY_S} s",
                retry_after_s=RETRY_S,
            )
        mine: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        line.waiting.append(mine)
        try:
            await mine
        except asyncio.CancelledError:
            # The turn came in the same moment as the cancellation: it is passed on, or it would be lost.
            if mine.done() and not mine.cancelled():
                self._leave(person)
            raise
        return Turn(lambda: self._leave(person))

    def _leave(self, person: str) -> None:
        line = self._lines[person]
        while line.waiting:
            following = line.waiting.popleft()
            # Who went away while waiting is passed over.
            if not following.done():
                following.set_result(None)
                return
        line.running -= 1
        if not line.running:
            del self._lines[person]


def bounded_as(caller: Caller) -> str | None:
    """The person by whose line the caller waits; ``None``: an operator, who does not."""
    return None if caller.role is Role.OPERATOR else person_of(caller)


class Turn:
    """One turn; ``end`` may be called more than once."""

    def __init__(self, leave: Callable[[], None]) -> None:
        self._leave: Callable[[], None] | None = leave

    def end(self) -> None:
        """Let the next one of the same person have it."""
        leave, self._leave = self._leave, None
        if leave is not None:
            leave()


class Held(Protocol):
    """What an answer holds while it is sent."""

    def end(self) -> None:
        """Let it go."""


class Ending(Response):
    """A response after which turns end: what is being sent to a slow reader still takes memory.

    A reader who is too slow (``service.api.pace``) gets no more of it.
    """

    def __init__(self, response: Response, held: Sequence[Held], delivery: Delivery | None = None) -> None:
        self._response, self._held = response, held
        self._delivery = delivery or Delivery()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it, however that ends."""
        try:
            await self._delivery.run(lambda paced: self._response(scope, receive, paced), send)
        finally:
            for each in self._held:
                each.end()

    def __getattr__(self, name: str) -> object:
        return getattr(self._response, name)

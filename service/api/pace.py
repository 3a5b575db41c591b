"""How fast an answer has to be read: whoever is slower than a bad line loses it, and it is asked for again.

What is being sent takes memory or disk, and one of its reader's turns. On the event loop alone.
"""

import asyncio
from collections.abc import Awaitable, Callable

from starlette.types import Message, Send

LEAST_BYTES_PER_S = 64 * 1024
"""Half a Mbit/s: less than any line over which somebody would fetch tables."""
GRACE_S = 30.0
"""A reader may do something else for so long, as a program that writes what it was sent to a slow disk."""
LIMIT_S = 3600.0
"""A reader may take so long for all of it: 300 GB at the speed of a disk, 4 GB on a slow line."""


class Delivery:
    """One answer on its way to its reader."""

    def __init__(self) -> None:
        self._sent_bytes = 0
        self._began_s: float | None = None
        self._limit: asyncio.Timeout | None = None

    async def run(self, respond: Callable[[Send], Awaitable[None]], send: Send) -> None:
        """Send it. Raises TimeoutError where its reader is too slow, or it was broken off."""
        began_s = self._began_s = asyncio.get_running_loop().time()
        async with asyncio.timeout(GRACE_S) as limit:
            self._limit = limit

            async def counted(message: Message) -> None:
                await send(message)
                self._sent_bytes += len(message.get("body", b""))
                if not limit.expired():
                    due_s = GRACE_S + self._sent_bytes / LEAST_BYTES_PER_S
                    limit.reschedule(began_s + min(LIMIT_S, due_s))

            await respond(counted)

    def bytes_per_s(self, settled_s: float) -> float | None:
        """How fast it was read until now; ``None`` until it has been on its way for ``settled_s``."""
        if self._began_s is None:
            return None
        took_s = asyncio.get_running_loop().time() - self._began_s
        return None if took_s < settled_s else self._sent_bytes / took_s

    def break_off(self) -> None:
        """End it now: somebody else needs what it takes."""
        if self._limit is not None and not self._limit.expired():
            self._limit.reschedule(asyncio.get_running_loop().time())

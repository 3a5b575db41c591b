"""Makes exports for readers, few at once: each reads a whole span, and lies on the disk until it was sent."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from service.api.export import Exports, pack
from service.api.persons import person_of
from service.api.port import Caller
from service.api.turns import Turn, Turns

AT_ONCE = 2
"""For everybody; of one person one, so that nobody waits for another's two."""
IN_LINE = 4


class ExportQueue:
    """Threads of its own, and a line for each person. On the event loop alone."""

    def __init__(self, exports: Exports) -> None:
        self._exports = exports
        self._pool = ThreadPoolExecutor(max_workers=AT_ONCE, thread_name_prefix="export")
        self._own = Turns(at_once=1, waiting=IN_LINE, what="exports", setting="one at once")
        self._all = Turns(at_once=AT_ONCE, waiting=64, what="exports", setting=f"{AT_ONCE} at once")

    async def turns(self, caller: Caller) -> tuple[Turn, ...]:
        """Wait for one's turn, which is over when all was sent. Raises ``OverLimit``."""
        own = await self._own.enter(person_of(caller))
        try:
            return own, await self._all.enter("everybody")
        except BaseException:
            own.end()
            raise

    async def pack(self, kind: str, from_ms: int, to_ms: int) -> Path:
        """The file to send, as ``service.api.export.pack`` makes it; its folder is to be removed."""
        make = asyncio.get_running_loop().run_in_executor
        return await make(self._pool, pack, self._exports, kind, from_ms, to_ms)

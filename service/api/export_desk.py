"""Makes exports for readers, few at once, and keeps each on the disk until it was sent.

Nobody waits for another's reading: the two threads make the next export while this one is sent. A few may lie
on the disk; where another needs the room, the slowest of the slow readers loses theirs.
"""

import asyncio
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from service.api.export import Exports, NoRoom, pack
from service.api.pace import Delivery
from service.api.persons import person_of
from service.api.turns import Turn, Turns
from service.control.interface import Caller
from service.errors import ServiceBusy

AT_ONCE = 2
"""Made for everybody; of one person one, so that nobody waits for another's two."""
IN_LINE = 4
MOST_UNSENT = 8
"""Of as many persons, being made or sent: each may take ``api.export_gib`` of the disk."""
SLOW_BYTES_PER_S = 1 << 20
"""8 Mbit/s: whoever is slower gives way to somebody who else would wait."""
SETTLED_S = 2.0
"""A reader's speed is not judged before; with ``LOOK_S`` it is how long another waits for a slow one."""
LOOK_S = 0.5


class Packed:
    """An export that was made: its file, and how it is being sent."""

    def __init__(self, queue: "ExportQueue", file: Path, own: Turn) -> None:
        self.file, self.delivery = file, Delivery()
        self._queue, self._own = queue, own

    def end(self) -> None:
        """Remove it: it was sent, or nobody waits for it any more."""
        shutil.rmtree(self.file.parent, ignore_errors=True)
        self._own.end()
        self._queue.ended(self)


class ExportQueue:
    """Threads of its own, and a line for each person. On the event loop alone."""

    def __init__(self, exports: Exports) -> None:
        self._exports = exports
        self._pool = ThreadPoolExecutor(max_workers=AT_ONCE, thread_name_prefix="export")
        self._own = Turns(at_once=1, waiting=IN_LINE, what="exports", setting="one at once")
        self._entering = asyncio.Lock()
        self._making = 0
        self._unsent: list[Packed] = []

    async def pack(self, caller: Caller, kind: str, from_ms: int, to_ms: int) -> Packed:
        """The file to send, as ``service.api.export.pack`` makes it; ``end`` it when that is done.

        Raises ``OverLimit`` where one person has too many in line, and what ``pack`` raises.
        """
        own = await self._own.enter(person_of(caller))
        try:
            async with self._entering:
                # One enters at a time, so that two who wait don't both take the room that one reader left.
                while self._making + len(self._unsent) >= MOST_UNSENT:
                    await self._make_room()
                self._making += 1
            try:
                file = await self._made(kind, from_ms, to_ms)
            finally:
                self._making -= 1
        except BaseException:
            own.end()
            raise
        packed = Packed(self, file, own)
        self._unsent.append(packed)
        return packed

    def ended(self, packed: Packed) -> None:
        """It lies on the disk no longer."""
        if packed in self._unsent:
            self._unsent.remove(packed)

    async def _made(self, kind: str, from_ms: int, to_ms: int) -> Path:
        make = asyncio.get_running_loop().run_in_executor
        while True:
            try:
                return await make(self._pool, pack, self._exports, kind, from_ms, to_ms)
            # Files that wait for their readers take the disk's room: when one goes, it is tried again.
            except (NoRoom, ServiceBusy):
                if not await self._has_more_room():
                    raise

    async def _has_more_room(self) -> bool:
        """Whether an export went away, or a slow reader lost one, within the time in which that is seen."""
        for _ in range(round(SETTLED_S / LOOK_S) + 1):
            if not self._unsent:
                return False
            if await self._make_room():
                return True
        return False

    async def _make_room(self) -> bool:
        """End the slowest of the slow readers, or wait a moment; whether one lies there less."""
        before = tuple(self._unsent)
        speeds = [(each.delivery.bytes_per_s(SETTLED_S), each) for each in before]
        slow = [(speed, each) for speed, each in speeds if speed is not None and speed < SLOW_BYTES_PER_S]
        if slow:
            min(slow, key=lambda pair: pair[0])[1].delivery.break_off()
        for _ in range(10):
            if any(each not in self._unsent for each in before):
                return True
            await asyncio.sleep(LOOK_S / 10)
        return False

"""Tells a launcher what it is to do, as it comes: a line of JSON each, and a sign of life between.

It ends with the job, with its reader, or with the service, whichever is first.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import suppress
from typing import TypeVar

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from service.schemas.answer import Row

T = TypeVar("T")

NDJSON = "application/x-ndjson"
ALIVE_S = 5.0
"""A line without a word, so that both ends see within seconds that the other is gone."""
MOST_OF_ONE_JOB = 2
"""A launcher's stream, and the one of the same launcher that it replaces after a cut."""
ALIVE = {"alive": True}


class Closing:
    """The service's end, told to every stream at once. ``close`` from any thread, ``wait`` on the loop."""

    def __init__(self) -> None:
        self._event = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None

    def close(self) -> None:
        """End all streams, those that begin later too."""
        if self._loop is None:
            self._event.set()
        else:
            with suppress(RuntimeError):  # the loop is over, and its streams with it
                self._loop.call_soon_threadsafe(self._event.set)

    async def wait(self) -> None:
        """Until the service ends."""
        self._loop = asyncio.get_running_loop()
        await self._event.wait()


class Telling(Response):
    """A response of lines as an iterator brings them. Its connection counts as a stream while it lasts."""

    media_type = NDJSON

    def __init__(
        self,
        items: AsyncIterator[Row],
        closing: Closing,
        worded: Callable[[Row], Row],
    ) -> None:
        super().__init__(headers={"cache-control": "no-store", "x-accel-buffering": "no"})
        del self.headers["content-length"]
        self._items, self._closing, self._worded = items, closing, worded
        self._replaced = asyncio.Event()
        self.over: Callable[[], None] = lambda: None

    def replace(self) -> None:
        """End it: another listens in its place."""
        self._replaced.set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Tell, until somebody ends it."""
        counted: Callable[[bool], None] = scope.get("state", {}).get("streams", lambda begins: None)
        counted(True)
        try:
            await self._tell(receive, send)
        finally:
            counted(False)
            self.over()

    async def _tell(self, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        future, ended = _soon(_until_disconnect(receive)), _soon(self._ended())
        following = _soon(anext(self._items))
        try:
            while True:
                awaited: set[asyncio.Future[None] | asyncio.Future[Row]] = {following, future, ended}
                done, _ = await asyncio.wait(awaited, timeout=ALIVE_S, return_when=asyncio.FIRST_COMPLETED)
                if future in done:
                    return
                if following in done:
                    try:
                        item = following.result()
                    except StopAsyncIteration:
                        break
                    await _tell(send, self._worded(item))
                    following = _soon(anext(self._items))
                elif ended in done:
                    break
                else:
                    await _tell(send, ALIVE)
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            await self._let_go(future, ended, following)

    async def _until_replaced(self) -> None:
        await self._replaced.wait()

    async def _ended(self) -> None:
        """Until the service ends, or another listens in its place."""
        waiting = [_soon(self._closing.wait()), _soon(self._until_replaced())]
        try:
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in waiting:
                each.cancel()

    async def _let_go(self, *tasks: "asyncio.Future[None] | asyncio.Future[Row]") -> None:
        for task in tasks:
            task.cancel()
        # Before the generator is closed: it can't be while its next item is still awaited.
        await asyncio.gather(*tasks, return_exceptions=True)
        close = getattr(self._items, "aclose", None)
        if close is not None:
            await close()


class Streams:
    """Who listens to which job: a launcher that lost its line comes again before the old one is noticed.

    More would be held by somebody who means to hold them: the oldest goes. On the event loop alone.
    """

    def __init__(self) -> None:
        self._open: dict[str, list[Telling]] = {}

    def of(self, job: str, stream: Telling) -> Telling:
        """The stream, known as one of its job until it is over."""
        streams = self._open.setdefault(job, [])
        if len(streams) >= MOST_OF_ONE_JOB:
            streams.pop(0).replace()
        streams.append(stream)
        stream.over = lambda: self._over(job, stream)
        return stream

    def _over(self, job: str, stream: Telling) -> None:
        streams = self._open.get(job, [])
        if stream in streams:
            streams.remove(stream)
        if not streams:
            self._open.pop(job, None)


async def _until_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _tell(send: Send, item: Mapping[str, object]) -> None:
    line = json.dumps(item, allow_nan=False, separators=(",", ":")).encode() + b"\n"
    await send({"type": "http.response.body", "body": line, "more_body": True})


def _soon(what: Awaitable[T]) -> "asyncio.Future[T]":
    return asyncio.ensure_future(what)

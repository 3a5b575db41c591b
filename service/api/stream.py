"""Tells a launcher what it is to do, as it comes: a line of JSON each, and a sign of life between.

It ends with the job, with its reader, or with the service, whichever is first.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable
from contextlib import suppress
from typing import Any

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

NDJSON = "application/x-ndjson"
ALIVE_S = 5.0
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
    """A response of lines as an iterator brings them."""

    media_type = NDJSON

    def __init__(self, items: AsyncIterator[dict[str, Any]], closing: Closing) -> None:
        super().__init__(headers={"cache-control": "no-store", "x-accel-buffering": "no"})
        del self.headers["content-length"]
        self._items, self._closing = items, closing

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Tell, until somebody ends it."""
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        gone, ended = _soon(_until_gone(receive)), _soon(self._closing.wait())
        following = _soon(anext(self._items))
        try:
            while True:
                done, _ = await asyncio.wait(
                    {following, gone, ended}, timeout=ALIVE_S, return_when=asyncio.FIRST_COMPLETED
                )
                if gone in done:
                    return
                if following in done:
                    try:
                        item = following.result()
                    except StopAsyncIteration:
                        break
                    await _tell(send, item)
                    following = _soon(anext(self._items))
                elif ended in done:
                    break
                else:
                    await _tell(send, ALIVE)
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            await self._let_go(gone, ended, following)

    async def _let_go(self, *tasks: "asyncio.Future[Any]") -> None:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        close = getattr(self._items, "aclose", None)
        if close is not None:
            await close()


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _tell(send: Send, item: dict[str, Any]) -> None:
    line = json.dumps(item, allow_nan=False, separators=(",", ":")).encode() + b"\n"
    await send({"type": "http.response.body", "body": line, "more_body": True})


def _soon(what: Awaitable[Any]) -> "asyncio.Future[Any]":
    made: asyncio.Future[Any] = asyncio.ensure_future(what)
    return made

"""One person's windows are drawn a few at a time: the others of the same person wait, nobody else does.

Streamlit draws each window on a thread of its own whenever its browser asks, and Python's threads take turns.
A hundred windows that ask again and again left everybody else without an answer for a minute.
"""

import asyncio
from typing import Protocol
from weakref import WeakValueDictionary

from starlette.types import ASGIApp, Message, Receive, Send

from service.pages.server.connections import person_of_client

AT_ONCE = 4
"""Windows of one person, or of one proxy, that are drawn at once: who comes beside them waits for so many."""
LONGEST_S = 10.0
"""A drawing that tells no end (its part of the page has gone) holds its turn so long."""
LEFT_S = 5.0
"""Whoever closes a window while it is drawn has not ended the drawing; it has ended by then."""
LONGEST_END_BYTES = 512
"""The message that a drawing has ended is shorter; longer ones are not looked into."""


class DrawingTurns:
    """The turns of everybody. On the event loop alone."""

    def __init__(self, at_once: int = AT_ONCE) -> None:
        self._at_once = at_once
        self._lines: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()

    def line_of(self, person: str) -> asyncio.Semaphore:
        """The turns of one person; it is forgotten with the last window that holds it."""
        semaphore = self._lines.get(person)
        if semaphore is None:
            semaphore = self._lines[person] = asyncio.Semaphore(self._at_once)
        return semaphore

    def around(self, app: ASGIApp) -> ASGIApp:
        """The same application; what a window asks to be drawn is passed on when its turn has come."""

        async def turned(scope: Message, receive: Receive, send: Send) -> None:
            if scope["type"] != "websocket":
                await app(scope, receive, send)
                return
            window = _Window(self.line_of(person_of_client(scope.get("client"))))

            async def next_message() -> Message:
                message = await receive()
                if _asks_to_be_drawn(message):
                    await window.begin()
                return message

            async def passed_on(message: Message) -> None:
                if _is_end(message):
                    window.end()
                await send(message)

            try:
                await app(scope, next_message, passed_on)
            finally:
                window.leave()

        return turned


class _Window:
    """One window's turn: taken when it asks to be drawn, given back when that has ended."""

    def __init__(self, line: asyncio.Semaphore) -> None:
        self._line = line
        self._until: asyncio.TimerHandle | None = None

    async def begin(self) -> None:
        """Wait for a turn; a window that is drawn already goes on with the one that it has."""
        if self._until is None:
            await self._line.acquire()
            # A drawing whose end is never seen gives its turn back all the same.
            self._hold(LONGEST_S)

    def end(self) -> None:
        """Give it back; safe to call twice."""
        until, self._until = self._until, None
        if until is not None:
            until.cancel()
            self._line.release()

    def leave(self) -> None:
        """It was closed: a drawing that goes on keeps its turn for a while."""
        if self._until is not None:
            self._until.cancel()
            self._hold(LEFT_S)

    def _hold(self, at_most_s: float) -> None:
        self._until = asyncio.get_running_loop().call_later(at_most_s, self.end)


def _asks_to_be_drawn(message: Message) -> bool:
    from streamlit.proto.BackMsg_pb2 import BackMsg

    request = BackMsg()
    return _is_read(request, message.get("bytes")) and request.WhichOneof("type") == "rerun_script"


def _is_end(message: Message) -> bool:
    """Whether it says that a drawing has ended, and no other of the same window follows at once."""
    from streamlit.proto.ForwardMsg_pb2 import ForwardMsg

    content = message.get("bytes")
    if not content or len(content) > LONGEST_END_BYTES:
        return False
    forwarded = ForwardMsg()
    if not _is_read(forwarded, content) or forwarded.WhichOneof("type") != "script_finished":
        return False
    return bool(forwarded.script_finished != ForwardMsg.FINISHED_EARLY_FOR_RERUN)


class _Empty(Protocol):
    def ParseFromString(self, serialized: bytes) -> int: ...  # noqa: N802  protobuf's name


def _is_read(empty: _Empty, content: bytes | None) -> bool:
    """Whether it is a message of Streamlit's, which is put into ``empty``."""
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

    if not content:
        return False
    try:
        empty.ParseFromString(content)
    except DecodeError:
        return False
    return True

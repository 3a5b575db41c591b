"""A few windows of one person are drawn at once; nobody waits for another person's windows."""

import asyncio
import socket
from contextlib import closing
from typing import Any

import pytest
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg

from service.pages.server import drawing_turns
from service.pages.server.connections import Listener, Places, person_at, person_of_client
from service.pages.server.drawing_turns import DrawingTurns, Message, Receive, Send


def asks() -> bytes:
    message = BackMsg()
    message.rerun_script.query_string = ""
    return bytes(message.SerializeToString())


def ended(how: int) -> bytes:
    message = ForwardMsg()
    message.script_finished = how  # type: ignore[assignment]
    return bytes(message.SerializeToString())


class Window:
    """A browser's window before an application that notes what was passed on to it."""

    def __init__(self, turns: DrawingTurns, client: tuple[str, int] | None) -> None:
        self.drawn = 0
        self._asked: asyncio.Queue[bytes] = asyncio.Queue()
        self._says: asyncio.Queue[bytes] = asyncio.Queue()
        scope: Message = {"type": "websocket", "client": client}
        self._task = asyncio.create_task(turns.around(self._app)(scope, self._receive, self._send))

    async def ask(self, content: bytes | None = None) -> None:
        self._asked.put_nowait(asks() if content is None else content)
        await settled()

    async def end(self, how: int = ForwardMsg.FINISHED_SUCCESSFULLY) -> None:
        self._says.put_nowait(ended(how))
        await settled()

    async def close(self) -> None:
        self._task.cancel()
        await settled()

    async def _receive(self) -> Message:
        return {"type": "websocket.receive", "bytes": await self._asked.get()}

    async def _send(self, message: Message) -> None:
        pass

    async def _app(self, scope: Message, receive: Receive, send: Send) -> None:
        async def hears() -> None:
            while True:
                await receive()
                self.drawn += 1

        async def says() -> None:
            while True:
                await send({"type": "websocket.send", "bytes": await self._says.get()})

        await asyncio.gather(hears(), says())


async def settled() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


def played(play: Any) -> None:
    asyncio.run(play())


def test_of_one_persons_windows_so_many_are_drawn_and_the_next_when_one_has_ended() -> None:
    async def play() -> None:
        turns = DrawingTurns(at_once=2)
        windows = [Window(turns, None) for _ in range(4)]
        for each in windows:
            await each.ask()
        assert [each.drawn for each in windows] == [1, 1, 0, 0]
        await windows[0].end()
        assert [each.drawn for each in windows] == [1, 1, 1, 0]
        await windows[0].ask()
        await windows[1].end(ForwardMsg.FINISHED_FRAGMENT_RUN_SUCCESSFULLY)
        assert [each.drawn for each in windows] == [1, 1, 1, 1], "whoever asked first"

    played(play)


def test_what_is_begun_anew_has_not_ended() -> None:
    async def play() -> None:
        turns = DrawingTurns(at_once=1)
        first, second = Window(turns, None), Window(turns, None)
        await first.ask()
        await second.ask()
        await first.ask()
        await first.end(ForwardMsg.FINISHED_EARLY_FOR_RERUN)
        assert (first.drawn, second.drawn) == (2, 0)
        await first.end()
        assert second.drawn == 1

    played(play)


def test_what_asks_for_no_drawing_waits_for_nothing() -> None:
    async def play() -> None:
        turns = DrawingTurns(at_once=1)
        first, second = Window(turns, None), Window(turns, None)
        await first.ask()
        heartbeat = BackMsg()
        heartbeat.app_heartbeat = True
        await second.ask(heartbeat.SerializeToString())
        await second.ask(b"\xff\xff no message of Streamlit's")
        assert second.drawn == 2

    played(play)


def test_a_window_that_was_closed_or_tells_no_end_gives_its_turn_back_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def play() -> None:
        turns = DrawingTurns(at_once=1)
        closed, silent, third = (Window(turns, None) for _ in range(3))
        await closed.ask()
        await silent.ask()
        await third.ask()
        await closed.close()
        assert (silent.drawn, third.drawn) == (0, 0), "it is still drawn"
        async with asyncio.timeout(20):
            while not third.drawn:
                await asyncio.sleep(0.01)
        assert silent.drawn == 1

    monkeypatch.setattr(drawing_turns, "LEFT_S", 0.05)
    monkeypatch.setattr(drawing_turns, "LONGEST_S", 0.05)
    played(play)


def test_nobody_waits_for_somebody_elses_windows() -> None:
    """A person is known by the address of an open connection; the readers of a proxy are one person."""
    with closing(socket.create_server(("127.0.0.1", 0))) as opened:
        listener = Listener(opened, Places(most=10, most_of_one=10))
        theirs = socket.create_connection(listener.getsockname())
        with closing(theirs), closing(listener):
            made, address = listener.accept()
            who = person_at(made)
            assert person_of_client(address) == who
            assert person_of_client(("192.0.2.1", 0)) == person_of_client(None) == "others" != who

            async def play() -> None:
                turns = DrawingTurns(at_once=1)
                windows = [Window(turns, client) for client in (None, ("192.0.2.1", 0), address)]
                for each in windows:
                    await each.ask()
                assert [each.drawn for each in windows] == [1, 0, 1]

            played(play)
            made.close()
            assert person_of_client(address) == "others"

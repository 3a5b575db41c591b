"""The dashboard's port takes so many connections, of one person fewer, and says why it takes no more."""

import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing

import pytest

from service.pages.server.connections import MOST, Listener, Places, bounded, person_at

HOLD = """
import encodings.idna, os, socket, sys
os.setuid(int(sys.argv[2]))
held = [socket.create_connection(("127.0.0.1", int(sys.argv[1]))) for _ in range(int(sys.argv[3]))]
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def opened() -> Iterator[socket.socket]:
    with closing(socket.create_server(("127.0.0.1", 0))) as made:
        yield made


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while line := await reader.readline():
        writer.write(line)
        await writer.drain()
    writer.close()


async def come(port: int) -> tuple[str, asyncio.StreamWriter]:
    """What a connection that says something is told."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"hello\n")
    try:
        return (await reader.readline()).decode().strip(), writer
    except ConnectionError:  # it was closed before it could be read
        return "closed", writer


def test_who_has_all_of_their_places_is_turned_away_until_one_is_free(opened: socket.socket) -> None:
    async def play() -> list[str]:
        listener = Listener(opened, Places(most=10, most_of_one=3))
        port = listener.getsockname()[1]
        listener.setblocking(False)
        async with await asyncio.start_server(echo, sock=listener):
            first = [await come(port) for _ in range(3)]
            refused = await come(port)
            first[0][1].close()
            await first[0][1].wait_closed()
            for _ in range(100):  # until the server has noticed as well
                again = await come(port)
                if again[0] == "hello":
                    break
                await asyncio.sleep(0.01)
            for _, writer in (*first[1:], refused, again):
                writer.close()
        return [*(each[0] for each in first), refused[0], again[0]]

    told = asyncio.run(asyncio.wait_for(play(), 20))
    assert told[:3] == ["hello"] * 3 and told[4] == "hello"
    assert told[3] in ("HTTP/1.1 503 Service Unavailable", "closed")


@pytest.mark.process
@pytest.mark.skipif(os.geteuid() != 0, reason="to be two accounts takes root")
def test_what_one_account_holds_keeps_no_other_out(opened: socket.socket) -> None:
    async def play() -> str:
        listener = Listener(opened, Places(most=10, most_of_one=5))
        port = listener.getsockname()[1]
        listener.setblocking(False)
        async with await asyncio.start_server(echo, sock=listener):
            command = [sys.executable, "-c", HOLD, str(port), "4001", "30"]
            with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
                assert holder.stdout is not None
                assert await asyncio.to_thread(holder.stdout.readline) == b"held\n"
                told, writer = await come(port)
                writer.close()
                holder.terminate()
        return told

    assert asyncio.run(asyncio.wait_for(play(), 30)) == "hello"


def test_the_kernel_says_whose_a_connection_is(opened: socket.socket) -> None:
    with socket.create_connection(opened.getsockname()):
        made, _ = opened.accept()
        with made:
            assert person_at(made) in (f"uid {os.geteuid()}", "address 127.0.0.1")


def test_the_servers_socket_is_bounded_and_a_unix_socket_is_left_as_it_is(opened: socket.socket) -> None:
    assert MOST > 0
    with bounded(opened) as made:
        assert isinstance(made, Listener)
    with socket.socket(socket.AF_UNIX) as local:
        assert bounded(local) is local

"""Nothing is sent to whoever listens where a service should, unless that account is believed."""

import json
import os
import signal
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from service.trust.peers import asked, listed, owners
from tests.service.trust.accounts import ANN, EVE, NAMES, SERVICE, needs_root, owned, typed

HEALTH = json.dumps({"service": "fallow", "status": "ok", "pid": 4242, "now_ms": 1}).encode()
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s"


@dataclass
class Listener:
    """Somebody's socket, who answers everything as a healthy service, and what came there."""

    address: str
    heard: Path

    @property
    def connections(self) -> int:
        return self.heard.read_bytes().count(b"<")

    @property
    def text(self) -> str:
        return self.heard.read_bytes().replace(b"<", b"").decode()


@contextmanager
def listening(uid: int, there: Path, path: Path | None = None) -> Iterator[Listener]:
    """An account that listens at a Unix socket, or on loopback."""
    heard = owned(there / f"heard-{os.urandom(4).hex()}", uid, 0o644, "")
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(reader)
            _listen(uid, path, writer, heard)
        finally:
            os._exit(1)
    os.close(writer)
    with os.fdopen(reader) as told:
        address = told.readline().strip()
    try:
        yield Listener(address, heard)
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def _listen(uid: int, path: Path | None, writer: int, heard: Path) -> None:
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)
    door = socket.socket(socket.AF_INET if path is None else socket.AF_UNIX)
    door.bind(("127.0.0.1", 0) if path is None else str(path))
    door.listen()
    if path is not None:
        path.chmod(0o666)
    address = f"http://127.0.0.1:{door.getsockname()[1]}" if path is None else str(path)
    with heard.open("ab", buffering=0) as out:
        os.write(writer, f"{address}\n".encode())
        while True:
            came, _ = door.accept()
            out.write(b"<")
            text = came.recv(65_536)
            out.write(text)
            if text:
                body = HEALTH if b"/healthz" in text else b"[]"
                came.sendall(ANSWER % (len(body), body))
            came.close()


def announced(data: Path, uid: int, url: str, at: str | None = None) -> None:
    said = {"url": url, "pid": 4242, "started_ms": 1, "version": "0", "socket": at}
    owned(data / "service.json", uid, 0o644, json.dumps(said))


@needs_root
@pytest.mark.parametrize("uid", [ANN, 0])
@pytest.mark.parametrize("words", [("run", "--", "true"), ("status",), ("queue",)])
def test_a_service_of_the_folder_that_somebody_stands_in_is_not_even_connected_to(
    there: Path, words: tuple[str, ...], uid: int
) -> None:
    data = owned(owned(there / "shared", EVE) / ".fallow", EVE)
    with listening(EVE, there, data / "s") as eve, listening(EVE, there) as port:
        announced(data, EVE, port.address, eve.address)
        here = typed(*words, here=data.parent, there=there, uid=uid)
        named = typed(words[0], "--data", str(data), *words[1:], here=there, there=there, uid=uid)
        assert (here[0], named[0]) == (2, 2)
        assert "belongs to eve" in named[1]
        assert (eve.connections, port.connections) == (0, 0)


@needs_root
def test_nothing_is_sent_to_a_socket_where_somebody_else_listens(there: Path) -> None:
    door = owned(there / "run", 0, 0o1777) / "s"
    with listening(EVE, there, door) as eve:
        for words in (("run", "--", "true"), ("status",)):
            status, said = typed(*words, here=there, there=there, uid=ANN, FALLOW_SOCKET=str(door))
            assert status == 2
            assert said.startswith(
                f"fallow: nothing was asked at unix:{door}: eve listens there, and only a "
            )
            assert "service of ann or root is believed" in said
            assert "root can name its account: [system] account in /etc/fallow/fallow.toml" in said
        assert eve.connections > 1 and eve.text == ""


@needs_root
@pytest.mark.parametrize("uid", [ANN, 0, SERVICE])
def test_ones_own_service_and_roots_and_the_named_accounts_are_asked(there: Path, uid: int) -> None:
    if uid == SERVICE:
        owned(there / "etc" / "fallow" / "fallow.toml", 0, 0o644, "[system]\naccount = 'fallow'\n")
    door = owned(there / "run", 0, 0o1777) / "s"
    with listening(uid, there, door) as service:
        typed("queue", here=there, there=there, uid=ANN, FALLOW_SOCKET=str(door))
        assert "GET /v1/queue" in service.text, NAMES[uid]


@needs_root
def test_a_token_is_not_sent_to_who_has_taken_the_port_of_a_service_that_has_gone(there: Path) -> None:
    data = owned(there / "data", ANN, 0o700)
    owned(data / "token", ANN, 0o600, "secret")
    with listening(EVE, there) as eve:
        announced(data, ANN, eve.address)
        status, said = typed("queue", "--data", str(data), here=there, there=there, uid=ANN)
        assert status == 2 and f"no service answers for {data}" in said
        status, said = typed(
            "queue", here=there, there=there, uid=ANN, FALLOW_URL=eve.address, FALLOW_TOKEN="secret"
        )
        assert status == 2 and f"nothing was asked at {eve.address}: eve listens there" in said
        assert eve.connections > 0 and eve.text == ""
    with listening(ANN, there) as own:
        announced(data, ANN, own.address)
        typed("queue", "--data", str(data), here=there, there=there, uid=ANN)
        assert "Authorization: Bearer secret" in own.text


@pytest.mark.parametrize(
    ("bound", "family", "asked_at"),
    [
        ("127.0.0.1", socket.AF_INET, "127.0.0.1"),
        ("0.0.0.0", socket.AF_INET, "127.0.0.1"),
        ("::", socket.AF_INET6, "127.0.0.1"),
        ("::", socket.AF_INET6, "::1"),
        ("::1", socket.AF_INET6, "::1"),
    ],
)
def test_the_kernel_and_its_tables_name_the_same_sockets(bound: str, family: int, asked_at: str) -> None:
    with socket.socket(family) as door:
        door.bind((bound, 0))
        door.listen()
        with socket.create_connection((asked_at, door.getsockname()[1])) as line:
            ends = (line.family, line.getpeername()[:2], line.getsockname()[:2])
            assert set(listed(*ends)) == set(asked(*ends)) and len(asked(*ends)) == 2
            with door.accept()[0]:
                assert owners(*ends) == {os.geteuid()}
                door.close()
                assert owners(*ends) == set(), "who accepted it may not be who listened"


@needs_root
def test_somebody_on_the_same_port_of_all_addresses_is_not_whom_one_reaches(there: Path) -> None:
    """Else anybody could keep everybody from a service by listening beside it."""
    with socket.socket(socket.AF_INET) as door, ExitStack() as ends:
        door.bind(("127.0.0.1", 0))
        door.listen()
        os.seteuid(EVE)
        try:
            beside = ends.enter_context(socket.socket(socket.AF_INET6))
        finally:
            os.seteuid(0)
        beside.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        beside.bind(("::", door.getsockname()[1]))
        beside.listen()
        with socket.create_connection(door.getsockname()) as line, door.accept()[0]:
            reached = (line.family, line.getpeername()[:2], line.getsockname()[:2])
            assert owners(*reached) == {0} == {each.uid for each in listed(*reached)}
        with socket.create_connection(("::1", door.getsockname()[1])) as line, beside.accept()[0]:
            reached = (line.family, line.getpeername()[:2], line.getsockname()[:2])
            assert EVE in owners(*reached) and EVE in {each.uid for each in listed(*reached)}

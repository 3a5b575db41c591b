"""One account against all others, with real uids and connections: the others are answered within 5 s.

Needs root, to become other accounts; skipped aloud elsewhere (``as_uid``).
"""

import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

from service.api import tokens
from service.client.jobs import ActingClient
from service.client.transport import UNIX, Wire
from service.control.interface import Role
from service.errors import BadOrder, Forbidden, OverLimit
from service.server.peers import LocalPeers
from tests.service.api.conftest import ALICE, BOB, DAY_MS, Door, as_uid, submission
from tests.service.conftest import is_well, start, until

pytestmark = pytest.mark.process

EVE = 4003
PATIENCE_S = 5.0
"""Nobody keeps others from asking for longer."""
CONFIG = """
[collect]
tick_s = 1
[simulated]
nodes = 1
gpus_per_node = 2
backfill_days = 0
[api]
socket = "{socket}"
connections = 60
receive_timeout_s = 2
[limits]
jobs = 5
connections = 8
reserved_connections = 8
orders_at_once = 12
orders_per_minute = 60
calls_per_minute = 600
never_fitting = "{never_fitting}"
[quotas.vision]
gpus = 2
members = ["uid-4001"]
[quotas.other]
members = ["*"]
"""


@pytest.fixture(scope="module")
def bounded(tmp_path_factory: pytest.TempPathFactory, traversable: Path) -> Iterator[Door]:
    path = traversable / "bounded.sock"
    data = tmp_path_factory.mktemp("bounded") / "data"
    made = start(data, config=CONFIG.format(socket=path, never_fitting="wait"))
    try:
        until("the service is well", lambda: is_well(made))
        found = Door(running=made, socket=path)
        now_ms = time.time_ns() // 1_000_000
        for name in ("bob", "eve"):
            _, found.secrets[name] = tokens.add(
                data, user=name, role=Role.USER, span_ms=DAY_MS, now_ms=now_ms
            )
        found.secrets["owner"] = made.token
        yield found
    finally:
        _, complaints = made.stop()
    assert "Traceback" not in complaints, complaints


def job(**more: object) -> dict[str, object]:
    return submission(project="other", **more)


@contextmanager
def attacking(attack: Callable[[], None], uid: int = EVE) -> Iterator[None]:
    """Another process, as that account, attacks meanwhile; it is ended with the block."""
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    ready, begun = os.pipe()
    pid = os.fork()
    if pid == 0:
        with suppress(BaseException):
            os.setgroups([])
            os.setresgid(uid, uid, uid)
            os.setresuid(uid, uid, uid)
            threading.Timer(3.0, lambda: os.write(begun, b".")).start()  # by then it is in full swing
            attack()
        os._exit(0)
    try:
        os.close(begun)
        os.read(ready, 1)
        yield
    finally:
        os.close(ready)
        with suppress(ProcessLookupError):
            os.kill(pid, 9)
        os.waitpid(pid, 0)


def longest_s(asks: dict[str, Callable[[], Any]], times: int = 5) -> dict[str, float]:
    """How long each question took at most, asked again and again."""
    found = dict.fromkeys(asks, 0.0)
    for _ in range(times):
        for name, ask in asks.items():
            begun_s = time.monotonic()
            ask()
            found[name] = max(found[name], time.monotonic() - begun_s)
    return found


def holding(address: Any, family: int, request: bytes) -> Callable[[], None]:
    """Open connections as fast as it goes, ask something on each, and hold them all."""

    def attack() -> None:
        held: list[socket.socket] = []
        while True:
            made = socket.socket(family)
            made.settimeout(0.2)
            try:
                made.connect(address)
                made.sendall(request)
                held.append(made)
            except OSError:
                made.close()
            held = held[-900:]

    return attack


HEALTH = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"


@pytest.mark.slow
@pytest.mark.parametrize("request_of", [HEALTH, b"", HEALTH[:20]], ids=["asks", "silent", "half a head"])
@pytest.mark.parametrize("by", ["socket", "tcp"])
def test_held_connections_keep_nobody_else_out(bounded: Door, by: str, request_of: bytes) -> None:
    host, _, port = bounded.running.url.removeprefix("http://").partition(":")
    where = (str(bounded.socket), socket.AF_UNIX) if by == "socket" else ((host, int(port)), socket.AF_INET)
    by_tcp = bounded.client("bob")
    asks = {
        "bob by the socket": lambda: as_uid(BOB, lambda: bounded.client().whoami()),
        "an operator by tcp": lambda: bounded.client("owner").whoami(),
        "a launcher": lambda: as_uid(BOB, lambda: bounded.client().jobs(limit=1)),
    }
    with attacking(holding(*where, request_of)):
        found = longest_s(asks)
        if by == "tcp":  # whose process holds the other end, the kernel says
            found |= longest_s({"bob by tcp": lambda: as_uid(BOB, by_tcp.whoami)})
    assert max(found.values()) < PATIENCE_S, found


def flooding(path: Path, body: bytes, route: str) -> Callable[[], None]:
    """Sixteen threads that order as fast as they are answered."""

    def order() -> None:
        head = f"POST {route} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        request = f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body
        while True:
            with suppress(OSError), socket.socket(socket.AF_UNIX) as made:
                made.settimeout(5)
                made.connect(str(path))
                while True:
                    made.sendall(request)
                    if not made.recv(65_536):
                        break

    def attack() -> None:
        threads = [threading.Thread(target=order, daemon=True) for _ in range(16)]
        for each in threads:
            each.start()
        threads[0].join()

    return attack


def submit_and_cancel(door: Door, nonce: str) -> None:
    door.client().cancel(door.client().submit(job(nonce=nonce)).job)


@pytest.mark.slow
def test_a_flood_of_large_submissions_keeps_nobody_else_from_asking_or_submitting(bounded: Door) -> None:
    large = b'{"command": ["%s"], "project": "other", "min_gpus": 2}' % (b"x" * 8_000)
    number = iter(range(100))
    asks: dict[str, Callable[[], Any]] = {
        "asking": lambda: as_uid(BOB, lambda: bounded.client().queue()),
        "ordering": lambda: as_uid(BOB, partial(submit_and_cancel, bounded, f"b{next(number)}")),
        "reading": lambda: bounded.wire("owner").told("/v1/query/gpus_now"),
    }
    with attacking(flooding(bounded.socket, large, "/v1/jobs")):
        found = longest_s(asks, times=3)
    assert max(found.values()) < PATIENCE_S, found
    theirs = bounded.client().jobs_listed(user=f"uid-{EVE}", ended=False)
    assert theirs.total <= 5, "limits.jobs"


def test_who_has_too_many_connections_reads_why(bounded: Door) -> None:
    def story() -> list[Any]:
        held = []
        for _ in range(8):
            held.append(socket.socket(socket.AF_UNIX))
            held[-1].connect(str(bounded.socket))
        try:
            bounded.client().whoami()
        except OverLimit as error:
            return [str(error), error.retry_after_s]
        return []

    said, retry_after_s = as_uid(ALICE, story)
    assert "8 connections of yours are open" in said and "limits.connections" in said
    assert retry_after_s == 1


def test_too_many_orders_are_refused_with_the_bound_and_when_to_come_again(bounded: Door) -> None:
    def story() -> list[Any]:
        made = [
            bounded.ask("POST", "/v1/jobs", body=job(nonce=f"o{n}"))[0] for n in range(5)
        ]  # of twelve orders at once
        over = bounded.ask("POST", "/v1/jobs", body=job(nonce="o5"))
        rest = [bounded.ask("POST", "/v1/jobs", body=job(nonce="o5"))[1]["message"] for n in range(12)]
        again = bounded.ask("POST", "/v1/jobs", body=job(nonce="o0"))
        return [made, over, rest[-1], again]

    made, over, orders, again = as_uid(4_010, story)
    assert made == [201] * 5
    assert over[0] == 429 and over[1]["error"] == "over-limit"
    assert "uid-4010 has 5 jobs that have not ended" in over[1]["message"]
    assert "too many orders: one person has 12 at once and 60 a minute" in orders
    assert again[0] == 429
    connection = HTTPConnection(bounded.running.url.removeprefix("http://"), timeout=10)
    headers = {"Authorization": f"Bearer {bounded.secrets['eve']}", "Content-Type": "application/json"}
    for _ in range(13):
        connection.request("POST", "/v1/consents", body=b"{}", headers=headers)
        answer = connection.getresponse()
        answer.read()
    assert (answer.status, answer.getheader("retry-after")) == (429, "1")
    connection.close()


def test_a_body_that_trickles_is_given_up_on_as_a_whole(bounded: Door) -> None:
    with socket.socket(socket.AF_UNIX) as slow:
        slow.settimeout(0.5)
        slow.connect(str(bounded.socket))
        head = "POST /v1/jobs HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        slow.sendall(f"{head}Content-Length: 100000\r\n\r\n".encode())
        begun_s, answer = time.monotonic(), b""
        while time.monotonic() - begun_s < 20 and not answer:
            with suppress(TimeoutError):
                slow.sendall(b" ")
                answer = slow.recv(1_000)
        assert answer.startswith(b"HTTP/1.1 4"), "each byte came in time, all of it never would"


def test_nobody_takes_another_projects_guarantee(bounded: Door) -> None:
    theft = submission(project="vision", min_gpus=2, max_gpus=2, nonce="theft")

    def story() -> list[str]:
        try:
            bounded.client().submit(theft)
        except Forbidden as error:
            return [str(error)]
        return []

    (said,) = as_uid(BOB, story)
    assert f"uid-{BOB} is not a member of vision; uid-{BOB} may use other, uid-{BOB}" in said
    entry = as_uid(ALICE, lambda: bounded.client().submit(theft))
    assert (entry["user"], entry["project"]) == (f"uid-{ALICE}", "vision")
    as_uid(ALICE, lambda: bounded.client().cancel(entry["job"]))


def test_the_kernel_says_whose_the_other_end_of_a_connection_is() -> None:
    peers = LocalPeers()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = listener.getsockname()

        def connect() -> int:
            made = socket.socket()
            made.connect(address)
            time.sleep(1.0)
            return 0

        caller = threading.Thread(target=lambda: as_uid(EVE, connect))
        if os.geteuid() != 0:
            pytest.skip("only root can become another user")
        caller.start()
        accepted, _ = listener.accept()
        assert peers.uid_of(accepted) == EVE
        caller.join()
        assert peers.uid_of(accepted) is None, "who has gone is nobody, and not root"
        accepted.close()
        with socket.create_connection(address), listener.accept()[0] as own:
            assert peers.uid_of(own) == os.geteuid()
    peers.close()
    assert peers.uid_of(accepted) is None


def test_what_can_never_run_is_refused_at_the_door(tmp_path: Path) -> None:
    made = start(tmp_path / "data", config=CONFIG.format(socket=tmp_path / "s.sock", never_fitting="refuse"))
    try:
        until("the service is well", lambda: is_well(made))
        client = ActingClient(Wire(url=f"{UNIX}{tmp_path / 's.sock'}", token=None, timeout_s=20))

        def refused() -> bool:
            try:
                client.submit(job(nonce=f"n{time.monotonic_ns()}"))
            except BadOrder as error:
                return "512 GPUs of one kind at once are more than there ever are here (2 " in str(error)
            return False

        until("the cluster was looked at", refused)
    finally:
        made.stop()

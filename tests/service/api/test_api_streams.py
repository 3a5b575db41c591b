"""Streams of directives, and readers who misbehave: slow, silent, half gone, or too many."""

import json
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from service.client.jobs import ActingClient
from service.client.transport import UNIX, Wire
from tests.service.api.conftest import CONFIG, Door, submission
from tests.service.conftest import Running, is_well, start, until

pytestmark = pytest.mark.process


def test_directive_reaches_its_launcher_as_soon_as_it_is_given(door: Door) -> None:
    client = door.client()
    job = client.submit(submission(nonce="told")).job
    heard: list[dict[str, object]] = []
    stream = client.directives(job)
    reading = threading.Thread(target=lambda: heard.extend(stream))
    reading.start()
    until("its place is told", lambda: any("place" in each for each in heard))
    client.cancel(job, "enough")
    until("the order is told", lambda: any("directive" in each for each in heard))
    stream.close()
    reading.join(10)
    assert not reading.is_alive()
    told = next(each["directive"] for each in heard if "directive" in each)
    assert isinstance(told, dict)
    assert (told["is"], told["reason"]) == ("Cancel", "enough")


def test_a_launcher_that_asks_for_no_names_is_told_those_of_before(door: Door) -> None:
    client = door.client()
    job = client.submit(submission(nonce="before")).job
    client.cancel(job, "enough")
    for query, tag in (("", "Stop"), ("?names=2", "Cancel"), ("?names=9", "Cancel")):
        status, answer = door.ask("GET", f"/v1/jobs/{job}/directives{query}")
        told = json.loads(answer)["directive"]
        assert (status, told["is"], told["reason"]) == (200, tag, "enough")


def test_number_of_another_submission_is_unknown_to_its_launcher(door: Door) -> None:
    job = door.client().submit(submission(nonce="this-one")).job
    report = {"at_ms": 1, "launcher": {"node": "n", "pid": 1, "started_ms": 1}, "state": "pending"}
    for nonce, status in (("another", 404), ("this-one", 200)):
        assert door.ask("POST", f"/v1/jobs/{job}/reports?nonce={nonce}", body=report)[0] == status
        assert door.ask("POST", f"/v1/jobs/{job}/reports", body=report)[0] == 200
    asked = door.ask("GET", f"/v1/jobs/{job}/directives?nonce=another")
    assert (asked[0], asked[1]["error"]) == (404, "unknown-job")
    assert door.ask("POST", f"/v1/jobs/{job}/resume?nonce=another", body={})[0] == 404
    assert door.ask("GET", f"/v1/jobs/{job}/directives?nonce=no/nonce")[0] == 422
    stream = door.client().directives(job, nonce="this-one")
    assert next(iter(stream))
    stream.close()


def test_stream_says_that_it_lives_where_there_is_nothing_to_tell(door: Door) -> None:
    client = door.client()
    job = client.submit(submission(nonce="alive")).job
    stream = client.directives(job)
    assert any(each == {"alive": True} for each in stream)
    stream.close()


def test_reader_who_ends_the_stream_from_elsewhere_wakes_its_thread(door: Door) -> None:
    client = door.client()
    stream = client.directives(client.submit(submission(nonce="woken")).job)
    reading = threading.Thread(target=lambda: list(stream))
    reading.start()
    time.sleep(0.2)
    stream.close()
    reading.join(4)
    assert not reading.is_alive()


def raw(path: Path) -> socket.socket:
    made = socket.socket(socket.AF_UNIX)
    made.settimeout(30)
    made.connect(str(path))
    return made


def test_half_closed_stream_is_let_go(door: Door) -> None:
    job = door.client().submit(submission(nonce="half")).job
    with raw(door.socket) as half:
        half.sendall(f"GET /v1/jobs/{job}/directives HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        assert half.recv(65_536).startswith(b"HTTP/1.1 200")
        half.shutdown(socket.SHUT_WR)
        while half.recv(65_536):
            pass


def test_connection_that_asks_nothing_is_closed(door: Door) -> None:
    with raw(door.socket) as silent, raw(door.socket) as trickling:
        trickling.sendall(b"GET /healthz HTTP/1.1\r\nHo")
        assert (silent.recv(1), trickling.recv(1)) == (b"", b"")


def test_body_that_never_comes_holds_nothing_for_long(door: Door) -> None:
    with raw(door.socket) as waiting:
        head = "POST /v1/jobs HTTP/1.1\r\nHost: x\r\nContent-Type: application/json"
        waiting.sendall(f"{head}\r\nContent-Length: 9\r\n\r\n{{".encode())
        assert waiting.recv(65_536).startswith(b"HTTP/1.1 4")


def test_launcher_that_does_not_read_holds_up_nobody(door: Door) -> None:
    client = door.client()
    job = client.submit(submission(nonce="deaf")).job
    with raw(door.socket) as deaf:
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        deaf.sendall(f"GET /v1/jobs/{job}/directives HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        for _ in range(20):
            assert client.job(job).job == job
        assert client.whoami().name == "root"


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[Running]:
    made = start(tmp_path / "data", config=CONFIG.format(socket=tmp_path / "s.sock"))
    try:
        until("the service is well", lambda: is_well(made))
        yield made
    finally:
        made.stop()


def test_service_with_two_hundred_streams_ends_them_all_and_stops(alone: Running) -> None:
    path = alone.data.parent / "s.sock"
    client = ActingClient(Wire(url=f"{UNIX}{path}", token=None, timeout_s=30))
    job = client.submit(submission()).job
    streams = [raw(path) for _ in range(200)]
    for each in streams:
        each.sendall(f"GET /v1/jobs/{job}/directives HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    assert all(each.recv(65_536).startswith(b"HTTP/1.1 200") for each in streams)
    _, complaints = alone.stop()
    assert (alone.process.returncode, complaints) == (0, "")
    for each in streams:
        rest = b"".join(iter(lambda each=each: each.recv(65_536), b""))
        assert rest.endswith(b"0\r\n\r\n"), "the stream ended as a stream ends"
        each.close()


def test_what_was_submitted_is_there_after_a_restart(alone: Running, tmp_path: Path) -> None:
    client = ActingClient(Wire(url=f"{UNIX}{tmp_path / 's.sock'}", token=None, timeout_s=30))
    job = client.submit(submission(name="lasting")).job
    alone.stop()
    again = start(alone.data, config="")
    try:
        until("the service is well", lambda: is_well(again))
        assert client.job(job).submission.name == "lasting"
    finally:
        again.stop()

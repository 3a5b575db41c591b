"""Probe and hand answer the accounts they are for, and are believed by uid, not by place."""

import os
import socket
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from collector.procfs.proc_files import read_link
from service.privileged import wire
from service.privileged.wire import Refused, Request, Unanswered, ask, serve, server
from tests.service.conftest import until

OWN = os.geteuid()


def _answer(request: Request, uid: int) -> Mapping[str, Any]:
    if request["verb"] == "refuse":
        raise Refused("not today")
    return {"said": request["verb"], "uid": uid}


@pytest.fixture
def path(tmp_path: Path) -> Iterator[Path]:
    yield from _listening(tmp_path / "s.sock", {OWN})


def _listening(path: Path, allowed: set[int]) -> Iterator[Path]:
    listener = server(path)
    threading.Thread(target=serve, args=(listener, allowed, _answer), daemon=True).start()
    yield path
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()


def test_a_request_is_answered_and_the_kernel_says_whose_it_is(path: Path) -> None:
    assert ask(path, {"verb": "hello"}, (OWN,)) == {"said": "hello", "uid": OWN}


def test_a_refusal_comes_as_one(path: Path) -> None:
    with pytest.raises(Refused, match="not today"):
        ask(path, {"verb": "refuse"}, (OWN,))


@pytest.mark.parametrize("request_", [{}, {"verb": None}, {"no": "verb"}])
def test_what_cannot_be_read_is_refused_and_the_next_is_answered(path: Path, request_: Request) -> None:
    if "verb" in request_:
        assert ask(path, request_, (OWN,))["said"] is None
    else:
        with pytest.raises(Refused, match="cannot be read"):
            ask(path, request_, (OWN,))
    assert ask(path, {"verb": "hello"}, (OWN,))["said"] == "hello"


@pytest.mark.parametrize(
    "raw", [b"", b"\n", b"[1]\n", b"\x80\x04cos\nsystem\n.", b"{" * 100_000 + b"\n", b"[" * 100_000 + b"\n"]
)
def test_what_is_no_request_gets_no_answer_and_does_no_harm(path: Path, raw: bytes) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        made.connect(str(path))
        made.sendall(raw)
        made.shutdown(socket.SHUT_WR)
        assert made.recv(100) == b""
    assert ask(path, {"verb": "hello"}, (OWN,))["said"] == "hello"


def test_more_than_a_request_may_hold_ends_the_connection(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wire, "MOST_BYTES", 1_000)
    with pytest.raises(Unanswered):
        ask(path, {"verb": "x" * 100_000}, (OWN,))


@pytest.mark.parametrize("raw", [b'{"verb": "hello"}\n', b"no request\n", b'{"verb": "refuse"}\n', b"{"])
def test_descriptors_that_come_along_stay_open_in_nobody(path: Path, raw: bytes) -> None:
    """Of 250 that are sent with each piece; a thousand would end whoever takes them in."""
    ask(path, {"verb": "hello"}, (OWN,))
    before = open_pipes()
    kept, other = os.pipe()
    with socket.socket(socket.AF_UNIX) as made:
        made.connect(str(path))
        socket.send_fds(made, [raw[:1]], [kept] * 250)
        socket.send_fds(made, [raw[1:] or b" "], [kept] * 250)
        made.shutdown(socket.SHUT_WR)
        while made.recv(100):
            pass
    os.close(kept)
    os.close(other)
    until("they are closed", lambda: open_pipes() == before)  # a moment after the connection is


def open_pipes() -> int:
    """Of this process, which is both ends."""
    links = [read_link(each) or "" for each in Path("/proc/self/fd").iterdir()]
    return sum(each.startswith("pipe:") for each in links)


def test_a_socket_of_another_account_is_not_believed(path: Path) -> None:
    with pytest.raises(Unanswered, match=f"served by uid {OWN}, which is not trusted"):
        ask(path, {"verb": "hello"}, (OWN + 1,))


def test_an_account_that_it_is_not_for_is_told_so(tmp_path: Path) -> None:
    for path in _listening(tmp_path / "s.sock", {OWN + 1}):
        with pytest.raises(Refused, match="may ask nothing here"):
            ask(path, {"verb": "hello"}, (OWN,))


def test_nobody_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(Unanswered, match="does not answer"):
        ask(tmp_path / "none.sock", {"verb": "hello"})


def test_others_than_owner_and_group_cannot_even_connect(tmp_path: Path) -> None:
    for path in _listening(tmp_path / "s.sock", {OWN}):
        assert path.stat().st_mode & 0o777 == 0o660

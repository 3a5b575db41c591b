"""Whatever is asked of a controller, and however it is spelt, its training goes on."""

import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Thread

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed; pip install -c constraints.txt torch")

from fallow.control_server import Answer, ControlSocket, Waiting, ask  # noqa: E402
from fallow.controller.controller import Controller  # noqa: E402
from fallow.controller.requests import Steering  # noqa: E402
from fallow.workers.hosts import Hosts, Offer  # noqa: E402
from fallow.workers.relay import address  # noqa: E402

pytestmark = pytest.mark.quick


def steering() -> Steering:
    """A controller that has nothing to start yet, and what can be asked of it."""

    def spawn(environment: object) -> object:
        raise AssertionError("nobody is to be started")

    hosts = Hosts(Offer(name="here", slots=4, host=""), spawn, [], print)  # type: ignore[arg-type]
    controller = Controller(hosts.spawn, workers=1, maximum=4)
    return Steering(controller, hosts, 1, 4)


def asked(path: Path, answers: Callable[[Sequence[str]], Answer | Waiting], *requests: str) -> list[str]:
    """What each of ``requests`` is answered by a socket at ``path`` that is polled meanwhile."""
    control, heard = ControlSocket(path, answers), list[str]()

    def wonder(request: str) -> None:
        heard.append(ask(path, request.split()))

    try:
        for request in requests:
            person = Thread(target=wonder, args=(request,))
            person.start()
            while person.is_alive():
                control.poll()
                person.join(0.01)
    finally:
        control.close()
    return heard


@pytest.mark.parametrize("number", ["²", "٣", "7" * 5_000, "-1", "0", "1.5", "one", "+2", "1_0"])
def test_a_size_that_is_no_number_is_an_unknown_request(number: str, tmp_path: Path) -> None:
    wrong, right = asked(tmp_path / "control", steering().answer, f"resize {number}", "resize 3")
    assert "unknown request" in wrong
    assert len(wrong) < 1_000
    assert right == '{"target": 3}'


def test_a_size_beyond_the_limits_is_held_within_them() -> None:
    assert steering().answer(["resize", "999999999"]) == {"target": 4}


def test_a_request_that_fails_is_answered_with_an_error_and_written_down(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def answers(words: Sequence[str]) -> Answer | Waiting:
        if words == ["now"]:
            raise KeyError("no such thing")
        if words == ["unspoken"]:
            return {"what": object()}
        return later

    def later() -> Answer | None:
        raise ZeroDivisionError("nothing to divide by")

    with caplog.at_level(logging.ERROR, logger="fallow"):
        now, late, unspoken = asked(tmp_path / "control", answers, "now", "later", "unspoken")
    assert "KeyError: 'no such thing'" in now
    assert '"error"' in now
    assert "ZeroDivisionError: nothing to divide by" in late
    assert "the answer cannot be written" in unspoken
    assert "the request 'now' failed" in caplog.text


@pytest.mark.parametrize(
    "text", ["127.0.0.1:99999", "127.0.0.1:²", "127.0.0.1:", ":80", "80", "a:" + "9" * 5_000]
)
def test_what_is_no_address_is_said(text: str) -> None:
    with pytest.raises(ValueError, match=r"no port from 0 to 65535|is not HOST:PORT"):
        address(text)


def test_an_address_is_a_host_and_a_port() -> None:
    assert address("10.0.0.1:65535") == ("10.0.0.1", 65535)
    assert address("[::1]:0") == ("[::1]", 0)

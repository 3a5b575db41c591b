"""No page of another name opens the dashboard: DNS rebinding, played with real requests and WebSockets."""

import socket
from collections.abc import Iterator

import pytest

from service.pages.__main__ import behind_guard
from service.pages.server.host_check import guarded, listed_names, objection
from tests.dashboard.conftest import showing

STREAM = "/_stcore/stream"
LISTED = "gpus.example.org"
pytestmark = [pytest.mark.slow, pytest.mark.process]


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    folder = tmp_path_factory.mktemp("guarded")
    with showing(folder / "log", FALLOW_DATA=str(folder / "none"), FALLOW_DASHBOARD_HOSTS=LISTED) as base:
        yield int(base.rpartition(":")[2])


def asked(port: int, path: str, host: str, *more: str) -> bytes:
    lines = (f"GET {path} HTTP/1.1", f"Host: {host}", "Connection: close", *more, "", "")
    with socket.create_connection(("127.0.0.1", port), timeout=20) as line:
        line.sendall("\r\n".join(lines).encode())
        return line.makefile("rb").readline()


def shaken(port: int, host: str, origin: str | None) -> bytes:
    """The first line of the answer to a WebSocket's handshake."""
    more = [] if origin is None else [f"Origin: {origin}"]
    return asked(
        port,
        STREAM,
        host,
        "Upgrade: websocket",
        "Connection: Upgrade",
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
        "Sec-WebSocket-Version: 13",
        "Sec-WebSocket-Protocol: streamlit",
        *more,
    )


def test_a_rebound_name_reaches_nothing(port: int) -> None:
    evil = f"evil.example:{port}"
    assert b" 403 " in shaken(port, evil, f"http://{evil}")
    for path in ("/", "/_stcore/health", "/_stcore/host-config", "/media/x"):
        assert b" 421 " in asked(port, path, evil), path


def test_a_page_of_another_origin_opens_no_socket(port: int) -> None:
    own = f"127.0.0.1:{port}"
    assert b" 403 " in shaken(port, own, "http://evil.example")
    assert b" 403 " in shaken(port, own, "http://localhost:1"), (
        "another server of this machine is another origin"
    )
    assert b" 403 " in shaken(port, own, "null")


@pytest.mark.parametrize("name", ["127.0.0.1:{}", "localhost:{}", LISTED, f"{socket.gethostname()}:{{}}"])
def test_the_dashboard_itself_is_answered(port: int, name: str) -> None:
    host = name.format(port)
    assert b" 101 " in shaken(port, host, f"http://{host}")
    assert b" 200 " in asked(port, "/", host)


def test_a_listed_proxy_may_hand_on_another_host(port: int) -> None:
    assert b" 101 " in shaken(port, f"127.0.0.1:{port}", f"https://{LISTED}")


def test_it_is_the_application_that_streamlit_serves() -> None:
    from streamlit.web.server.starlette import starlette_server

    made = behind_guard(lambda runtime: runtime)
    assert made(None).__qualname__ == guarded(None).__qualname__  # type: ignore[arg-type]
    assert "create_starlette_app" in starlette_server.UvicornServer.start.__code__.co_names


def test_what_is_refused_says_what_to_do() -> None:
    assert "[dashboard] hosts" in str(objection("evil.example", None, frozenset()))
    assert "[dashboard] hosts" in str(objection("localhost", "http://evil.example", frozenset()))
    assert objection(None, None, frozenset()) is not None
    assert listed_names({"FALLOW_DASHBOARD_HOSTS": "A.example, b"}) == {"a.example", "b"}

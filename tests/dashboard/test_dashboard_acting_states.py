"""What the acting pages say where no service acts: none runs, or an older one does."""

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from tests.dashboard.conftest import Screen, showing
from tests.stores import open_store

pytestmark = pytest.mark.browser
ACTING = ("/queue", "/jobs?by=submitted", "/jobs?job=fallow:1", "/actions")


class Older(BaseHTTPRequestHandler):
    """Answers as the first release did: it measures, and has no acting routes."""

    def do_GET(self) -> None:
        """Health, or that there is no such route."""
        health = self.path == "/healthz"
        said = (
            {"service": "fallow", "status": "ok", "pid": os.getpid()} if health else {"detail": "Not Found"}
        )
        body = json.dumps(said, separators=(",", ":")).encode()
        self.send_response(200 if health else 404)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing on the terminal."""


@contextmanager
def older_service() -> Iterator[str]:
    """Its address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Older)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()


def notice(screen: Screen) -> str:
    return str(screen.page.locator(".st-key-notice").first.inner_text())


def test_an_older_service_is_told_apart_from_none(tmp_path: Path, look: Callable[..., Screen]) -> None:
    with (
        older_service() as url,
        showing(tmp_path / "log", FALLOW_URL=url, FALLOW_TOKEN="t", FALLOW_DATA=str(tmp_path)) as base,
    ):
        screen = look(base)
        for path in ACTING:
            screen.open(path)
            screen.until("() => document.querySelector('.st-key-notice')")
            assert "older than this page" in notice(screen), path
            assert "fallow serve" in notice(screen)
        screen.leave()


def test_without_a_service_the_acting_pages_say_what_goes_on_and_how_to_start_one(
    tmp_path: Path, look: Callable[..., Screen]
) -> None:
    data = tmp_path / "data"
    data.mkdir()
    open_store(data / "fallow.duckdb").close()
    with showing(tmp_path / "log", FALLOW_DATA=str(data)) as base:
        screen = look(base)
        for path in ACTING:
            screen.open(path)
            screen.until("() => document.querySelector('.st-key-notice')")
            assert "No service runs" in notice(screen), path
            assert "Jobs that run go on" in notice(screen)
        screen.open("/settings")
        assert "default" in screen.headline
        screen.leave()

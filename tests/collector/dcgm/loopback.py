"""A real HTTP server on a free loopback port, answering as a test tells it to."""

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One HTTP answer; ``drip`` is sent byte for byte after the body until the client gives up."""

    body: bytes = b""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    hangs: bool = False
    endless: bytes = b""


def text(body: str, **headers: str) -> Answer:
    return Answer(body=body.encode(), headers={"Content-Type": "text/plain; version=0.0.4", **headers})


class QuietServer(ThreadingHTTPServer):
    """Whose clients may hang up in the middle of anything, as a service that is ended does."""

    def handle_error(self, request: object, client_address: object) -> None:
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


@contextmanager
def serving(answer: Callable[[str, Mapping[str, str]], Answer]) -> Iterator[str]:
    """The base URL of a server that answers ``answer(path, request headers)``."""
    over = Event()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            found = answer(self.path, dict(self.headers))
            if found.hangs:
                over.wait(30)
                self.close_connection = True
                return
            self.send_response(found.status)
            for name, value in found.headers.items():
                self.send_header(name, value)
            if found.endless:
                self.close_connection = True
                self.end_headers()
                self._pour(found.endless)
                return
            self.send_header("Content-Length", str(len(found.body)))
            self.end_headers()
            self.wfile.write(found.body)

        def _pour(self, piece: bytes) -> None:
            try:
                while not over.wait(0.02 if len(piece) == 1 else 0):
                    self.wfile.write(piece)
            except OSError:
                return

        def log_message(self, *_: object) -> None:
            return

    server = QuietServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        over.set()
        server.shutdown()
        server.server_close()
        thread.join()

"""A door to ``tests.bucket``'s server: it answers some requests with an error of S3's, then lets all in."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace

from collector.store.bucket import ArchivePlace
from tests.bucket import BucketServer

SLOW_DOWN = ("503 Slow Down", "SlowDown")
DENIED = ("403 Forbidden", "AccessDenied")
"""Status and code (Amazon S3 API Reference, "Error responses")."""
BODY = '<?xml version="1.0" encoding="UTF-8"?><Error><Code>{code}</Code><Message>no</Message></Error>'
HEAD = "HTTP/1.1 {status}\r\nConnection: close\r\nContent-Length: {size}\r\n\r\n"


@dataclass
class FailingBucket:
    """``failures`` are given one by one; ``given`` counts them."""

    behind: BucketServer
    failures: list[tuple[str, str]] = field(default_factory=list)
    given: int = 0
    listener: socket.socket = field(default_factory=lambda: socket.create_server(("127.0.0.1", 0)))

    @property
    def place(self) -> ArchivePlace:
        """The server's, through this door."""
        return replace(self.behind.place, endpoint=f"http://127.0.0.1:{self.listener.getsockname()[1]}")

    def serve(self) -> None:
        """Until it is closed."""
        with suppress(OSError):
            while True:
                caller, _ = self.listener.accept()
                threading.Thread(target=self._answer, args=(caller,), daemon=True).start()

    def _answer(self, caller: socket.socket) -> None:
        with caller, suppress(OSError):
            if self.failures:
                status, code = self.failures.pop(0)
                self.given += 1
                body = BODY.format(code=code)
                caller.recv(65536)
                caller.sendall((HEAD.format(status=status, size=len(body)) + body).encode())
                caller.shutdown(socket.SHUT_WR)
                caller.recv(65536)  # until the caller has read it, or a reset would take it away
                return
            port = int(self.behind.place.endpoint.rpartition(":")[2])
            with socket.create_connection(("127.0.0.1", port)) as server:
                back = threading.Thread(target=_pass_on, args=(server, caller), daemon=True)
                back.start()
                _pass_on(caller, server)
                back.join()


def _pass_on(source: socket.socket, sink: socket.socket) -> None:
    with suppress(OSError):
        while some := source.recv(65536):
            sink.sendall(some)
    for end in (source, sink):
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)


@contextmanager
def failing(behind: BucketServer) -> Iterator[FailingBucket]:
    """A door that is open within the block."""
    door = FailingBucket(behind)
    with door.listener:
        threading.Thread(target=door.serve, daemon=True).start()
        yield door

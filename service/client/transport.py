"""One request to a service and its answer, over TCP or a Unix socket; the standard library's client.

A verb must be quick and a launcher lives as long as its job, so nothing heavy is imported here, and every
call is a connection of its own that any thread may make. On a Unix socket (``unix:PATH``) the kernel tells
the service who calls; on TCP a token does. Who listens is looked at before anything is sent (``peers``).
"""

import json
import os
import socket
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from email.message import Message
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from service.errors import NotAllowed, ServiceBusy, ServiceDown, ServiceOlder, by_kind
from service.schemas.headers import JSON, ROLE_HEADER
from service.trust.peers import must_trust_peer

VIEWER = "viewer"
UNIX = "unix:"
NO_SUCH_ROUTE = "unknown-route"
NO_ROUTE = b'{"detail":"Not Found"}'
"""What a service answers to a path that it does not know; the second one before it could act."""
_TIMEVAL = struct.Struct("@ll")
LONGEST_ADDRESS = 107
"""What ``sun_path`` holds beside its end; unix(7)."""


class UnixConnection(HTTPConnection):
    """HTTP over a Unix socket, however long its path is."""

    def __init__(self, path: Path, timeout_s: float) -> None:
        super().__init__("localhost", timeout=timeout_s)
        self._path = path

    def connect(self) -> None:
        """Connect; called by the standard library. Raises OSError."""
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            with reachable(self._path) as address:
                _connect_in_turn(sock, address, self.timeout)
        except OSError:
            sock.close()
            raise
        self.sock = sock


class Wire:
    """A service at an address (``http://…``, ``https://…``, ``unix:PATH``). Threads may share it."""

    def __init__(self, *, url: str, token: str | None, timeout_s: float, only_looks: bool = False) -> None:
        self.url = url.rstrip("/")
        self.timeout_s = timeout_s
        self._always = {"Authorization": f"Bearer {token}"} if token else {}
        if only_looks:
            self._always[ROLE_HEADER] = VIEWER

    @contextmanager
    def asked(
        self,
        path: str,
        *,
        accept: str = JSON,
        body: bytes | None = None,
        timeout_s: float | None = None,
        connected: Callable[[socket.socket], None] | None = None,
    ) -> Iterator[HTTPResponse]:
        """The answer, its body still to be read: a GET, or a POST of a JSON body.

        Raises ``ServiceDown``, and ``Untrusted`` before anything is sent to somebody who isn't believed.
        ``connected`` is given the socket, so that another thread can end what is being read.
        """
        connection, root = _connection(self.url, self.timeout_s if timeout_s is None else timeout_s)
        headers = {"Accept": accept, **self._always}
        if body is not None:
            headers["Content-Type"] = JSON
        try:
            try:
                connection.connect()
                if not isinstance(connection, HTTPSConnection):  # whose certificate says who it is
                    must_trust_peer(connection.sock, self.url)
                if connected is not None:
                    connected(connection.sock)
                method = "GET" if body is None else "POST"
                with suppress(BrokenPipeError, ConnectionResetError):  # who is turned away is told so unasked
                    connection.request(method, f"{root}{path}", body=body, headers=headers)
                response = connection.getresponse()
            except (OSError, HTTPException) as error:
                raise ServiceDown(self.down(error)) from error
            yield response
        finally:
            connection.close()

    def told(self, path: str, body: dict[str, object] | None = None) -> Any:
        """The JSON answer to a GET, or to a POST of ``body``. Blocks. Raises ``ClientError``."""
        return self.answered(path, body)[0]

    def answered(self, path: str, payload: dict[str, object] | None = None) -> tuple[Any, Message]:
        """The same with the answer's headers."""
        body = None if payload is None else json.dumps(payload).encode()
        with self.asked(path, body=body) as response:
            try:
                answer = response.read()
            except (OSError, HTTPException) as error:
                raise ServiceDown(self.down(error)) from error
        if not 200 <= response.status < 300:
            raise self.refusal(response, answer)
        try:
            return json.loads(answer), response.headers
        except ValueError as error:
            raise ServiceDown(f"{self.url} answers, but not in JSON; is it a Fallow service?") from error

    def down(self, error: Exception) -> str:
        """Why nothing was heard, and what to do."""
        # It may be there and slow: to start another one would be the wrong advice.
        if isinstance(error, TimeoutError):
            return (
                f"the service at {self.url} did not answer in time; is the machine overloaded? "
                "See `fallow doctor`"
            )
        return f"no service answers at {self.url} ({error}); start one with `fallow serve`"

    def refusal(self, response: HTTPResponse, body: bytes) -> Exception:
        """What an answer that is no success means."""
        try:
            document = json.loads(body)
            kind, message = str(document["error"]), str(document["message"])
        except (ValueError, KeyError, TypeError):
            if response.status in (401, 403):
                return NotAllowed(f"the service at {self.url} refused the token")
            if response.status == 404 and body == NO_ROUTE:
                return self._older()
            return ServiceDown(
                f"{self.url} answered {response.status} {response.reason}; is it a Fallow service?"
            )
        if response.status == 404 and kind == NO_SUCH_ROUTE:
            return self._older()
        error = by_kind(kind, message)
        wait = response.headers.get("Retry-After", "")
        if isinstance(error, ServiceBusy) and wait.isdigit():
            error.retry_after_s = float(wait)
        return error

    def _older(self) -> ServiceOlder:
        return ServiceOlder(
            f"the service at {self.url} has no such route: it is of an older Fallow, or does not act; "
            "start it again with this one"
        )


def _connect_in_turn(connection: socket.socket, address: str, timeout_s: float | None) -> None:
    """Connect; where many wait to be accepted, wait in the kernel's line. Raises OSError, TimeoutError.

    With a timeout of Python's own the socket does not block, and a full line is an error at once (EAGAIN).
    """
    seconds, part = divmod(timeout_s or 0.0, 1)  # 0: for ever (SO_SNDTIMEO, socket(7))
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, _TIMEVAL.pack(int(seconds), int(part * 1e6)))
    try:
        connection.connect(address)
    except BlockingIOError as error:
        raise TimeoutError(error.errno, "too many wait to be let in") from error
    connection.settimeout(timeout_s)


@contextmanager
def reachable(path: Path) -> Iterator[str]:
    """An address for a socket's path that the kernel takes: a long one by way of its open folder."""
    if len(os.fsencode(path)) <= LONGEST_ADDRESS:
        yield str(path)
        return
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY)
    try:
        # The folder stays open meanwhile: the name leads to it even if its path changes.
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)


def _connection(url: str, timeout_s: float) -> tuple[HTTPConnection, str]:
    """A connection not yet made, and what comes before every path on it."""
    if url.startswith(UNIX):
        return UnixConnection(Path(url.removeprefix(UNIX)), timeout_s), ""
    address = urlsplit(url)
    kind = HTTPSConnection if address.scheme == "https" else HTTPConnection
    return kind(address.hostname or "", address.port, timeout=timeout_s), address.path

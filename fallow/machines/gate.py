"""The way into a controller's store from another machine: only who knows the token is let through.

The store listens on loopback alone and trusts whoever connects. A ``Gate`` on the controller's machine takes
connections on an address of the user's choice, has each prove that it knows the token, proves it in turn, and
passes bytes on; a ``Relay`` on the other machine gives its workers a loopback address that leads there. The
token is never sent (HMAC-SHA256 over fresh nonces); what follows is not encrypted: trust the network between.
"""

import hashlib
import hmac
import re
import secrets
import socket
import threading
from collections.abc import Callable

HELLO = b"FALLOW1\n"
NONCE_BYTES = 32
PROOF_BYTES = 32
HANDSHAKE_S = 5.0
CUT_OFF_MS = 20_000
"""A connection whose other end acknowledges nothing for so long is closed."""
MOST_CONNECTIONS = 4096
HIGHEST_PORT = 65_535


class Refused(Exception):
    """The other side does not know the token, or speaks something else."""


class Gate:
    """Listens on ``address``, host:port, and leads to ``target`` on this machine; ``close`` ends it.

    Raises OSError when the address cannot be listened on.
    """

    def __init__(self, address: tuple[str, int], target: tuple[str, int], token: str):
        def through() -> socket.socket:
            return socket.create_connection(target, timeout=HANDSHAKE_S)

        self._door = _Door(address, lambda guest: _challenge(guest, token), through)

    @property
    def port(self) -> int:
        """Where it listens."""
        return self._door.port

    def close(self) -> None:
        """Stop listening; connections that are open stay."""
        self._door.close()


class Relay:
    """A loopback address of this machine that leads through the gate at ``gate``; ``close`` ends it."""

    def __init__(self, gate: tuple[str, int], token: str):
        self._door = _Door(("127.0.0.1", 0), lambda guest: None, lambda: enter(gate, token))

    @property
    def address(self) -> str:
        """host:port for a store client of this machine."""
        return f"127.0.0.1:{self._door.port}"

    def close(self) -> None:
        """Stop listening; connections that are open stay."""
        self._door.close()


def address(text: str) -> tuple[str, int]:
    """What HOST:PORT means. Raises ValueError, with a sentence, for anything else."""
    host, _, port = text.rpartition(":")
    if not host or not re.fullmatch("[0-9]+", port):
        raise ValueError(f"{text[:100]!r} is not HOST:PORT")
    if len(port) > len(str(HIGHEST_PORT)) or int(port) > HIGHEST_PORT:
        raise ValueError(f"{text[:100]!r} has no port from 0 to {HIGHEST_PORT}")
    return host, int(port)


def enter(gate: tuple[str, int], token: str) -> socket.socket:
    """A connection that the gate has let through. Raises Refused, or OSError when nothing answers."""
    connection = socket.create_connection(gate, timeout=HANDSHAKE_S)
    try:
        if _exactly(connection, len(HELLO)) != HELLO:
            raise Refused(f"{gate[0]}:{gate[1]} is no gate of a fallow controller")
        theirs, ours = _exactly(connection, NONCE_BYTES), secrets.token_bytes(NONCE_BYTES)
        connection.sendall(ours + _proof(token, b"guest", theirs, ours))
        if not hmac.compare_digest(_exactly(connection, PROOF_BYTES), _proof(token, b"gate", theirs, ours)):
            raise Refused(f"the gate at {gate[0]}:{gate[1]} does not know our token")
    except (Refused, OSError):
        connection.close()
        raise
    return connection


class _Door:
    """Takes connections, has each admitted, and passes bytes between it and what ``through`` opens."""

    def __init__(
        self,
        address: tuple[str, int],
        admit: Callable[[socket.socket], None],
        through: Callable[[], socket.socket],
    ):
        self._listener = socket.create_server(address)
        self._admit, self._through = admit, through
        self._places = threading.BoundedSemaphore(MOST_CONNECTIONS)
        threading.Thread(target=self._listen, name="fallow-gate", daemon=True).start()

    @property
    def port(self) -> int:
        port: int = self._listener.getsockname()[1]
        return port

    def close(self) -> None:
        self._listener.close()

    def _listen(self) -> None:
        while True:
            try:
                guest, _ = self._listener.accept()
            except OSError:
                return
            if self._places.acquire(blocking=False):
                threading.Thread(target=self._serve, args=(guest,), name="fallow-gate", daemon=True).start()
            else:
                guest.close()

    def _serve(self, guest: socket.socket) -> None:
        try:
            with guest:
                guest.settimeout(HANDSHAKE_S)
                self._admit(guest)
                with self._through() as inner:
                    _join(guest, inner)
        except (Refused, OSError):
            return
        finally:
            self._places.release()


def _challenge(guest: socket.socket, token: str) -> None:
    ours = secrets.token_bytes(NONCE_BYTES)
    guest.sendall(HELLO + ours)
    theirs = _exactly(guest, NONCE_BYTES)
    if not hmac.compare_digest(_exactly(guest, PROOF_BYTES), _proof(token, b"guest", ours, theirs)):
        raise Refused("a stranger")
    guest.sendall(_proof(token, b"gate", ours, theirs))


def _proof(token: str, side: bytes, gates: bytes, guests: bytes) -> bytes:
    return hmac.new(token.encode(), side + gates + guests, hashlib.sha256).digest()


def _exactly(connection: socket.socket, count: int) -> bytes:
    got = b""
    while len(got) < count:
        part = connection.recv(count - len(got))
        if not part:
            raise Refused("the other side hung up: it does not know our token, or speaks something else")
        got += part
    return got


def _join(one: socket.socket, other: socket.socket) -> None:
    """Pass bytes both ways until either side ends or is cut off."""
    for end in (one, other):
        end.settimeout(None)
        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        end.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if hasattr(socket, "TCP_USER_TIMEOUT"):
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 5)
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 5)
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, CUT_OFF_MS)
    back = threading.Thread(target=_pump, args=(other, one), name="fallow-gate", daemon=True)
    back.start()
    _pump(one, other)
    back.join()


def _pump(source: socket.socket, sink: socket.socket) -> None:
    try:
        while part := source.recv(65536):
            sink.sendall(part)
    except OSError:
        pass
    for end in (source, sink):
        try:
            end.shutdown(socket.SHUT_RDWR)
        except OSError:
            continue

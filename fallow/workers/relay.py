"""The way into a controller's store from another machine: only who knows the token is let through.

The store listens on loopback alone. A ``RelayServer`` on the controller's machine takes connections on an
address of the user's choice, has each prove that it knows the token, proves it in turn, hands out the job's
secret, and passes bytes on; a ``Relay`` on the other machine gives its workers a loopback address that leads
there, and turns other accounts of that machine away. The token is never sent (HMAC-SHA256 over fresh nonces),
and the secret travels under a mask that only the token gives. What follows is not encrypted by the gate:
values in the store are sealed, what workers say to each other is not. Trust the network between.

    gate:  HELLO, nonce
    guest: nonce, proof
    gate:  masked secret, proof
"""

import hmac
import re
import secrets
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass

from fallow import accounts
from fallow.secret import KEY_BYTES, Secret

FAMILY = b"FALLOW"
HELLO = FAMILY + b"2\n"
"""With the version of what follows: 2 since the gate hands out the job's secret."""
# As long as the digest that answers it.
NONCE_BYTES = 32
# The length of a SHA-256 digest.
PROOF_BYTES = 32
# Two lines each way; who takes longer holds a place that another could have.
HANDSHAKE_S = 5.0
CUT_OFF_MS = 20_000
"""A connection whose other end acknowledges nothing for so long is closed."""
MOST_CONNECTIONS = 4096
HIGHEST_PORT = 65_535


class Refused(Exception):
    """The other side does not know the token, or speaks something else."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entered:
    """A connection that a gate has let through, and the secret of the job behind it."""

    connection: socket.socket
    secret: Secret


class RelayServer:
    """Listens on ``address``, host:port, and leads to ``target`` on this machine; ``close`` ends it.

    ``secret`` is the job's. Raises OSError when the address cannot be listened on.
    """

    def __init__(self, address: tuple[str, int], target: tuple[str, int], token: str, secret: Secret):
        def through() -> socket.socket:
            return socket.create_connection(target, timeout=HANDSHAKE_S)

        self._door = _Door(address, lambda guest: _challenge(guest, token, secret), through)

    @property
    def port(self) -> int:
        """Where it listens."""
        return self._door.port

    def close(self) -> None:
        """Stop listening; connections that are open stay."""
        self._door.close()


class Relay:
    """A loopback address of this machine that leads through the gate at ``gate``; ``close`` ends it.

    Only processes of this account, and root's, are led there.
    """

    def __init__(self, gate: tuple[str, int], token: str):
        self._door = _Door(("127.0.0.1", 0), _check_account, lambda: enter(gate, token).connection)

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


def enter(gate: tuple[str, int], token: str) -> Entered:
    """Be let through by a gate. Raises Refused, or OSError when nothing answers."""
    connection = socket.create_connection(gate, timeout=HANDSHAKE_S)
    try:
        return Entered(connection=connection, secret=_enter(connection, f"{gate[0]}:{gate[1]}", token))
    except (Refused, OSError):
        connection.close()
        raise


def _enter(connection: socket.socket, where: str, token: str) -> Secret:
    hello = _exactly(connection, len(HELLO))
    if hello != HELLO:
        other = "is the gate of another version of fallow: install the same on all machines"
        raise Refused(f"{where} {other if hello.startswith(FAMILY) else 'is no gate of a fallow controller'}")
    theirs, ours = _exactly(connection, NONCE_BYTES), secrets.token_bytes(NONCE_BYTES)
    connection.sendall(ours + _proof(token, b"guest", theirs + ours))
    masked, proof = _exactly(connection, KEY_BYTES), _exactly(connection, PROOF_BYTES)
    if not hmac.compare_digest(proof, _proof(token, b"gate", theirs + ours + masked)):
        raise Refused(f"the gate at {where} does not know our token")
    return Secret(_masked(masked, token, theirs + ours))


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


def _challenge(guest: socket.socket, token: str, secret: Secret) -> None:
    ours = secrets.token_bytes(NONCE_BYTES)
    guest.sendall(HELLO + ours)
    theirs = _exactly(guest, NONCE_BYTES)
    if not hmac.compare_digest(_exactly(guest, PROOF_BYTES), _proof(token, b"guest", ours + theirs)):
        raise Refused("a stranger")
    masked = _masked(secret.key, token, ours + theirs)
    guest.sendall(masked + _proof(token, b"gate", ours + theirs + masked))


def _proof(token: str, side: bytes, message: bytes) -> bytes:
    return hmac.digest(token.encode(), side + message, "sha256")


def _masked(key: bytes, token: str, nonces: bytes) -> bytes:
    """``key`` with a mask put on or taken off that only the token gives, and that is used once."""
    mask = _proof(token, b"secret", nonces)
    return bytes(one ^ other for one, other in zip(key, mask, strict=True))


def _check_account(guest: socket.socket) -> None:
    """Raises Refused for a connection from another account of this machine."""
    account = accounts.at_other_end(guest)
    if account is not None and not accounts.is_ours(account):
        raise Refused(f"account {account} of this machine is none of ours")


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

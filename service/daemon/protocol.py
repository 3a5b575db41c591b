"""HTTP as uvicorn speaks it, and three things more that a door open to a whole machine needs.

Who is at the other end of a Unix socket (SO_PEERCRED) stands in each request's ``state``; a connection that
begins no request is closed; and one person cannot hold all connections.
"""

import asyncio
import socket
import struct
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

from service.api.identity import Peer

CREDENTIALS = struct.Struct("3i")
FULL = (
    b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\nconnection: close\r\n"
    b"retry-after: 1\r\ncontent-length: 85\r\n\r\n"
    b'{"error": "busy", "message": "too many connections of this user; close some of them"}'
)


class DoorProtocol(H11Protocol):
    """A connection of somebody whom the kernel knows, or over TCP of somebody unknown.

    ``head_timeout_s`` is how long a request's head may take, and how long a connection may be silent before
    its first one.
    """

    def __init__(self, *args: Any, head_timeout_s: float, **more: Any) -> None:
        super().__init__(*args, **more)
        self.uid: int | None = None
        self._head_timeout_s = head_timeout_s
        self._deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Note who it is; called by the loop."""
        super().connection_made(transport)
        peer = _peer(transport)
        if peer is not None:
            self.uid = peer.uid
            self.app_state = {**self.app_state, "peer": peer}
            if self._holds_too_many(peer.uid):
                transport.write(FULL)
                transport.close()
                return
        self._mind_head()

    def data_received(self, data: bytes) -> None:
        """Pass on; called by the loop."""
        super().data_received(data)
        self._mind_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Let go; called by the loop."""
        self._forget_deadline()
        super().connection_lost(exc)

    def _mind_head(self) -> None:
        if self.cycle is not None and not self.cycle.response_complete:
            self._forget_deadline()
        elif self._deadline is None:
            self._deadline = self.loop.call_later(self._head_timeout_s, self._too_slow)

    def _too_slow(self) -> None:
        self._deadline = None
        if self.cycle is None or self.cycle.response_complete:
            self.transport.close()

    def _forget_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _holds_too_many(self, uid: int) -> bool:
        """Whether this user's connections are more than half of all there may be."""
        most = self.limit_concurrency
        if most is None or len(self.connections) <= most // 2:
            return False
        held = sum(1 for each in self.connections if isinstance(each, DoorProtocol) and each.uid == uid)
        return held > most // 2


def _peer(transport: asyncio.Transport) -> Peer | None:
    made: Any = transport.get_extra_info("socket")
    if made is None or made.family != socket.AF_UNIX:
        return None
    pid, uid, _ = CREDENTIALS.unpack(made.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, CREDENTIALS.size))
    return Peer(pid=pid, uid=uid)

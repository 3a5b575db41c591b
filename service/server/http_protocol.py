"""HTTP as uvicorn speaks it, and three things more that a door open to a whole machine needs.

Who is at the other end of a Unix socket (SO_PEERCRED) stands in each request's ``state``; a connection that
begins no request is closed; and one person cannot hold all connections, by whichever door they come.
"""

import asyncio
import socket
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from service.server.bounded_listener import peer_of, whose
from service.server.connection_limits import ConnectionSlots, refusal
from service.server.peers import LocalPeers

MOST_HEAD_BYTES = 64 * 1024
"""Of a request's first line and headers: uvicorn's own bound."""
LINGER_S = 2.0
"""Who is refused is told so, and has so long to send what is not read: closed at once, the answer is lost."""


class WholeBodies(h11.Connection):
    """Reads no body that comes in pieces: the gate refuses such a request by its head.

    To take a piece in costs 16 µs whatever its length, on the loop that serves everybody: one MiB in pieces
    of a byte took 16 s of it, and others waited for 3 s (26 November 2026, two cores).
    """

    _in_pieces = False

    def next_event(self) -> "h11.Event | type[h11.NEED_DATA] | type[h11.PAUSED]":
        """The next event; none after the head of such a request."""
        if self._in_pieces:
            return h11.PAUSED
        event = super().next_event()
        if isinstance(event, h11.Request):
            self._in_pieces = any(name == b"transfer-encoding" for name, _ in event.headers)
        return event


UNREAD_S = 60.0
"""A closed connection whose last bytes nobody reads is kept so long for them, then dropped."""


class HttpProtocol(H11Protocol):
    """A connection of somebody whom the kernel knows, or of an address elsewhere.

    ``head_timeout_s`` is how long a request's head may take, and how long a connection may be silent before
    its first one.
    """

    def __init__(
        self, *args: Any, head_timeout_s: float, places: ConnectionSlots, peers: LocalPeers, **more: Any
    ) -> None:
        super().__init__(*args, **more)
        self.conn = WholeBodies(h11.SERVER, MOST_HEAD_BYTES)
        self.uid: int | None = None
        self._head_timeout_s = head_timeout_s
        self._places, self._peers = places, peers
        self._person, self._is_remote = "", False
        self._has_place = self._lingers = False
        self._deadline: asyncio.TimerHandle | None = None
        self._dropping: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Note who it is; called by the loop."""
        super().connection_made(transport)
        connection: socket.socket = transport.get_extra_info("socket")
        peer = peer_of(connection)
        if peer is not None:
            self.uid = peer.uid
            self.app_state = {**self.app_state, "peer": peer}
        self._person, self._is_remote = whose(connection, self._peers, self._places)
        why = self._places.come(self._person, is_remote=self._is_remote)
        if why is not None:
            self._refuse(transport, why)
            return
        self._has_place = True
        self.app_state = {
            **self.app_state,
            "person": self._person,
            "streams": self._streams,
            "hang_up": transport.abort,
        }
        self._mind_head()

    def data_received(self, data: bytes) -> None:
        """Pass on; called by the loop."""
        if not self._has_place:
            self.transport.close()
            return
        super().data_received(data)
        self._mind_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Let go; called by the loop."""
        self._forget_deadline()
        if self._dropping is not None:
            self._dropping.cancel()
        if self._has_place:
            self._has_place = False
            self._places.go(self._person, is_remote=self._is_remote)
        if self._lingers:
            self._lingers = False
            self._places.part(self._person)
        super().connection_lost(exc)

    def timeout_keep_alive_handler(self) -> None:
        """Close it, for nothing more is asked; called by the loop."""
        super().timeout_keep_alive_handler()
        self._drop_unread()

    def _drop_unread(self) -> None:
        if self._dropping is None:
            self._dropping = self.loop.call_later(UNREAD_S, self.transport.abort)

    def _refuse(self, transport: asyncio.Transport, why: str) -> None:
        transport.write(refusal(why))
        self._lingers = self._places.linger(self._person)
        if self._lingers:
            self._deadline = self.loop.call_later(LINGER_S, transport.close)
        else:
            transport.close()

    def _streams(self, begins: bool) -> None:
        self._places.stream(self._person, begins)

    def _mind_head(self) -> None:
        if self.cycle is not None and not self.cycle.response_complete:
            self._forget_deadline()
        elif self._deadline is None:
            self._deadline = self.loop.call_later(self._head_timeout_s, self._too_slow)

    def _too_slow(self) -> None:
        self._deadline = None
        if self.cycle is None or self.cycle.response_complete:
            self.transport.close()
            self._drop_unread()

    def _forget_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

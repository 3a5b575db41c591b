"""A listening socket that turns away, before anything is made for them, those who have too much already.

A connection costs the server a tenth of a millisecond before a byte is read. Somebody who opens them faster
than that fills the kernel's queue, and others do not get as far as the door (connect(2) on a full queue of a
Unix socket: EAGAIN). To accept and close costs a fifth of it.
"""

import os
import socket
from contextlib import suppress

from service.api.identity import Peer
from service.api.persons import person_at
from service.client.accept_turn import AcceptTurn
from service.server.connection_limits import ConnectionSlots
from service.server.peers import CREDENTIALS, LocalPeers

LOOPBACK = ("", "127.0.0.1", "::1", "::ffff:127.0.0.1")


class Listener(socket.socket):
    """Another handle of a listening socket, for one event loop."""

    def __init__(
        self,
        opened: socket.socket,
        places: ConnectionSlots,
        peers: LocalPeers,
        turn: AcceptTurn | None = None,
    ) -> None:
        super().__init__(fileno=os.dup(opened.fileno()))
        self._turn = turn or AcceptTurn()
        self._places, self._peers = places, peers

    def accept(self) -> tuple[socket.socket, object]:
        """The next connection of somebody who has a place, or is to be told why there is none."""
        while self._turn.goes_on():
            try:
                connection, address = super().accept()
            except BlockingIOError:
                self._turn.end()
                raise
            person, _remote = whose(connection, self._peers, self._places)
            if not self._places.is_shed(person):
                return connection, address
            with suppress(OSError):
                # Whoever doesn't read the answer must not hold up those who come next.
                connection.setblocking(False)
                connection.send(self._places.shed_answer)
            connection.close()
        raise BlockingIOError  # the rest when it is asked for again


def whose(connection: socket.socket, peers: LocalPeers, places: ConnectionSlots) -> tuple[str, bool]:
    """The person at the other end of an accepted connection, and whether they are on another machine."""
    peer = peer_of(connection)
    if peer is not None:
        return places.person_of_uid(peer.uid), False
    uid = peers.uid_of(connection)
    if uid is not None:
        return places.person_of_uid(uid), False
    try:
        address = str(connection.getpeername()[0])
    except OSError:
        address = ""
    return person_at(address), address not in LOOPBACK


def peer_of(connection: socket.socket) -> Peer | None:
    """The process at the other end of a Unix socket; ``None``: it is none."""
    if connection.family != socket.AF_UNIX:
        return None
    pid, uid, _ = CREDENTIALS.unpack(
        connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, CREDENTIALS.size)
    )
    return Peer(pid=pid, uid=uid)

"""How many connections the dashboard's port has, and how many of them one person: the rest is turned away.

Streamlit's server takes any number and closes none that asks nothing. Each takes a file and some memory of
the process that draws for everybody, so whoever opened enough of them kept everybody out.
"""

import resource
import socket
from collections import Counter
from contextlib import suppress

from service.client.accept_turn import AcceptTurn
from service.trust.peers import ESTABLISHED, asked
from service.trust.persons import person_of_uid

MOST = 1024
"""A reader's browser holds three to six, so these are for some two hundred at once; a process that serves so
many has long been slow."""
MOST_OF_ONE = 256
"""An account, or another machine: a proxy before the dashboard is one as well, and has fifty readers with
it."""
SPARE_FILES = 256
"""What the process opens beside: its code, its questions to the service, Streamlit's watchers."""
_WHY = b"The dashboard has as many connections as it takes, or as one person may have; close some.\n"
_ANSWER = (
    b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: text/plain\r\nconnection: close\r\nretry-after: 5\r\n"
    b"content-length: %d\r\n\r\n%b" % (len(_WHY), _WHY)
)
_MAPPED = "::ffff:"
Address = tuple[str, int]
_persons: dict[Address, str] = {}
"""Who is at the other end of each open connection: an application is told its address alone."""


class Places:
    """The open connections by person. On the event loop alone."""

    def __init__(self, most: int, most_of_one: int) -> None:
        self._most, self._most_of_one = most, most_of_one
        self._held: Counter[str] = Counter()

    def take(self, person: str) -> bool:
        """Whether there was a place, which is that person's now."""
        if self._held.total() >= self._most or self._held[person] >= self._most_of_one:
            return False
        self._held[person] += 1
        return True

    def leave(self, person: str) -> None:
        """Give it back."""
        self._held[person] -= 1
        if self._held[person] <= 0:
            del self._held[person]


class Connection(socket.socket):
    """An accepted connection, which gives its place back when it is closed."""

    _place: tuple[Places, str] | None = None
    _address: Address | None = None

    def held_by(self, places: Places, person: str, address: Address) -> "Connection":
        """The same, with a place that is to be given back."""
        self._place, self._address = (places, person), address
        _persons[address] = person
        return self

    def close(self) -> None:
        """Close it; safe to call twice."""
        place, self._place = self._place, None
        if place is not None:
            place[0].leave(place[1])
        if self._address is not None:
            _persons.pop(self._address, None)
        super().close()


class Listener(socket.socket):
    """A listening socket that accepts for whoever has a place."""

    def __init__(self, opened: socket.socket, places: Places) -> None:
        super().__init__(opened.family, opened.type, opened.proto, fileno=opened.detach())
        self._places, self._turn = places, AcceptTurn()

    def accept(self) -> tuple[socket.socket, object]:
        """The next connection that finds a place; others are told why there is none, and closed."""
        while self._turn.goes_on():
            try:
                connection, address = super().accept()
            except BlockingIOError:
                self._turn.end()
                raise
            person = person_at(connection)
            if self._places.take(person):
                accepted = Connection(
                    connection.family, connection.type, connection.proto, fileno=connection.detach()
                )
                return accepted.held_by(self._places, person, address[:2]), address
            with suppress(OSError):
                connection.setblocking(False)
                connection.send(_ANSWER)
            connection.close()
        raise BlockingIOError  # the rest when it is asked for again


def bounded(opened: socket.socket) -> socket.socket:
    """A listening TCP socket, bounded; as many files as that takes may be opened from now on."""
    if opened.family not in (socket.AF_INET, socket.AF_INET6):
        return opened  # a Unix socket lies in a folder, whose owner says who may reach it
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    files = MOST + SPARE_FILES
    if soft < files:
        soft = files if hard == resource.RLIM_INFINITY else min(files, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    most = max(1, min(MOST, soft - SPARE_FILES))
    return Listener(opened, Places(most, min(MOST_OF_ONE, max(1, most // 2))))


def person_at(connection: socket.socket) -> str:
    """The account at the other end, as the kernel says, or the address where it is another machine's."""
    try:
        theirs, ours = connection.getpeername()[:2], connection.getsockname()[:2]
    except OSError:
        return "nobody"
    family = connection.family
    if theirs[0].startswith(_MAPPED):  # a client of IPv4 has a socket of IPv4, also where we listen on both
        family = socket.AF_INET
        theirs, ours = ((each[0].removeprefix(_MAPPED), each[1]) for each in (theirs, ours))
    ends = asked(family, theirs, ours) if theirs[0] == ours[0] else ()
    uid = next((each.uid for each in ends if each.state == ESTABLISHED and each.inode), None)
    return f"address {theirs[0]}" if uid is None else person_of_uid(uid)


def person_of_client(client: tuple[str, int] | None) -> str:
    """Whose an open connection is, by the address that the application was told; one for all others.

    A proxy's readers, whom it names by addresses of theirs, are so one person.
    """
    return _persons.get((str(client[0]), int(client[1])), "others") if client else "others"

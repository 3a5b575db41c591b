"""The TCP connections of one gloo group, so that a wait in it can be ended from another thread.

Gloo's ``abort`` ends no wait that is under way: with a peer whose network is gone it lasts as long as a step
may. A socket that is shut down ends it at once, with an error, on this side and at peers that are reachable.
Which sockets of the process are the group's is known by their addresses: each member listens at a port that
only this group has, and each connection has one of those at an end. Nothing else is touched.

Linux alone shows a process its sockets (/proc/self/fd); elsewhere none are found, and nothing is ended.
"""

import os
import socket
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

FILES = Path("/proc/self/fd")
Address = tuple[str, int]
Made = TypeVar("Made")


@dataclass(frozen=True, slots=True, kw_only=True)
class Connections:
    """The connections between these addresses, at which the members of a group listen."""

    listening: frozenset[Address]

    def shut(self) -> int:
        """End all of this process; how many there were. Safe to repeat, and from any thread."""
        return self._each(lambda connection: connection.shutdown(socket.SHUT_RDWR))

    def watch(self, silence_s: int) -> int:
        """Have the kernel end those whose other machine acknowledges nothing for so long; how many there are.

        A process that is merely slow or stopped acknowledges: its kernel does (tcp(7)).
        """
        options = {
            (socket.SOL_SOCKET, socket.SO_KEEPALIVE): 1,  # who only waits sends nothing to acknowledge
            (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE): 1,
            (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL): 1,
            (socket.IPPROTO_TCP, socket.TCP_KEEPCNT): silence_s,
            (socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT): silence_s * 1000,
        }

        def keep(connection: socket.socket) -> None:
            for (level, name), value in options.items():
                connection.setsockopt(level, name, value)

        return self._each(keep)

    def _each(self, act: Callable[[socket.socket], None]) -> int:
        count = 0
        for connection in _sockets():
            with suppress(OSError):  # it has ended meanwhile, or is connected to nobody
                if {_address(connection.getsockname()), _address(connection.getpeername())} & self.listening:
                    act(connection)
                    count += 1
        return count


def listener_of(make: Callable[[], Made]) -> tuple[Made, Address | None]:
    """What ``make`` makes, and where it listens from then on; ``None`` where that can't be told for sure."""
    before = set(_listening())
    listener = make()
    new = set(_listening()) - before
    return listener, new.pop() if len(new) == 1 else None


def written(address: Address | None) -> str:
    """As text for the others of the group; empty: not known."""
    return "" if address is None else f"{address[1]} {address[0]}"


def read(text: str) -> Address | None:
    """What ``written`` wrote."""
    port, _, host = text.partition(" ")
    return (host, int(port)) if host else None


def _listening() -> Iterator[Address]:
    for connection in _sockets():
        with suppress(OSError):
            if connection.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
                yield _address(connection.getsockname())


def _sockets() -> Iterator[socket.socket]:
    """A handle of our own on each TCP socket of this process, closed after its turn.

    A number may be another file's by the time it is taken; so all is asked of the handle.
    """
    try:
        numbers = [int(each.name) for each in FILES.iterdir()]
    except OSError:
        return
    for number in numbers:
        try:
            if not str((FILES / str(number)).readlink()).startswith("socket:"):
                continue
            connection = socket.socket(fileno=os.dup(number))
        except OSError:
            continue
        with closing(connection):
            if (
                connection.family in (socket.AF_INET, socket.AF_INET6)
                and connection.type == socket.SOCK_STREAM
            ):
                yield connection


def _address(name: tuple[str, int]) -> Address:
    return name[0], name[1]

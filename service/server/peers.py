"""Whose process is at the other end of a TCP connection on this machine, as the kernel says.

TCP names nobody, but for a connection that never leaves the machine the kernel knows the uid of the socket at
its other end (NETLINK_SOCK_DIAG, sock_diag(7)); so nobody on it takes more than their part by not using the
Unix socket. It is used for bounds alone, never for a right: what is to be done is asked for with a token.
"""

import socket
import struct
from contextlib import suppress
from ipaddress import IPv4Address, IPv6Address, ip_address

CREDENTIALS = struct.Struct("3i")
"""pid, uid and gid at the other end of a Unix socket (SO_PEERCRED, unix(7))."""
NETLINK_SOCK_DIAG = 4
SOCK_DIAG_BY_FAMILY = 20
NLM_F_REQUEST = 1
ALL_STATES = 0xFFFFFFFF
NO_COOKIE = 0xFFFFFFFF
_HEADER = struct.Struct("=IHHII")
_REQUEST = struct.Struct("=BBBBI")
_COOKIE = struct.Struct("=III")
UID_AT = _HEADER.size + 4 + 48 + 12
"""Where the uid stands in an answer: after nlmsghdr, four bytes, the socket's id, and three counters
(struct inet_diag_msg, linux/inet_diag.h); the inode follows it."""


class LocalPeers:
    """Asks the kernel about one connection at a time, some microseconds each; ``close`` it at the end."""

    def __init__(self) -> None:
        self._line: socket.socket | None = None
        with suppress(OSError, AttributeError):
            self._line = socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM, NETLINK_SOCK_DIAG)
            self._line.settimeout(0.05)  # the kernel answers at once or never

    def uid_of(self, accepted: socket.socket) -> int | None:
        """The uid at the other end of an accepted TCP connection; ``None``: another machine, or unknown."""
        if self._line is None:
            return None
        try:
            theirs, ours = accepted.getpeername(), accepted.getsockname()
            self._line.send(_question(_address(theirs[0]), theirs[1], _address(ours[0]), ours[1]))
            answer = self._line.recv(4096)
        except (OSError, ValueError):
            return None
        if len(answer) < UID_AT + 8 or _HEADER.unpack_from(answer)[1] != SOCK_DIAG_BY_FAMILY:
            return None
        uid, inode = struct.unpack_from("=II", answer, UID_AT)
        return int(uid) if inode else None  # a socket that was closed already has no file, and says uid 0

    def close(self) -> None:
        """Let go of the line to the kernel."""
        if self._line is not None:
            self._line.close()


def _address(text: str) -> IPv4Address | IPv6Address:
    """The address as its own socket has it: a client on IPv4 is one, also where we listen on both."""
    ip = ip_address(text.partition("%")[0])
    return (ip.ipv4_mapped or ip) if isinstance(ip, IPv6Address) else ip


def _question(
    theirs: IPv4Address | IPv6Address, their_port: int, ours: IPv4Address | IPv6Address, our_port: int
) -> bytes:
    """Ask for the socket whose own address is theirs: struct inet_diag_req_v2."""
    family = socket.AF_INET if theirs.version == 4 else socket.AF_INET6
    body = (
        _REQUEST.pack(family, socket.IPPROTO_TCP, 0, 0, ALL_STATES)
        + struct.pack(">HH", their_port, our_port)
        + theirs.packed.ljust(16, b"\0")
        + ours.packed.ljust(16, b"\0")
        + _COOKIE.pack(0, NO_COOKIE, NO_COOKIE)
    )
    return _HEADER.pack(_HEADER.size + len(body), SOCK_DIAG_BY_FAMILY, NLM_F_REQUEST, 0, 0) + body

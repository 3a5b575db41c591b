"""Who listens at the other end of a connection, as the kernel says, before anything is sent there.

On a Unix socket that is the account that listens (SO_PEERCRED, unix(7)). On TCP it can be told of this
machine's own addresses: the kernel names the account behind each of its sockets. A port is anybody's once its
service has gone, so a token isn't sent there on the word of an old announcement. What listens elsewhere is
known by nothing but its address, or by its certificate over https.
"""

import errno
import socket
import struct
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from collector.procfs.accounts import name_of
from service.errors import ServiceDown, Untrusted
from service.trust.believed import SYSTEM_FILE, believed, trusted_uids

CREDENTIALS = struct.Struct("3i")
"""pid, uid, gid: ``struct ucred``, unix(7)."""
ESTABLISHED, LISTENS = 1, 10
"""TCP_ESTABLISHED and TCP_LISTEN in the kernel's net/tcp_states.h."""
ASK_S = 1.0
"""The kernel answers at once; a bound all the same."""

Address = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Owned:
    """One of this machine's sockets: its state, and whose it is. No inode: nobody has accepted it yet."""

    state: int
    uid: int
    inode: int


def must_trust_peer(connection: socket.socket, url: str) -> None:
    """Raises ``Untrusted`` where somebody listens who isn't believed, ``ServiceDown`` where nobody does."""
    if connection.family == socket.AF_UNIX:
        peer = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, CREDENTIALS.size)
        _must_trust(frozenset({CREDENTIALS.unpack(peer)[1]}), url)
        return
    server, client = connection.getpeername()[:2], connection.getsockname()[:2]
    if server[0] == client[0] and sys.platform == "linux":
        _must_trust(owners(connection.family, server, client), url)


def owners(family: int, server: Address, client: Address) -> frozenset[int]:
    """The uids behind this machine's end of a connection, and behind the socket that listens there.

    Who has accepted the connection counts beside who listens now: one may have left the port to the other.
    None where that cannot be told, as of a service that has just gone.
    """
    uids = asked(family, server, client) or tuple(listed(family, server, client))
    # Both ends have to be told: who accepted may have closed the listening socket, and another opened it
    # since.
    if {each.state for each in uids} != {LISTENS, ESTABLISHED}:
        return frozenset()
    return frozenset(each.uid for each in uids if each.inode)


def _must_trust(uids: frozenset[int], url: str) -> None:
    if not uids:
        raise ServiceDown(
            f"nothing was asked at {url}: whose process listens there cannot be told; if it is Fallow's, ask "
            "it at its Unix socket ($FALLOW_SOCKET)"
        )
    strangers = uids - trusted_uids()
    if strangers:
        names = " and ".join(sorted(map(name_of, strangers)))
        raise Untrusted(
            f"nothing was asked at {url}: {names} listens there, and only a service of {believed()} is "
            f"believed; if it is the machine's, root can name its account: [system] account in {SYSTEM_FILE}"
        )


# -- asking the kernel: sock_diag(7), struct inet_diag_req_v2 and inet_diag_msg of linux/inet_diag.h ---------

NETLINK_SOCK_DIAG, SOCK_DIAG_BY_FAMILY, NLM_F_REQUEST, NLMSG_ERROR = 4, 20, 1, 2
_HEADER = struct.Struct("=IHHII")
_REQUEST = struct.Struct("=BBBBI")
# struct inet_diag_sockid: two ports, two addresses of 16 bytes, the interface and the cookie.
_ID_BYTES = 48
_MESSAGE = struct.Struct(f"=BBBB{_ID_BYTES}x5I")
_EVERY_STATE = 0xFFFFFFFF
_NO_COOKIE = b"\xff" * 8


def asked(family: int, server: Address, client: Address) -> tuple[Owned, ...]:
    """The connection's other end, and the socket that would get the next one; nothing: no answer."""
    nobody = ("0.0.0.0" if family == socket.AF_INET else "::", 0)
    try:
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_SOCK_DIAG) as line:
            line.settimeout(ASK_S)
            uids = [_one(line, family, server, each) for each in (client, nobody)]
    except OSError:
        return ()
    return tuple(each for each in uids if each is not None)


def _one(line: socket.socket, family: int, local: Address, remote: Address) -> Owned | None:
    ends = struct.pack("!HH", local[1], remote[1]) + _packed(family, local[0]) + _packed(family, remote[0])
    request = _REQUEST.pack(family, socket.IPPROTO_TCP, 0, 0, _EVERY_STATE) + ends + bytes(4) + _NO_COOKIE
    size = _HEADER.size + len(request)
    line.sendto(_HEADER.pack(size, SOCK_DIAG_BY_FAMILY, NLM_F_REQUEST, 0, 0) + request, (0, 0))
    answer = line.recv(8192)
    if _HEADER.unpack_from(answer)[1] == NLMSG_ERROR:
        number = -struct.unpack_from("=i", answer, _HEADER.size)[0]
        if number != errno.ENOENT:
            raise OSError(number, "sock_diag")
        return None
    _, state, _, _, _, _, _, uid, inode = _MESSAGE.unpack_from(answer, _HEADER.size)
    return Owned(state, uid, inode)


def _packed(family: int, address: str) -> bytes:
    return socket.inet_pton(family, address.partition("%")[0]).ljust(16, b"\0")


# -- the same from /proc/net, where that cannot be asked: slow on a machine with a large table ---------------

_TABLES = {
    socket.AF_INET: (("tcp", ""), ("tcp6", f"{'0' * 16}{socket.htonl(0xFFFF):08X}")),
    socket.AF_INET6: (("tcp6", ""),),
}
"""The tables that can have a connection's sockets, and what stands before an IPv4 address in one of IPv6
(RFC 4291, 2.5.5.2)."""


def listed(family: int, server: Address, client: Address, net: Path = Path("/proc/net")) -> Iterator[Owned]:
    """The same from proc_net(5). Of sockets that listen at its port, those at the very address go first."""
    open_to_all: list[Owned] = []
    exact = 0
    for name, before in _TABLES[socket.AddressFamily(family)]:
        local, remote = (before + _printed(family, each) for each in (server, client))
        port = local[-5:]
        for fields in _fields(net / name, port):
            row = Owned(int(fields[3], 16), int(fields[7]), int(fields[9]))
            if fields[1] == local and (row.state == LISTENS or fields[2] == remote):
                exact += row.state == LISTENS
                yield row
            elif row.state == LISTENS and fields[1].strip("0") == port:
                open_to_all.append(row)
    if not exact:
        yield from open_to_all[:1]


def _fields(table: Path, port: str) -> Iterator[list[str]]:
    try:
        with table.open(encoding="ascii") as lines:
            yield from (line.split() for line in lines if port in line)
    except OSError:
        return


def _printed(family: int, address: Address) -> str:
    """An address and a port as they stand there: words of four bytes, as this machine orders them."""
    packed = socket.inet_pton(family, address[0].partition("%")[0])
    return "".join(f"{number:08X}" for (number,) in struct.iter_unpack("=I", packed)) + f":{address[1]:04X}"

"""Which network interface an elastic training's sums go over: that of the route to its controller.

Left to themselves gloo takes the one that the machine's name resolves to (on Debian 127.0.1.1, where no other
machine is), and NCCL the first that is up, which may be a container bridge. An agent knows better: the
address from which it reached the controller. Interfaces are those of Linux; elsewhere nothing is set.
"""

import array
import fcntl
import ipaddress
import socket
import struct
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from fallow import protocol

GLOO, NCCL = "GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"
SIOCGIFCONF = 0x8912
"""All IPv4 addresses of this machine with their interfaces: netdevice(7)."""
IFREQ_BYTES, NAME_BYTES = 40, 16
"""``struct ifreq`` of 64-bit Linux, and the name at its beginning; the address is 4 bytes further."""
MOST_ADDRESSES = 4_096
ELSEWHERE = "192.0.2.1"
"""An address of nobody (RFC 5737), to ask for the route to other machines; nothing is sent there."""
INET6 = Path("/proc/net/if_inet6")


def socket_variables(host: str, environment: Mapping[str, str]) -> dict[str, str]:
    """What a worker that others reach at ``host`` must be told, for its own groups and for the script's.

    Nothing on loopback, where no other machine takes part, and nothing in place of what a person chose.
    """
    name = None if not host or _is_loopback(host) else interface_of(host)
    if name is None:
        return {}
    told = {GLOO: name, NCCL: f"={name}"}  # "=": this one, and none that begins like it
    chosen = {key: value for key, value in told.items() if not environment.get(key)}
    return chosen | ({protocol.ENV_INTERFACE: name} if GLOO in chosen else {})


def was_chosen(environment: Mapping[str, str]) -> bool:
    """Whether a person chose gloo's interface, and not ``socket_variables``."""
    chosen = environment.get(GLOO)
    return chosen is not None and chosen != environment.get(protocol.ENV_INTERFACE)


def interface_of(host: str) -> str | None:
    """The interface that has this address, given as one or by a name; ``None``: none here, or not said."""
    wanted = set(addresses_of(host))
    return next((name for name, address in _interfaces() if address in wanted), None)


def addresses_of(host: str) -> tuple[str, ...]:
    """The addresses that a name stands for, or the address itself; none where nobody knows the name."""
    try:
        return (str(ipaddress.ip_address(host)),)
    except ValueError:
        pass
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError:
        return ()
    return tuple(dict.fromkeys(str(each[4][0]) for each in found))


def route_address(towards: str = ELSEWHERE) -> str | None:
    """This machine's address on the route to another; ``None``: there is no route. Sends nothing."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        try:
            asked.connect((towards, 9))
        except OSError:
            return None
        return str(asked.getsockname()[0])


def only_here(host: str) -> str | None:
    """The loopback address that a name stands for, if that is all it stands for; ``None`` otherwise, and for
    what is written as an address: who writes 127.0.0.1 means this machine."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        found = addresses_of(host)
        is_meant = host == "localhost" or not found
        return None if is_meant or not all(map(_is_loopback, found)) else found[0]
    return None


def _is_loopback(host: str) -> bool:
    found = addresses_of(host)
    return bool(found) and all(ipaddress.ip_address(each.partition("%")[0]).is_loopback for each in found)


def _interfaces() -> Iterator[tuple[str, str]]:
    """Each interface and address; of an alias (``eth0:1``) the interface's own name."""
    if sys.platform != "linux" or struct.calcsize("P") != 8:
        return
    room = array.array("B", bytes(IFREQ_BYTES * MOST_ADDRESSES))
    start, _ = room.buffer_info()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        answer = fcntl.ioctl(asked, SIOCGIFCONF, struct.pack("iP", len(room), start))
    filled = struct.unpack("iP", answer)[0]
    told = room.tobytes()
    for at in range(0, filled, IFREQ_BYTES):
        name = told[at : at + NAME_BYTES].partition(b"\0")[0].decode()
        place = at + NAME_BYTES + 4
        yield name.partition(":")[0], socket.inet_ntop(socket.AF_INET, told[place : place + 4])
    if INET6.exists():
        for line in INET6.read_text().splitlines():
            digits, *_, name = line.split()
            yield name, socket.inet_ntop(socket.AF_INET6, bytes.fromhex(digits))

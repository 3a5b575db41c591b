"""Who counts as one person where something is shared out: the keys that bounds are kept by."""

from ipaddress import IPv6Address, ip_address

from service.control.interface import Caller
from service.trust.persons import person_of_uid

NETWORK_BITS = 64
"""One subscriber of IPv6 has at least a network of so many bits to choose addresses from (RFC 6177)."""


def person_of(caller: Caller) -> str:
    """The key of a caller."""
    return f"user {caller.name}" if caller.uid is None else person_of_uid(caller.uid)


def person_at(address: str) -> str:
    """The key of whoever asks from another machine, where no more is known."""
    try:
        ip = ip_address(address.partition("%")[0])
    except ValueError:
        return "somebody"
    if isinstance(ip, IPv6Address):
        if ip.ipv4_mapped is not None:
            return f"address {ip.ipv4_mapped}"
        return f"network {ip.exploded[: NETWORK_BITS // 16 * 5 - 1]}"
    return f"address {ip}"

"""By which names a server of ours may be reached from a browser, be it API or dashboard. Pure.

A page in somebody's browser can make its own name resolve to 127.0.0.1 (DNS rebinding), and is then of the
same origin as whatever answers there. Asking for a known name shuts that door. An address in digits needs no
list: no name was resolved, so a page of its origin came from there.
"""

from collections.abc import Set
from ipaddress import ip_address
from urllib.parse import urlsplit

LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
LONGEST = 100
"""Characters of a name that are repeated to whoever sent it."""


def host_name(value: str) -> str | None:
    """The name in a ``Host`` header, lower case and without its port; ``None`` where it is no such header."""
    try:
        parts = urlsplit(f"//{value}")
        name = parts.hostname
        _ = parts.port  # raises where it is no number
    except ValueError:
        return None
    if not name or parts.username is not None or set(value) & set("/?#"):
        return None
    return name.rstrip(".")


def is_known(value: str, names: Set[str]) -> bool:
    """Whether a ``Host`` header names this machine: loopback, one of ``names``, or an address in digits."""
    name = host_name(value)
    return name is not None and (name in LOOPBACK or name in names or _is_address(name))


def is_loopback(host: str) -> bool:
    """Whether an address to listen at is reached from this machine alone."""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def is_own_page(origin: str, host: str, names: Set[str] = frozenset()) -> bool:
    """Whether a page of that ``Origin`` was sent by this server, or by one that the site listed."""
    try:
        parts = urlsplit(origin)
        name = parts.hostname
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and (parts.netloc.lower() == host.lower() or name in names)


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True

"""Who counts as one person where something is shared out: the keys that bounds are kept by.

An account that may run containers without root has thousands of uids of its own (subuid(5)), which the kernel
shows as so many strangers; they are one person, or each would bring the bounds of another.
"""

import os
from bisect import bisect_right
from functools import lru_cache
from ipaddress import IPv6Address, ip_address
from pathlib import Path

from service.api.port import Caller

SUBUID = Path("/etc/subuid")
NETWORK_BITS = 64
"""One subscriber of IPv6 has at least a network of so many bits to choose addresses from (RFC 6177)."""


def person_of(caller: Caller) -> str:
    """The key of a caller."""
    return f"user {caller.name}" if caller.uid is None else person_of_uid(caller.uid)


def person_of_uid(uid: int, lent: Path = SUBUID) -> str:
    """The key of an account, or of the one that it was lent this uid by. Looks at one small file's date."""
    try:
        changed_ns = os.stat(lent).st_mtime_ns  # noqa: PTH116  once a connection
    except OSError:
        return f"uid {uid}"
    starts, ranges = _lent(lent, changed_ns)
    at = bisect_right(starts, uid) - 1
    if at >= 0 and uid < ranges[at][1]:
        return f"containers of {ranges[at][0]}"
    return f"uid {uid}"


def person_at(address: str) -> str:
    """The key of whoever asks from another machine, where no more is known."""
    try:
        found = ip_address(address.partition("%")[0])
    except ValueError:
        return "somebody"
    if isinstance(found, IPv6Address):
        if found.ipv4_mapped is not None:
            return f"address {found.ipv4_mapped}"
        return f"network {found.exploded[: NETWORK_BITS // 16 * 5 - 1]}"
    return f"address {found}"


@lru_cache(maxsize=2)
def _lent(path: Path, changed_ns: int) -> tuple[list[int], list[tuple[str, int]]]:
    """The ranges of a file ``name:first:count``: where each begins; whose it is and its end."""
    found: list[tuple[int, str, int]] = []
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return [], []
    for line in lines:
        name, _, rest = line.partition(":")
        first, _, count = rest.partition(":")
        if name and first.isdigit() and count.strip().isdigit():
            found.append((int(first), name, int(first) + int(count)))
    found.sort()
    return [first for first, _, _ in found], [(name, end) for _, name, end in found]

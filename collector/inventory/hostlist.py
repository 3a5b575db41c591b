"""Slurm's short way to write many host names: ``gpu[01-03,7],login1`` (scontrol(1), show hostnames)."""

import re
from collections.abc import Iterator

MOST_HOSTS = 65_536
"""Ours: a bound against a mistyped range, above the size of any cluster."""

_PART = re.compile(r"[^,\[\]]*(?:\[[^\]]*\][^,\[\]]*)*")
_BRACKET = re.compile(r"\[([^\]]*)\]")


def expand(text: str) -> tuple[str, ...]:
    """Every host in the order written, leading zeros kept; at most MOST_HOSTS of them."""
    hosts: list[str] = []
    for part in _PART.findall(text):
        for host in _expanded(part) if part else ():
            if len(hosts) >= MOST_HOSTS:
                return tuple(hosts)
            hosts.append(host)
    return tuple(hosts)


def _expanded(part: str) -> Iterator[str]:
    match = _BRACKET.search(part)
    if match is None:
        yield part
        return
    for number in _numbers(match[1]):
        yield from _expanded(part[: match.start()] + number + part[match.end() :])


def _numbers(ranges: str) -> Iterator[str]:
    for piece in ranges.split(","):
        first, _, last = piece.partition("-")
        if not last:
            yield first
            continue
        for number in range(int(first), min(int(last), int(first) + MOST_HOSTS) + 1):
            yield str(number).zfill(len(first))

"""What ``scontrol --oneliner show reservation`` prints: who has which nodes, from when until when. Pure.

A node in a reservation on which a job runs is "mixed" to sinfo, as any other (22.05.8): that its free GPUs
are nobody else's is said here alone.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from collector.inventory.hostlist import expand
from collector.managers.model import ManagedNode, Reservation
from collector.managers.slurm.queue_text import ABSENT, TEXT_CHARS
from collector.model import NodeName, OutOfService
from collector.procfs.job_root import bounded

COMMAND = ("scontrol", "--oneliner", "show", "reservation")
_FIELD = re.compile(r"(?P<name>[A-Za-z]+)=(?P<value>\S*)")
_CORES = "CoreIDs="
"""Behind each node of a reservation that has some of its cores alone."""


def reservations_of(text: str) -> tuple[Reservation, ...]:
    """All that the text has; none where Slurm says that there are none."""
    return tuple(_reservation(line) for line in text.splitlines() if line.startswith("ReservationName="))


def with_reservations(
    nodes: Iterable[ManagedNode], reservations: Sequence[Reservation], now_ms: int
) -> tuple[ManagedNode, ...]:
    """The nodes, those of a reservation that is on as reserved, with its name; other states come first."""
    reserved = {
        node: each for each in reservations if each.is_whole and each.is_on(now_ms) for node in each.nodes
    }
    return tuple(
        replace(node, state=OutOfService.RESERVED, reason=reserved[node.name].told())
        if node.name in reserved and node.state in (None, OutOfService.RESERVED)
        else node
        for node in nodes
    )


def _reservation(line: str) -> Reservation:
    told = {match["name"]: match["value"] for match in reversed(list(_FIELD.finditer(line)))}
    whose = [
        f"{one if ',' not in names else more} {names.replace(',', ', ')}"
        for field, one, more in (
            ("Accounts", "account", "accounts"),
            ("Users", "user", "users"),
            ("Groups", "group", "groups"),
        )
        if (names := told.get(field, "")) not in ABSENT
    ]
    return Reservation(
        name=bounded(told["ReservationName"], TEXT_CHARS),
        nodes=tuple(map(NodeName, expand(told.get("Nodes", "")))),
        whose=bounded(", ".join(whose), TEXT_CHARS),
        is_whole=_CORES not in line,
        starts_ms=_ms(told.get("StartTime", "")),
        ends_ms=_ms(told.get("EndTime", "")),
    )


def _ms(text: str) -> int | None:
    return int(text) * 1000 if text.isdecimal() and len(text) < 12 else None

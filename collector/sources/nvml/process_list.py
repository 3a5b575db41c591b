"""Whether what the driver says of processes can be true, and what it then means. Pure.

Drivers have handed out lists with the wrong struct (R510, R535.43 to .98: pid and memory swapped, entries
shifted), stale samples with garbage in them, and, inside containers, pids of another namespace. A list that
cannot be true is dropped whole, and flagged: a wrong holder is worse than none.
"""

from collections.abc import Container, Iterable, Mapping, Sequence
from enum import Enum, auto
from typing import NamedTuple

from collector.model import ProcessType

LARGEST_PID = 1 << 22
"""PID_MAX_LIMIT of a 64-bit Linux; no process has a larger number."""

_TYPES = {"C": ProcessType.COMPUTE, "G": ProcessType.GRAPHICS, "M": ProcessType.COMPUTE}
MPS_CLIENT = "M"
GARBLED = "process-list-garbled"
FOREIGN = "pids-of-another-namespace"
UNSEEN = "process-list-of-unseen-pids"
GONE = "gone-process-listed"
DEAD = "dead-process-holds-memory"
SCALED = "process-shares-scaled"
USES_OF_STRANGERS = "uses-of-another-namespace"
USES_BY_SERVER = "uses-by-mps-server"
OWN_NAMESPACE = "none-of-own-namespace-listed"
ABOVE_BOARD = "process-memory-above-board"
MOST_MANAGED_BYTES = 1 << 40
"""How much more than its board has a process is believed to hold, in memory that CUDA manages and moves: a
Grace has 480 GB. A shifted entry has another number in its upper half: a pid above 255 is more."""
NOISE_RATIO = 0.01
"""Reading a GPU's counters alone shows as up to 1%."""
LEAST_CONTEXT_BYTES = 32 << 20
"""No CUDA process holds less: a context takes 520 MiB of an H100, and idle it shows 0 (docs/hardware.md)."""


class Presence(Enum):
    """What /proc says of a pid; HIDDEN is there and may not be looked at."""

    PRESENT = auto()
    HIDDEN = auto()
    ABSENT = auto()


class Held(NamedTuple):
    """What one process holds on one GPU."""

    pid: int
    type: ProcessType
    memory_used_bytes: int | None


class Verdict(NamedTuple):
    """The processes that can be believed; ``total`` is None when the list as a whole cannot."""

    held: tuple[Held, ...] = ()
    total: int | None = 0
    flags: tuple[str, ...] = ()


Entry = tuple[int, int | None, str]
"""pid, memory in bytes or None, and C (compute), G (graphics) or M (client of an MPS server)."""


def judge(
    entries: Sequence[Entry],
    memory_total_bytes: int | None,
    there: Container[int],
    *,
    host_pids: bool | None = True,
    memory_used_bytes: int | None = None,
    busy_ratio: float | None = None,
) -> Verdict:
    """Believe, drop or cut a list; ``there`` are the pids that exist, hidden ones included.

    ``host_pids`` says whether our pid namespace is the driver's; ``None``: not known. A single pid that is
    gone has just ended, or died with its memory. Nothing but such pids: where pids are the host's, each of
    them holds memory and the GPU does nothing (``busy_ratio``: its busiest part), no process is there; else
    the list is not about this machine, and nothing is concluded from it: who uses a GPU is alive.

    In a pid namespace of its own the driver lists that namespace's processes alone (580.159 on an H100): an
    empty list then says that nobody is there only where next to no memory is used.
    """
    if not entries:
        empty = memory_used_bytes is not None and memory_used_bytes < LEAST_CONTEXT_BYTES
        return Verdict(total=None, flags=(OWN_NAMESPACE,)) if host_pids is False and not empty else Verdict()
    entries, above = _without_managed(entries, memory_total_bytes, there)
    for pid, memory, _ in entries:  # no process has such a pid, or more memory than there is
        if not 0 < pid <= LARGEST_PID or _is_above(memory, memory_total_bytes):
            return Verdict(total=None, flags=(GARBLED,))
    processes = union(entries)
    alive = tuple([one for one in processes if one[0] in there])
    if alive:
        return Verdict(alive, len(alive), above if len(alive) == len(processes) else (GONE,))
    if host_pids is False:
        return Verdict(total=len(processes), flags=(FOREIGN,))
    works = busy_ratio is not None and busy_ratio > NOISE_RATIO
    if host_pids and not works and all(one.memory_used_bytes for one in processes):
        return Verdict(flags=(DEAD,))
    return Verdict(total=None, flags=(UNSEEN,))


def _without_managed(
    entries: Sequence[Entry], memory_total_bytes: int | None, there: Container[int]
) -> tuple[Sequence[Entry], tuple[str, ...]]:
    """The entries, with memory above the board's as not known, and a flag for that: it may be managed memory.

    Only where every pid of the list exists, and none holds more than could be; else nothing is believed.
    """
    most = (memory_total_bytes or 0) + MOST_MANAGED_BYTES
    above = [memory for _, memory, _ in entries if _is_above(memory, memory_total_bytes)]
    if not above or not all(pid in there for pid, _, _ in entries) or max(m for m in above if m) > most:
        return entries, ()
    plain = [
        (pid, None if _is_above(memory, memory_total_bytes) else memory, kind)
        for pid, memory, kind in entries
    ]
    return plain, (ABOVE_BOARD,)


def _is_above(memory: int | None, memory_total_bytes: int | None) -> bool:
    return memory is not None and memory_total_bytes is not None and memory > memory_total_bytes


def union(entries: Iterable[Entry]) -> list[Held]:
    """One for each pid, in order of first appearance; the same memory stands in both lists."""
    processes: dict[int, Held] = {}
    for pid, memory, kind in entries:
        previous = processes.get(pid)
        if previous is None:
            processes[pid] = Held(pid, _TYPES[kind], memory)
            continue
        processes[pid] = Held(
            pid=pid,
            type=previous.type if previous.type is _TYPES[kind] else ProcessType.BOTH,
            memory_used_bytes=_larger(previous.memory_used_bytes, memory),
        )
    return list(processes.values())


def believed(
    uses: Iterable[tuple[int, float]] | None, listed: Container[int], *, foreign: bool
) -> tuple[dict[int, float], tuple[str, ...]]:
    """The uses (percent) of listed processes as ratios, and flags.

    Where our pid namespace is not the driver's, the lists can name the namespace's pids while the samples
    name the host's (HAMi-core issue 112): one sample of a pid that is not listed, and none is believed, for
    a number that fits may be somebody else. In the host's own namespace such a pid has just ended.
    """
    ratios, strangers = {}, False
    for pid, percent in uses or ():
        if pid in listed:
            ratios[pid] = percent / 100
        else:
            strangers = True
    return ({}, (USES_OF_STRANGERS,)) if foreign and strangers else (ratios, ())


def served(entries: Iterable[Entry], processes: Iterable[Held]) -> tuple[str, ...]:
    """A flag where clients of an MPS server are among them.

    The server schedules what they compute, so the driver's use is expected to stand with it and to say
    nothing of each client (MPS documentation, "Architecture"; not seen by Fallow yet). It is not split.
    """
    alive = {one.pid for one in processes}
    clients = any(pid in alive for pid, _, kind in entries if kind == MPS_CLIENT)
    return (USES_BY_SERVER,) if clients else ()


def within_device(by_pid: Mapping[int, float], device_ratio: float | None) -> tuple[dict[int, float], bool]:
    """The shares, scaled down when their sum exceeds what the device did; and whether they were.

    The driver measures both over slightly different windows; a process cannot have used more than there was.
    """
    limit = 1.0 if device_ratio is None else device_ratio
    total = sum(by_pid.values())
    if total <= limit + 0.01 or total == 0:
        return dict(by_pid), False
    return {pid: share * limit / total for pid, share in by_pid.items()}, True


def _larger(one: int | None, other: int | None) -> int | None:
    if one is None or other is None:
        return one if other is None else other
    return max(one, other)

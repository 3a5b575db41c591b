"""Processes on GPUs that were given to others: told in themselves, and a bar to judging the holder.

Attribution calls a process an intruder only where everything that could tie it to a holder was looked at
(``collector.attribution``). What such a GPU does is not its holder's alone, so nobody is accused by it.
"""

from collections import defaultdict
from collections.abc import Hashable, Iterable
from dataclasses import dataclass

from analytics.findings.window import MS_PER_S, bins_in, cover, doubt
from analytics.findings.words import gib, gpu_name, holder_name, lasting
from analytics.model import BIN_MS, Evidence, Finding, FindingKind, GpuPast, Intruder, Unknown
from analytics.thresholds import Thresholds

NAMED_MOST = 3
RESTART_MS = 120_000
"""Whoever is back sooner than this never left: a training that starts anew loads its libraries, model and
data for a minute or so before it is on the GPU again."""
SPOILT = "a process that is not its holder's was on it: what it did is not the holder's alone"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stay:
    """One person on a GPU of others since ``from_ms``, in any number of processes; ``here`` still are."""

    from_ms: int
    here: frozenset[Intruder]
    pids: frozenset[int]


def intruder(past: GpuPast, t: Thresholds) -> Finding | Unknown | None:
    """Persons whose processes have been for ``intruder_s`` on a GPU that others were given, and still are."""
    ripe_ms = past.bins.end_ms - t.intruder_s * MS_PER_S
    ripe = [stay for stay in _stays(past.intruders) if stay.from_ms <= ripe_ms]
    here = [each for each in past.intruders if any(each in stay.here for stay in ripe)]
    if not here:
        return None
    expected = bins_in(t.intruder_s)
    window = past.bins.last(expected)
    unsure = doubt(past, window, expected, t, FindingKind.INTRUDER)
    if unsure is not None:
        return unsure
    since_ms = min(stay.from_ms for stay in ripe)
    seen = len(frozenset[int]().union(*(stay.pids for stay in ripe)))
    return Finding(
        kind=FindingKind.INTRUDER,
        uuid=past.uuid,
        node=past.node,
        gpu_index=past.gpu_index,
        holder=past.claims[0].holder if len(past.claims) == 1 else None,
        since_ms=since_ms,
        window_from_ms=window.end_ms - expected * BIN_MS,
        window_to_ms=window.end_ms,
        coverage=cover(window, expected),
        rung=past.rung,
        wasted_gpu_hours=None,
        sentence=_sentence(past, here, lasting(past.bins.end_ms - since_ms), seen),
        evidence=_evidence(here, seen),
    )


def unless_intruded(past: GpuPast, answer: Finding) -> Finding | Unknown:
    """A finding about a holder; unknown where an intruder was there at any time of its window."""
    overlaps = any(each.to_ms is None or each.to_ms > answer.window_from_ms for each in past.intruders)
    return Unknown(uuid=past.uuid, kinds=(answer.kind,), reason=SPOILT) if overlaps else answer


def _stays(intruders: Iterable[Intruder]) -> list[Stay]:
    """The stays that still last. A process of which nobody knows whose it is stands for itself."""
    by_person: dict[Hashable, list[Intruder]] = defaultdict(list)
    for each in sorted(intruders, key=lambda each: each.from_ms):
        by_person[_person(each)].append(each)
    return [_stay(visits) for visits in by_person.values() if any(each.to_ms is None for each in visits)]


def _person(each: Intruder) -> Hashable:
    if each.uid is not None:
        return each.uid
    return ("user", each.user) if each.user is not None else ("pid", each.pid)


def _stay(visits: list[Intruder]) -> Stay:
    """The newest stay of one person; ``visits``: oldest first, and one of them lasts."""
    joined: list[Intruder] = []
    until_ms = 0.0
    for each in visits:
        if each.from_ms - until_ms >= RESTART_MS:
            joined = []
        joined.append(each)
        until_ms = max(until_ms, float("inf") if each.to_ms is None else each.to_ms)
    return Stay(
        from_ms=joined[0].from_ms,
        here=frozenset(each for each in joined if each.to_ms is None),
        pids=frozenset(each.pid for each in joined),
    )


def _sentence(past: GpuPast, here: list[Intruder], quiet: str, seen: int) -> str:
    given = " and ".join(holder_name(claim) for claim in past.claims) or "others"
    memory = sum(each.memory_used_bytes or 0 for each in here)
    kept = f", with {gib(memory)} of its memory" if memory else ""
    known = _listed(_name(each) for each in here[:NAMED_MOST])
    more = f" and {len(here) - NAMED_MOST} more" if len(here) > NAMED_MOST else ""
    verb, what = ("have", "them") if len(here) > 1 else ("has", "it")
    anew = f", in {seen} processes that came one after another" if seen > len(here) else ""
    return (
        f"{gpu_name(past)} was given to {given}, and {known}{more} {verb} been on it for "
        f"{quiet}{anew}{kept}: nothing ties {what} to what was given."
    )


def _name(each: Intruder) -> str:
    return f"{each.user or 'somebody'}'s {each.name or 'process'} (pid {each.pid})"


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names)


def _evidence(here: list[Intruder], seen: int) -> tuple[Evidence, ...]:
    first = here[0]
    anew = (Evidence(name="processes_since", value=seen),) if seen > len(here) else ()
    return (
        Evidence(name="processes", value=len(here)),
        Evidence(name="user", value=first.user),
        Evidence(name="pid", value=str(first.pid)),
        Evidence(name="command", value=first.command or first.name),
        Evidence(name="memory_used_bytes", value=first.memory_used_bytes),
        Evidence(name="gpu_time_ratio", value=first.sm_ratio),
        *anew,
    )

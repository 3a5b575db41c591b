"""Processes on GPUs that were given to others: told in themselves, and a bar to judging the holder.

Attribution calls a process an intruder only where everything that could tie it to a holder was looked at
(``collector.attribution``). What such a GPU does is not its holder's alone, so nobody is accused by it. Where
it does nothing, neither does its holder: a process that sits on an idle GPU hides nobody.
"""

from collections import defaultdict
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, replace

from analytics import text
from analytics.findings.window import MS_PER_S, bins_in, cover, doubt
from analytics.findings.words import MINUTE_MS, gpu_name, holder_name
from analytics.model import (
    BIN_MS,
    Claim,
    Evidence,
    Finding,
    FindingKind,
    GpuPast,
    Intruder,
    StartingUp,
    Unknown,
)
from analytics.thresholds import IDLE_RATIO, Thresholds

NAMED_MOST = 3
RESTART_MS = 120_000
"""Whoever is back sooner than this never left: a training that starts anew loads its libraries, model and
data for a minute or so before it is on the GPU again."""
Measure = tuple[float | None, ...]
"""One measure of the bins, oldest first."""
Held = Finding | Unknown | StartingUp | None
"""What is said of a hold."""
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
        sentence=_sentence(past, here, text.length((past.bins.end_ms - since_ms) / 1000), seen),
        evidence=_evidence(here, seen),
    )


def own_past(past: GpuPast, claim: Claim) -> GpuPast:
    """The past as far as it is known to be this holder's own, by which it is idle or not.

    On a shared GPU, and while an intruder is there, that is the holder's part of the work, where the driver
    tells the use of single processes. Where nobody tells it apart, what an intruder may have done is unknown;
    where the GPU did nothing, nobody did.
    """
    parts = past.bins if claim.bins is None else claim.bins
    claims = past.claims if claim.bins is None else (claim,)
    intruded = _intruded(past)
    if not any(intruded):
        return replace(past, bins=parts, claims=claims)
    clean = past.bins if len(past.claims) == 1 else parts

    def own(mine: Measure, part: Measure) -> Measure:
        rows = zip(mine, part, intruded, past.bins.busiest, strict=True)
        return tuple(
            value if not spoilt or (busy or 0.0) <= IDLE_RATIO else None if claim.bins is None else told
            for value, told, spoilt, busy in rows
        )

    bins = replace(
        parts,
        utilization=own(clean.utilization, parts.utilization),
        busiest=own(clean.busiest, parts.busiest),
        video=own(clean.video, parts.video) if parts.video else (),
        gpu_utilization=own(clean.gpu_utilization, parts.gpu_utilization),
    )
    return replace(past, bins=bins, claims=claims)


def unless_hidden(past: GpuPast, own: GpuPast, claim: Claim, answer: Held, t: Thresholds) -> Held:
    """What ``own`` says of a hold; unknown where its holder may have done what an intruder did."""
    kinds: tuple[FindingKind, ...]
    if isinstance(answer, Finding):
        from_ms, kinds = answer.window_from_ms, (answer.kind,)
    elif isinstance(answer, Unknown):
        from_ms, kinds = past.bins.end_ms - t.idle_window_s * MS_PER_S, answer.kinds
    else:
        return answer
    newest = max(1, (past.bins.end_ms - from_ms) // BIN_MS)
    rows = zip(own.bins.busiest, past.bins.busiest, _intruded(past), strict=True)
    hidden = [mine is None and (busy or 0.0) > IDLE_RATIO and spoilt for mine, busy, spoilt in rows]
    if any(hidden[-newest:]) or (isinstance(answer, Finding) and _began_hidden(past, claim, t)):
        return Unknown(uuid=past.uuid, kinds=kinds, reason=SPOILT)
    return answer


def _began_hidden(past: GpuPast, claim: Claim, t: Thresholds) -> bool:
    """Whether a job that is excused until it computes seems to have begun only by what an intruder did."""
    began_ms = claim.first_used_ms
    if (
        claim.bins is not None
        or began_ms is None
        or past.bins.end_ms - claim.from_ms >= t.forgive_s * MS_PER_S
    ):
        return False
    return any(
        each.from_ms < began_ms + MINUTE_MS and (each.to_ms is None or each.to_ms > began_ms)
        for each in past.intruders
    )


def unless_intruded(past: GpuPast, answer: Finding) -> Finding | Unknown:
    """A finding by how a GPU worked; unknown where an intruder was there at any time of its window."""
    overlaps = any(each.to_ms is None or each.to_ms > answer.window_from_ms for each in past.intruders)
    return Unknown(uuid=past.uuid, kinds=(answer.kind,), reason=SPOILT) if overlaps else answer


def _intruded(past: GpuPast) -> list[bool]:
    """Bin by bin: was an intruder there?"""
    count = len(past.bins.covered)
    first_ms = past.bins.end_ms - count * BIN_MS
    there = [False] * count
    for each in past.intruders:
        first = min(count, max(0, (each.from_ms - first_ms) // BIN_MS))
        until = count if each.to_ms is None else min(count, -((first_ms - each.to_ms) // BIN_MS))
        if until > first:
            there[first:until] = [True] * (until - first)
    return there


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
    kept = f", with {text.size(memory)} of its memory" if memory else ""
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
    memory = [each.memory_used_bytes for each in here if each.memory_used_bytes is not None]
    work = [each.sm_ratio for each in here if each.sm_ratio is not None]
    anew = (Evidence(name="processes_since", value=seen),) if seen > len(here) else ()
    return (
        Evidence(name="processes", value=len(here)),
        Evidence(name="user", value=first.user),
        Evidence(name="pid", value=str(first.pid)),
        Evidence(name="command", value=first.command or first.name),
        Evidence(name="memory_used_bytes", value=sum(memory) if memory else None),
        Evidence(name="gpu_time_ratio", value=min(sum(work), 1.0) if work else None),
        *anew,
    )

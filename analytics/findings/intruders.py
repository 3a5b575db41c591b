"""Processes on GPUs that were given to others: told in themselves, and a bar to judging the holder.

Attribution calls a process an intruder only where everything that could tie it to a holder was looked at
(``collector.attribution``). What such a GPU does is not its holder's alone, so nobody is accused by it.
"""

from collections.abc import Iterable

from analytics.findings.window import MS_PER_S, bins_in, cover, doubt
from analytics.findings.words import gib, gpu_name, holder_name, lasting
from analytics.model import BIN_MS, Evidence, Finding, FindingKind, GpuPast, Intruder, Unknown
from analytics.thresholds import Thresholds

NAMED_MOST = 3
SPOILT = "a process that is not its holder's was on it: what it did is not the holder's alone"


def intruder(past: GpuPast, t: Thresholds) -> Finding | Unknown | None:
    """Processes that have been for ``intruder_s`` on a GPU that others were given, and still are."""
    ripe_ms = past.bins.end_ms - t.intruder_s * MS_PER_S
    here = [each for each in past.intruders if each.to_ms is None and each.from_ms <= ripe_ms]
    if not here:
        return None
    expected = bins_in(t.intruder_s)
    window = past.bins.last(expected)
    unsure = doubt(past, window, expected, t, FindingKind.INTRUDER)
    if unsure is not None:
        return unsure
    since_ms = min(each.from_ms for each in here)
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
        sentence=_sentence(past, here, lasting(past.bins.end_ms - since_ms)),
        evidence=_evidence(here),
    )


def unless_intruded(past: GpuPast, answer: Finding) -> Finding | Unknown:
    """A finding about a holder; unknown where an intruder was there at any time of its window."""
    overlaps = any(each.to_ms is None or each.to_ms > answer.window_from_ms for each in past.intruders)
    return Unknown(uuid=past.uuid, kinds=(answer.kind,), reason=SPOILT) if overlaps else answer


def _sentence(past: GpuPast, here: list[Intruder], quiet: str) -> str:
    given = " and ".join(holder_name(claim) for claim in past.claims) or "others"
    memory = sum(each.memory_used_bytes or 0 for each in here)
    kept = f", with {gib(memory)} of its memory" if memory else ""
    known = _listed(_name(each) for each in here[:NAMED_MOST])
    more = f" and {len(here) - NAMED_MOST} more" if len(here) > NAMED_MOST else ""
    verb, what = ("have", "them") if len(here) > 1 else ("has", "it")
    return (
        f"{gpu_name(past)} was given to {given}, and {known}{more} {verb} been on it for {quiet}{kept}: "
        f"nothing ties {what} to what was given."
    )


def _name(each: Intruder) -> str:
    return f"{each.user or 'somebody'}'s {each.name or 'process'} (pid {each.pid})"


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names)


def _evidence(here: list[Intruder]) -> tuple[Evidence, ...]:
    first = here[0]
    return (
        Evidence(name="processes", value=len(here)),
        Evidence(name="user", value=first.user),
        Evidence(name="pid", value=str(first.pid)),
        Evidence(name="command", value=first.command or first.name),
        Evidence(name="memory_used_bytes", value=first.memory_used_bytes),
        Evidence(name="gpu_time_ratio", value=first.sm_ratio),
    )

"""Given and not used: held-idle, allocated-empty, and the job that has not started to compute yet.

The order of the questions is what keeps an innocent job safe. Is it starting? Then nothing is said. Has it
never computed, and is it no interactive job? Then it may be downloading its data, and is never called idle.
"""

from analytics.findings.window import (
    bins_in,
    cover,
    doubt,
    has_computed,
    known,
    mean,
    newest,
    presence,
    since,
)
from analytics.findings.words import clock, gib, gpu_name, holder_name, lasting, measured_by, percent
from analytics.model import (
    BIN_MS,
    Bins,
    Claim,
    Evidence,
    Finding,
    FindingKind,
    GpuPast,
    StartingUp,
    Unknown,
)
from analytics.thresholds import Thresholds
from collector.model import JobKind

MS_PER_S = 1000


def held(past: GpuPast, claim: Claim, now_ms: int, t: Thresholds) -> Finding | Unknown | StartingUp | None:
    """What to say about a hold: nothing while it is in use or in its grace."""
    if _is_busy_now(past, t):
        return None
    until_ms = _grace_until(past, claim, t)
    if now_ms < until_ms:
        return StartingUp(uuid=past.uuid, holder=claim.holder, from_ms=claim.from_ms, until_ms=until_ms)
    is_empty = newest(tuple(presence(past, past.bins))) is False
    kind = FindingKind.ALLOCATED_EMPTY if is_empty else FindingKind.HELD_IDLE
    expected = bins_in(t.empty_window_s if is_empty else t.idle_window_s)
    if claim.from_ms > past.bins.end_ms - expected * BIN_MS:
        return None
    window = past.bins.last(expected)
    unsure = doubt(past, window, expected, t, kind)
    if unsure is not None:
        return unsure
    busiest = known(window.busiest)
    if not busiest and not is_empty:
        return Unknown(uuid=past.uuid, kinds=(kind,), reason="its utilization is not measured")
    if not (_is_empty(past, window, t) if is_empty else _is_idle(busiest, t)):
        return None
    if not has_computed(past, claim, t) and not _is_interactive(claim):
        kind = FindingKind.NOT_STARTED
    return _finding(past, claim, kind, window, t)


def _is_interactive(claim: Claim) -> bool:
    return claim.holder.kind is JobKind.INTERACTIVE


def _grace_until(past: GpuPast, claim: Claim, t: Thresholds) -> int:
    """Until when the job counts as starting.

    Everybody has grace from the allocation, and from the start of a process that has not computed yet. A job
    that never computed since it was given its GPUs, and is not interactive, has the longer limit; so has its
    new process after a restart.
    """
    started_ms = claim.process_started_ms or claim.from_ms
    fresh_process = started_ms > claim.from_ms and (claim.busy_until_ms or 0) < started_ms
    until_ms = claim.from_ms + t.grace_s * MS_PER_S
    if fresh_process:
        until_ms = max(until_ms, started_ms + t.grace_s * MS_PER_S)
    if _is_interactive(claim):
        return until_ms
    if not has_computed(past, claim, t):
        until_ms = max(until_ms, claim.from_ms + t.start_limit_s * MS_PER_S)
    if fresh_process:
        until_ms = max(until_ms, started_ms + t.start_limit_s * MS_PER_S)
    return until_ms


def _is_older_than_records(past: GpuPast, claim: Claim) -> bool:
    """Whether the job may have had the GPU before anything was recorded of it."""
    return claim.from_ms <= past.installed_from_ms + BIN_MS


def _is_busy_now(past: GpuPast, t: Thresholds) -> bool:
    busy = newest(past.bins.busiest)
    return busy is not None and busy > t.idle_ratio


def _is_idle(busiest: list[float], t: Thresholds) -> bool:
    """At least so many bins idle and the mean idle; that it is idle now was asked before."""
    idle = sum(value <= t.idle_ratio for value in busiest)
    average = mean(busiest)
    return idle >= t.idle_bins_ratio * len(busiest) and average is not None and average <= t.idle_ratio


def _is_empty(past: GpuPast, window: Bins, t: Thresholds) -> bool:
    seen = [there for there in presence(past, window) if there is not None]
    quiet = all(value <= t.idle_ratio for value in known(window.busiest)[-1:])
    return quiet and seen.count(False) >= t.idle_bins_ratio * len(seen)


def _finding(past: GpuPast, claim: Claim, kind: FindingKind, window: Bins, t: Thresholds) -> Finding:
    bins = len(window.covered)
    since_ms = max(claim.busy_until_ms or 0, claim.from_ms)
    hours = claim.idle_gpu_hours
    if hours is None:
        hours = (window.end_ms - since_ms) / 3_600_000 * past.share_of_device * claim.share
    return Finding(
        kind=kind,
        uuid=past.uuid,
        node=past.node,
        gpu_index=past.gpu_index,
        holder=claim.holder,
        since_ms=since_ms,
        window_from_ms=window.end_ms - bins * BIN_MS,
        window_to_ms=window.end_ms,
        coverage=cover(window, bins),
        rung=past.rung,
        wasted_gpu_hours=None if kind is FindingKind.NOT_STARTED else hours,
        sentence=_sentence(past, claim, kind, window, _quiet(window.end_ms - since_ms, hours)),
        evidence=_evidence(past, claim, window, hours, t),
    )


def _sentence(past: GpuPast, claim: Claim, kind: FindingKind, window: Bins, quiet: str) -> str:
    start = f"{holder_name(claim)} has held {gpu_name(past)} since {clock(claim.from_ms)}"
    if kind is FindingKind.NOT_STARTED and _is_older_than_records(past, claim):
        return (
            f"{holder_name(claim)} has not computed on {gpu_name(past)} since the records begin, for "
            f"{quiet}; what it did before is not known."
        )
    if kind is FindingKind.NOT_STARTED:
        return f"{start} and has not computed on it yet after {quiet}; it may still be preparing."
    if kind is FindingKind.ALLOCATED_EMPTY:
        return f"{start}, and no process has used it for {quiet}."
    memory = newest(window.memory_bytes)
    kept = "" if memory is None else f", keeping {gib(int(memory))} of its memory"
    busy = mean(known(window.busiest)) or 0.0
    return (
        f"{start}, and its processes have done nothing on it for {quiet}{kept}: {percent(busy)} busy "
        f"over the window ({measured_by(past.rung)})."
    )


def _quiet(ms: int, hours: float) -> str:
    return f"{lasting(ms)} ({hours:.1f} GPU-hours)"


def _evidence(past: GpuPast, claim: Claim, window: Bins, hours: float, t: Thresholds) -> tuple[Evidence, ...]:
    busiest = known(window.busiest)
    memory = newest(window.memory_bytes)
    alone = since(window, claim.from_ms)
    return (
        Evidence(name="idle_bins", value=sum(value <= t.idle_ratio for value in busiest)),
        Evidence(name="valid_bins", value=len(busiest)),
        Evidence(name="utilization_mean_ratio", value=mean(busiest)),
        Evidence(name="utilization_max_ratio", value=max(busiest, default=None)),
        Evidence(name="bins_with_process", value=sum(there is True for there in presence(past, alone))),
        Evidence(name="memory_used_bytes", value=None if memory is None else int(memory)),
        Evidence(name="has_computed", value=claim.first_used_ms is not None),
        Evidence(name="older_than_records", value=_is_older_than_records(past, claim)),
        Evidence(name="idle_gpu_hours", value=round(hours, 4)),
        Evidence(name="share", value=claim.share),
    )

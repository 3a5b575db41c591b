"""Arithmetic over the newest bins: cover, means, and whether enough was measured to say anything."""

from collections.abc import Iterator, Sequence
from enum import Enum, auto
from typing import TypeVar

from analytics import text
from analytics.model import BIN_MS, Bins, Claim, FindingKind, GpuPast, Unknown
from analytics.thresholds import (
    IDLE_RATIO,
    STILL_RATIO,
    SUSPECT_POWER,
    SUSPECT_RATIO,
    WORKING_POWER,
    WORKING_POWER_LEAST_MW,
    WORKING_POWER_NEAR_LIMIT,
    WORKING_POWER_OF_LIMIT,
    WORKING_POWER_UNLIMITED_MW,
    Thresholds,
    at_least,
)
from collector.model import Basis

Measured = TypeVar("Measured")
MS_PER_S = 1000
IDLE_MEMORY_FLOOR_BYTES = 1 << 30
IDLE_MEMORY_FLOOR_RATIO = 0.01
SAME_MEMORY_BYTES = 64 << 20
"""Memory within this of a free board's is the board's own: what the driver keeps varies by less, and a CUDA
context takes more."""
NOISE_RATIO = 0.01
"""Busier than this is somebody: reading a GPU's counters alone shows as up to 1%."""
FAINT_PART = 1 / 3
"""SMs at work in so many bins of a window are somebody's work, however little; in fewer, passing ticks."""
MIN_BUSY_BINS = 4
"""Fewer busy bins than this are a blip: creating a context or loading a model is no computing yet."""


def bins_in(seconds: int) -> int:
    """How many bins ``seconds`` are."""
    return seconds * MS_PER_S // BIN_MS


def since(bins: Bins, from_ms: int) -> Bins:
    """The bins that begin at or after ``from_ms``."""
    count = max(0, (bins.end_ms - from_ms) // BIN_MS)
    return bins.last(count) if count else Bins(end_ms=bins.end_ms)


def until_measured(bins: Bins) -> Bins:
    """The bins up to the newest that samples cover: rows of a minute end anywhere in a bin, or after it.

    Empty where none is. How old the newest sample may be is asked before (``stale``).
    """
    count = len(bins.covered)
    while count and not bins.covered[count - 1]:
        count -= 1
    return bins.first(count)


def cover(bins: Bins, expected: int) -> float:
    """The share of the ``expected`` newest bins that samples cover."""
    return sum(bins.covered[-expected:]) / expected if expected else 0.0


def mean(values: Sequence[float]) -> float | None:
    """The mean; ``None`` of nothing."""
    return sum(values) / len(values) if values else None


def percentile(values: Sequence[float], ratio: float) -> float | None:
    """The smallest value that at least ``ratio`` of the values do not exceed; ``None`` of nothing."""
    if not values:
        return None
    place = max(0, -(-len(values) * ratio // 1) - 1)
    return sorted(values)[int(place)]


def newest(values: Sequence[Measured | None]) -> Measured | None:
    """The newest value that was measured: what is so now, as far as it is known."""
    return next((value for value in reversed(values) if value is not None), None)


def known(values: Sequence[float | None]) -> list[float]:
    """The values that were measured, oldest first."""
    return [value for value in values if value is not None]


def stale(past: GpuPast, now_ms: int, thresholds: Thresholds, tick_ms: int) -> str | None:
    """Why the newest sample is too old to say what the GPU does now; ``None`` when it is new enough.

    A source that averages over more than a tick is given that much longer.
    """
    if past.newest_ms is None:
        return "it was never measured"
    age_ms = now_ms - past.newest_ms
    if age_ms > thresholds.stale_ticks * max(tick_ms, past.newest_width_ms):
        spoken = text.length(age_ms / 1000)
        return f"its newest sample is {spoken} old"
    return None


def doubt(past: GpuPast, bins: Bins, expected: int, t: Thresholds, kind: FindingKind) -> Unknown | None:
    """Unknown when the window of ``expected`` bins is not covered well enough to be judged."""
    covered = cover(bins, expected)
    if covered >= t.coverage_ratio:
        return None
    minutes = expected * BIN_MS / 60_000
    return Unknown(
        uuid=past.uuid,
        kinds=(kind,),
        reason=f"only {text.coverage(covered)} of the last {text.length(minutes * 60)} were measured",
    )


def memory_floor_bytes(past: GpuPast) -> int:
    """Memory up to this is nobody's: max(1 GiB, 1%)."""
    return empty_memory_bytes(past.memory_total_bytes)


def empty_memory_bytes(total_bytes: int | None) -> int:
    """The same of a GPU with so much memory; ``None``: not known."""
    return max(IDLE_MEMORY_FLOOR_BYTES, int((total_bytes or 0) * IDLE_MEMORY_FLOOR_RATIO))


def presence(past: GpuPast, bins: Bins) -> Iterator[bool | None]:
    """Bin by bin: is a process there? Counted, or, when nobody counted, betrayed by activity or memory.

    Without a count: yes when busy, or with more memory than an idle context takes; no with no more than the
    board's own memory (``SAME_MEMORY_BYTES`` above what was taken while nobody held it, or above nothing
    where it was never seen free); unknown between. The ledger's ``process_is_present`` asks the same.
    """
    floor = memory_floor_bytes(past)
    lowest = past.memory_free_bytes or 0
    rows = zip(bins.processes, bins.memory_bytes, bins.busiest, copying(bins), strict=True)
    for processes, memory, busy, copies in rows:
        if processes is not None:
            yield processes > 0
        elif copies or (busy is not None and busy > NOISE_RATIO) or (memory is not None and memory > floor):
            yield True
        else:
            yield False if memory is not None and memory <= lowest + SAME_MEMORY_BYTES else None


def copying(bins: Bins) -> list[bool]:
    """Bin by bin: was memory read or written while nothing computed? By copy engines, or by another GPU.

    It is of the whole board, also where the bins are one holder's own: whose copies they are nobody tells.
    """
    return [level is not None for level in bins.copies] or [False] * len(bins.covered)


def faint_work(past: GpuPast, window: Bins) -> float | None:
    """The mean SM active of a window of work that no bin shows as more than noise; ``None``: there is none.

    Only where SM active is measured: it counts cycles, and those of a GPU at rest are none. GPU utilization
    of up to 1% may be the reading itself, and the graphics engine draws a desktop.
    """
    levels = known(window.utilization)
    if past.rung is not Basis.SM_ACTIVE or not levels:
        return None
    at_work = sum(at_least(level, STILL_RATIO) for level in levels)
    return mean(levels) if at_work >= FAINT_PART * len(levels) else None


class Doubt(Enum):
    """How counters contradict each other."""

    NO_PROCESS = auto()
    IDLE_POWER = auto()
    NOTHING_ACTIVE = auto()
    WORKING_POWER = auto()


def doubts(past: GpuPast, bins: Bins) -> tuple[Doubt | None, ...]:
    """Bin by bin: do the counters contradict each other, and how? ``bins`` are the whole GPU's.

    Kernels ran for ``SUSPECT_RATIO`` of the time, with no process, at idle power, or with nothing of the SMs
    active and no engine beside them; or nothing was active, at a power that no idle board draws. The ledger's
    ``gpu_state_of`` asks the same.
    """
    idle_mw = None if past.idle_power_mw is None else past.idle_power_mw * SUSPECT_POWER
    working_mw = _working_power_mw(past)
    return tuple(
        _doubt_of(bins, at, idle_mw=idle_mw, working_mw=working_mw) for at in range(len(bins.covered))
    )


def contradictions(past: GpuPast, bins: Bins) -> list[bool]:
    """Bin by bin: do the counters contradict each other?"""
    return [each is not None for each in doubts(past, bins)]


def _doubt_of(bins: Bins, at: int, *, idle_mw: float | None, working_mw: float | None) -> Doubt | None:
    busy, busiest, power = bins.gpu_utilization[at], bins.busiest[at], bins.power_mw[at]
    is_idle_power = power is not None and idle_mw is not None and power <= idle_mw
    if busy is not None and at_least(busy, SUSPECT_RATIO):
        level = bins.utilization[at]
        video = (bins.video[at] or 0.0) if bins.video else 0.0
        if bins.processes[at] == 0:
            return Doubt.NO_PROCESS
        if is_idle_power:
            return Doubt.IDLE_POWER
        if level is not None and not at_least(level, STILL_RATIO) and video <= IDLE_RATIO:
            return Doubt.NOTHING_ACTIVE
    is_still = busiest is not None and busiest <= IDLE_RATIO
    is_working = power is not None and working_mw is not None and power >= working_mw
    if is_still and is_working and not is_idle_power:
        return Doubt.WORKING_POWER
    return None


def _working_power_mw(past: GpuPast) -> float | None:
    """The power that no idle board draws; none of a MIG instance: what is told of it is its board's."""
    if past.mig_profile is not None:
        return None
    limit, idle = past.power_limit_mw, past.idle_power_mw or 0
    if not limit:
        return max(WORKING_POWER_UNLIMITED_MW, WORKING_POWER * idle)
    large = max(WORKING_POWER_OF_LIMIT * limit, WORKING_POWER_LEAST_MW)
    far = max(min(large, WORKING_POWER_NEAR_LIMIT * limit), WORKING_POWER * idle)
    # Twice its idle power may be more than it may draw.
    return min(far, idle + WORKING_POWER_NEAR_LIMIT * (limit - idle))


def has_computed(past: GpuPast, claim: Claim) -> bool:
    """Whether the job computed on a GPU since it was given: by its history, or by bins newer than that.

    On a shared GPU the bins are not the claim's own, so only the history counts there.
    """
    if claim.first_used_ms is not None:
        return True
    if len(past.claims) > 1:
        return False
    busy = [value for value in known(since(past.bins, claim.from_ms).busiest) if value > IDLE_RATIO]
    return len(busy) >= MIN_BUSY_BINS

"""What each holder did on a GPU that others use too, where the driver tells single processes' use. Blocks."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace

from analytics.model import Bins, Claim, GpuPast
from analytics.query import Connection, run
from analytics.thresholds import IDLE_RATIO

BLIP_MS = 120_000
"""Less work than this is the making of a context, as for a holder that has its GPU alone."""


def with_own_bins(
    connection: Connection, window: Mapping[str, int], pasts: Mapping[int, GpuPast]
) -> dict[int, GpuPast]:
    """The pasts, with bins of their own for the holders of GPUs that others are on, intruders too.

    ``window``: as of ``assess_bins``.

    A holder of whom nothing can be told apart has none, and is judged by the GPU. Needs the rhythms.
    """
    shared = sorted(
        gpu_id for gpu_id, past in pasts.items() if len(past.claims) > 1 or (past.claims and past.intruders)
    )
    if not shared:
        return dict(pasts)
    parts: dict[tuple[int, int], dict[int, float]] = defaultdict(dict)
    memory: dict[tuple[int, int], dict[int, int]] = defaultdict(dict)
    for row in run(connection, "assess_shared", {**window, "gpu_ids": shared}).to_pylist():
        key, at = (row["gpu_id"], row["holder_id"]), row["bin"]
        if row["part"] is not None:
            parts[key][at] = row["part"]
        if row["memory_bytes"] is not None:
            memory[key][at] = row["memory_bytes"]

    def owning(gpu_id: int, claim: Claim) -> Claim:
        key = (gpu_id, claim.holder_id or 0)
        return _keeping(pasts[gpu_id], _owning(pasts[gpu_id], claim, parts.get(key, {})), memory.get(key, {}))

    return {
        gpu_id: past
        if gpu_id not in shared
        else replace(past, claims=tuple(owning(gpu_id, claim) for claim in past.claims))
        for gpu_id, past in pasts.items()
    }


def own_bins(bins: Bins, part_of: Mapping[int, float]) -> Bins:
    """The bins as one holder used them: its part of what was done, idle where all was, else not known."""

    def own(values: tuple[float | None, ...]) -> tuple[float | None, ...]:
        return tuple(_own(value, at, bins, part_of) for at, value in enumerate(values))

    return replace(
        bins,
        utilization=own(bins.utilization),
        busiest=own(bins.busiest),
        video=own(bins.video),
        gpu_utilization=own(bins.gpu_utilization),
    )


def _own(value: float | None, at: int, bins: Bins, part_of: Mapping[int, float]) -> float | None:
    engines = bins.video[at] if bins.video else None
    if value is None or (bins.busiest[at] or 0.0) <= IDLE_RATIO:
        return value
    if at not in part_of or (engines or 0.0) > IDLE_RATIO:  # whose work an engine does is not told
        return None
    return value * part_of[at]


def _keeping(past: GpuPast, claim: Claim, memory: Mapping[int, int]) -> Claim:
    if not memory:
        return claim
    return replace(claim, memory_bytes=tuple(memory.get(at) for at in range(len(past.bins.covered))))


def _owning(past: GpuPast, claim: Claim, part_of: Mapping[int, float]) -> Claim:
    if not part_of:
        return claim
    worked_ms = claim.rhythm.active_until_ms if claim.rhythm.busy_ms >= BLIP_MS else None
    return replace(
        claim,
        bins=own_bins(past.bins, part_of),
        first_used_ms=claim.first_used_ms or worked_ms,
        busy_until_ms=claim.busy_until_ms or worked_ms,
    )

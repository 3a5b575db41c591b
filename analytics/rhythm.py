"""Fills in when holders were active on their GPUs over days, where the bins reach back too short. Blocks."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from analytics.model import BIN_MS, GpuPast, Rhythm
from analytics.query import Connection, run
from analytics.thresholds import IDLE_RATIO, LOW_RATIO, Thresholds

Row = Mapping[str, Any]


def with_rhythm(
    connection: Connection, now_ms: int, pasts: Mapping[int, GpuPast], t: Thresholds
) -> dict[int, GpuPast]:
    """The pasts with when their holders were active, but for GPUs that have plainly been busy."""
    wanted = [gpu_id for gpu_id, past in pasts.items() if past.claims and not _is_plainly_busy(past, t)]
    if not wanted:
        return dict(pasts)
    asked = {"as_of": now_ms, "gpu_ids": sorted(wanted)}
    rows = run(connection, "assess_rhythm", asked).to_pylist()
    rhythms = {(row["gpu_id"], row["holder_id"]): _rhythm(row) for row in rows}
    return {
        gpu_id: replace(
            past,
            claims=tuple(
                replace(claim, rhythm=rhythms.get((gpu_id, claim.holder_id), claim.rhythm))
                for claim in past.claims
            ),
        )
        for gpu_id, past in pasts.items()
    }


def _is_plainly_busy(past: GpuPast, t: Thresholds) -> bool:
    """Busy in most bins, and well used, by one holder alone: neither idle nor rarely used, and no hog."""
    if len(past.claims) > 1 or past.intruders:
        return False
    busy = [value > IDLE_RATIO for value in past.bins.busiest if value is not None]
    levels = [value for value in past.bins.utilization if value is not None]
    mostly = sum(busy) > 0.5 * len(busy) > 0
    well_used = max(LOW_RATIO, t.hog_utilization_ratio)
    # The newest is judged: little use in it asks for the day's, however good the hours before were.
    newest = levels[-max(1, t.low_active_s * 1000 // BIN_MS) :]
    return mostly and all(sum(some) >= well_used * len(some) for some in (levels, newest))


def _rhythm(row: Row) -> Rhythm:
    return Rhythm(
        active_until_ms=row["active_until_ms"],
        known_since_ms=int(row["known_since_ms"]),
        measured_from_ms=row["measured_from_ms"],
        silence_p90_ms=None if row["silence_p90_ms"] is None else int(row["silence_p90_ms"]),
        absence_p90_ms=None if row["absence_p90_ms"] is None else int(row["absence_p90_ms"]),
        known_ms=int(row["known_ms"]),
        busy_ms=int(row["busy_ms"]),
        spells=row["spells"],
        spells_ms=int(row["spells_ms"]),
        begins=row["begins"],
        silence_longest_ms=row["silence_longest_ms"],
        busy_ratio=row["busy_ratio"],
        idle_gpu_hours=row["idle_gpu_hours"],
    )

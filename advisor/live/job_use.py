"""What a job made of its GPUs, from the rows of ``decide_jobs`` and ``decide_shared``. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

from advisor.planner.limits import PlannerConfig
from advisor.planner.observed import ENGINES_RATIO, JobUse
from analytics.thresholds import IDLE_RATIO
from collector.model import Basis, JobId

MINUTE_MS, HOUR_MS = 60_000, 3_600_000
LAG_MS = 2 * MINUTE_MS
"""A minute is rolled up when it is over: the newest two may be missing, and are no lack of coverage."""
USED_MINUTES = 2
"""One busy minute is a blip: making a context shows as one."""
Row = Mapping[str, Any]


def own_from_ms(to_ms: int, rules: PlannerConfig) -> int:
    """Since when a job's own use beside others is looked at: a whole minute, of a policy's longest."""
    return (to_ms - max(rules.fit_window_s, rules.pack_window_s) * 1000) // MINUTE_MS * MINUTE_MS


def own_rows(
    rows: Sequence[Row],
    own: Mapping[tuple[str, str], Row],
    from_ms: int,
    now_ms: int,
    rules: PlannerConfig,
) -> Sequence[Row]:
    """The rows of a job, by its own work and memory since ``from_ms`` where others had its GPU too.

    As they are for a job on several GPUs, and where what is its own was told for too little of the time.
    """
    first = rows[0]
    shares = own.get((first["job"], first["uuid"]))
    if len(rows) > 1 or not first["others"] or shares is None:
        return rows
    board_ratio = shares["board_p95_ratio"]
    if board_ratio is None:  # in no minute yet, also where so little time has passed that none is asked for
        return rows
    since_ms = max(from_ms, first["seen_from_ms"])
    if shares["told_ms"] < rules.coverage_ratio * (now_ms - since_ms - LAG_MS):
        return rows
    return (
        {
            **first,
            "seen_from_ms": since_ms,
            "measured_ms": shares["told_ms"],
            "utilization_mean_ratio": shares["utilization_mean_ratio"],
            "utilization_p95_ratio": shares["utilization_p95_ratio"],
            "excess_ratios": shares.get("excess_ratios"),
            "memory_peak_bytes": shares["memory_peak_bytes"],
            "others": 0,
            "is_crowded": board_ratio > rules.pack_p95_sum,
        },
    )


def use_of(
    rows: Sequence[Row], working: Mapping[str, Row], parts: Mapping[str, float | None], now_ms: int
) -> JobUse:
    """What a job made of its GPUs, a row each; ``working`` has a row of ``decide_controller`` a GPU.

    That row is of the newest hours, which may be the quiet end of a long run: the memory's traffic is the
    larger of theirs and that of all its minutes, which are only kept since store version 80.
    ``parts``: of each that is a MIG instance, its part of its device, by which its hours count.
    """
    from_ms = min(row["seen_from_ms"] for row in rows)
    expected_ms = sum(max(1, now_ms - row["seen_from_ms"] - LAG_MS) for row in rows)
    measured_ms = sum(row["measured_ms"] for row in rows)
    lately = [working.get(row["uuid"], {}) for row in rows]
    return JobUse(
        job=JobId(rows[0]["job"]),
        from_ms=from_ms,
        to_ms=now_ms,
        coverage_ratio=max(0.0, min(1.0, measured_ms / expected_ms)),
        rung=Basis(min((row["rung"] for row in rows if row["rung"] is not None), default=0)),
        held_gpu_hours=sum((now_ms - row["seen_from_ms"]) * row["share"] * _part(parts, row) for row in rows)
        / HOUR_MS,
        idle_gpu_hours=sum(row["idle_ms"] * _part(parts, row) for row in rows) / HOUR_MS,
        utilization_mean_ratio=_mean([row["utilization_mean_ratio"] for row in rows]),
        utilization_p95_ratio=_largest([row["utilization_p95_ratio"] for row in rows]),
        excess_ratios=excesses_of(rows[0]) if len(rows) == 1 else None,
        controller_p95_ratio=_largest(
            [
                _known_largest(row.get("controller_p95_ratio"), each.get("controller_p95_ratio"))
                for row, each in zip(rows, lately, strict=True)
            ]
        ),
        kernels_ratio=_largest([each.get("kernels_ratio") for each in lately]),
        memory_peak_bytes=_largest([row["memory_peak_bytes"] for row in rows]),
        gpus_used=sum(row["busy_minutes"] >= USED_MINUTES for row in rows),
        memory_unused_bytes=_largest(
            [row["memory_peak_bytes"] for row in rows if row["busy_minutes"] < USED_MINUTES] or [None]
        ),
        others=any(row["others"] for row in rows),
        crowded=any(row.get("is_crowded", False) for row in rows),
        uses_engines=any(row.get("uses_engines") for row in rows)
        or any((each.get("engines_max_ratio") or 0.0) > IDLE_RATIO for each in lately),
        by_engines=sum(row["engine_ms"] for row in rows) > ENGINES_RATIO * max(1, measured_ms),
    )


def excesses_of(row: Row) -> tuple[float, ...] | None:
    """The excess over each twentieth of the GPU; ``None`` where it is not measured, or not asked for."""
    ratios = row.get("excess_ratios")
    return tuple(ratios) if ratios else None


def _part(parts: Mapping[str, float | None], row: Row) -> float:
    part = parts.get(row["uuid"])
    return 1.0 if part is None else part


def _mean(values: Sequence[float | None]) -> float | None:
    numbers = [value for value in values if value is not None]
    return sum(numbers) / len(numbers) if numbers and len(numbers) == len(values) else None


def _largest(values: Sequence[Any]) -> Any:
    """The largest; ``None`` as soon as one is not known: the unknown one may be the largest."""
    return None if None in values else max(values)


def _known_largest(*values: float | None) -> float | None:
    """The largest that is known; ``None`` of none."""
    return max((value for value in values if value is not None), default=None)

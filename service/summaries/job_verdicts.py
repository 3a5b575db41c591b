"""A job's verdict and efficiency, for pages and reports: the words are analytics' own, in one place."""

from collections.abc import Mapping, Sequence
from math import nan

from analytics import job_verdict

TOLD = ("gpus_used", "unknown_gpu_hours", "busy_gpu_hours", "rung", "found")
"""What a verdict needs and an older service does not tell of a job."""


def verdict(row: Mapping[str, object]) -> str | None:
    """What became of a job's GPUs; ``None`` where the service is older than the question."""
    return job_verdict.verdict(row) if all(name in row for name in TOLD) else None


def kinds(row: Mapping[str, object]) -> tuple[str, ...]:
    """The kinds of what was found about it; none where the service is older than the question."""
    return tuple(sorted(job_verdict.kinds(row))) if "found" in row else ()


def efficiency(row: Mapping[str, object]) -> str | None:
    """Given, used and wasted in one line; ``None`` where the service is older than the question."""
    return job_verdict.efficiency(row) if all(name in row for name in TOLD) else None


def used_where_known(rows: Sequence[Mapping[str, object]]) -> list[float]:
    """GPU-hours that each job, or each GPU of one, was used for; NaN where too little was measured."""
    return [_hours(row["used_gpu_hours"]) if job_verdict.is_use_known(row) else nan for row in rows]


def _hours(value: object) -> float:
    return float(value) if isinstance(value, (int, float)) else nan

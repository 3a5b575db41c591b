"""Fallow's own recorded history as a workload, from the rows of the named query ``jobs``. Pure.

A job is taken to have asked for its GPUs when it first got them, and to need them for as long as it held
them: what it waited before that is not recorded. A job that still holds GPUs is cut off at the end of the
window, and one that was cut so is counted. Its measured utilization is its own.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from advisor.sim.workload import BadRow, TraceJob, Work, Workload

LEAST_S = 1.0


def recorded_workload(rows: Iterable[Mapping[str, Any]], until: datetime) -> Workload:
    """The jobs of the rows, in the order in which they got their GPUs; the first one's start is second 0."""
    jobs: list[TraceJob] = []
    bad: list[BadRow] = []
    open_jobs = 0
    for line, row in enumerate(rows, start=1):
        begin, end = _moment(row["from_ts"]), _moment(row["to_ts"])
        held, gpus = row["gpu_hours"], row["gpus"]
        if begin is None or not gpus or not held:
            bad.append(BadRow(line=line, reason=f"job {row['job']}: it held no GPU for any measured time"))
            continue
        open_jobs += end is None
        ran_s = max(((end or until) - begin).total_seconds(), LEAST_S)
        jobs.append(_job(row, begin.timestamp(), ran_s))
    jobs.sort(key=lambda job: (job.submitted_s, job.name))
    if jobs:
        first = jobs[0].submitted_s
        jobs = [_shifted(job, first) for job in jobs]
    left_out = (("still ran at the end, and were cut off there", open_jobs),) if open_jobs else ()
    return Workload(origin="recorded history", jobs=tuple(jobs), bad_rows=tuple(bad), left_out=left_out)


def _job(row: Mapping[str, Any], begin_s: float, ran_s: float) -> TraceJob:
    gpus = int(row["gpus"])
    share = min(float(row["gpu_hours"]) * 3600 / (gpus * ran_s), 1.0)
    return TraceJob(
        name=row["job"],
        project=row["project"] or row["user_name"] or "(nobody)",
        user=row["user_name"],
        submitted_s=begin_s,
        gpus=gpus,
        share=1.0 if share > 0.9 else max(round(share, 2), 0.01),
        memory_bytes=None,
        label=row["job_name"],
        work=Work(steps=ran_s, sm_active_ratio=row["utilization_ratio"]),
    )


def _shifted(job: TraceJob, first_s: float) -> TraceJob:
    return replace(job, submitted_s=job.submitted_s - first_s)


def _moment(value: Any) -> datetime | None:
    if value is None:
        return None
    at = value if isinstance(value, datetime) else datetime.fromisoformat(str(value))
    return at if at.tzinfo is not None else at.replace(tzinfo=UTC)

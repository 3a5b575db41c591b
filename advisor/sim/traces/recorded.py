"""Fallow's own recorded history as a workload, from the rows of the named query ``recorded_jobs``. Pure.

A job is taken to have asked for its GPUs when it first got them, and to need them for as long as it held
them: what it waited before that is not recorded. A job that held GPUs before the window or holds some after
it is cut off there, and counted. Its measured utilization is its own, the mean of its whole time: phases in
which it did nothing are not played, and their hours are told.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from math import floor
from typing import Any

from advisor.sim.workload import BadRow, TraceJob, Work, Workload

# A job of no length would end at its own start.
LEAST_S = 1.0
PARTS = 1000
"""Shares in whole thousandths, rounded down: seven sevenths still fit on one GPU."""

NOT_PLAYED = (
    "Idle times are not played: each job works throughout at its mean utilization. {hours:,.1f} of the "
    "GPU-hours that these jobs held were idle or empty; `fallow whatif` says what of them could have been "
    "given back."
)
LEAST_IDLE_H = 0.05
"""Less is shown as 0.0."""


def recorded_workload(rows: Iterable[Mapping[str, Any]]) -> Workload:
    """The jobs of the rows, in the order in which they got their GPUs; the first one's start is second 0."""
    jobs: list[TraceJob] = []
    bad: list[BadRow] = []
    began_before = is_open = 0
    idle_h = 0.0
    for line, row in enumerate(rows, start=1):
        if not row["run_ms"]:
            bad.append(BadRow(line=line, reason=f"job {row['job']}: when it held which GPUs is not kept"))
            continue
        began_before += row["began_before"]
        is_open += row["is_open"]
        idle_h += row.get("idle_gpu_hours") or 0.0
        jobs.append(_job(row))
    jobs.sort(key=lambda job: (job.submitted_s, job.name))
    first = jobs[0].submitted_s if jobs else 0.0
    cut_off = (
        ("held GPUs before this time, and begin with it", began_before),
        ("still held GPUs at its end, and end there", is_open),
    )
    return Workload(
        origin="recorded history",
        jobs=tuple(replace(job, submitted_s=job.submitted_s - first) for job in jobs),
        bad_rows=tuple(bad),
        cut_off=tuple(each for each in cut_off if each[1]),
        not_played=(NOT_PLAYED.format(hours=idle_h),) if idle_h > LEAST_IDLE_H else (),
    )


def _job(row: Mapping[str, Any]) -> TraceJob:
    return TraceJob(
        name=row["job"],
        project=row["project"] or row["user_name"] or "(unknown)",
        user=row["user_name"],
        submitted_s=row["from_ms"] / 1000,
        gpus=row["gpus"],
        share=max(floor(row["share"] * PARTS + 1e-6), 1) / PARTS,
        memory_bytes=None,
        label=row["job_name"],
        work=Work(steps=max(row["run_ms"] / 1000, LEAST_S), sm_active_ratio=row["utilization_ratio"]),
    )

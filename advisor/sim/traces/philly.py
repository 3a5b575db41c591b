"""Microsoft's Philly trace (Jeon et al., ATC 2019) in the columns ``timestamp,duration,num_gpus,cluster``.

Durations are as they ran then, on the GPUs asked for; a virtual cluster is a project. The trace has no user
and no utilization. Timestamps are local times without a zone and are taken as they stand.
"""

from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path

from advisor.sim.traces.rows import Refused, Row, TraceError, Unwanted, lasting, number, read_rows, size
from advisor.sim.workload import TraceJob, Work, Workload

COLUMNS = ("timestamp", "duration", "num_gpus", "cluster")


def read_philly(path: Path, pick: str | None = None) -> Workload:
    """The jobs submitted on the days ``pick`` (``2017-10-03..2017-10-16``, both included), else all."""
    days = None if pick is None else _days(pick)
    result = read_rows(path, COLUMNS, lambda row: _job(row, days))
    begin = result.jobs[0].submitted_s if days is None else _midnight(days[0])
    jobs = tuple(
        replace(job, name=f"philly-{number}", submitted_s=job.submitted_s - begin)
        for number, job in enumerate(result.jobs)
    )
    return replace(result, jobs=jobs)


def _job(row: Row, days: tuple[date, date] | None) -> TraceJob:
    try:
        at = datetime.strptime(row["timestamp"], "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC)
    except (ValueError, TypeError):
        raise Refused(f"timestamp is {row['timestamp']!r}, not like 2017-10-03 14:00:00") from None
    if not row["cluster"]:
        raise Refused("cluster is empty: whose job is it?")
    duration_s, gpus = lasting(number(row, "duration", least=1e-3)), size(row, "num_gpus")
    if days is not None and not days[0] <= at.date() <= days[1]:
        raise Unwanted("submitted on another day")
    return TraceJob(
        name="",
        project=row["cluster"],
        submitted_s=at.timestamp(),
        gpus=gpus,
        work=Work(steps=duration_s),
    )


def _days(pick: str) -> tuple[date, date]:
    first, _, last = pick.partition("..")
    try:
        days = date.fromisoformat(first), date.fromisoformat(last or first)
    except ValueError:
        raise TraceError(f"--pick {pick!r}: for philly give days, like 2017-10-03..2017-10-16") from None
    if days[0] > days[1]:
        raise TraceError(f"--pick {pick!r}: the first day is after the last")
    return days


def _midnight(day: date) -> float:
    return datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp()

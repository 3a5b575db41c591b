"""Why the jobs of a workload manager wait, as intervals: opens what is new, closes what is over.

Runs inside the caller's transaction. An interval is of one cause and one ask: a queue that only moves up
writes nothing. After a pause longer than RESUME_MS nobody knows who waited, as with allocations: all are
closed at the last look before it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import duckdb
import pyarrow as pa

from collector.managers.model import JobState, Look, ManagedJob, WaitCause
from collector.store.allocations import RESUME_MS
from collector.store.statements import feed, statement

Run = tuple[str, str, str, datetime, int]
"""Manager, cluster, number, submission, restarts."""
Kind = tuple[object, ...]
"""What must stay the same within an interval."""

_TEXT, _TIME, _INT = pa.string(), pa.timestamp("us"), pa.int32()
_KEY = (
    ("manager", _TEXT),
    ("cluster", _TEXT),
    ("number", _TEXT),
    ("submitted_at", _TIME),
    ("restarts", _INT),
)
_KIND = ("user_name", "project", "partition", "qos", "reservation", "gpu_type", "gpus", "cause")
_NEW = pa.schema(
    [
        *_KEY,
        *[(name, _TEXT) for name in ("job", *_KIND[:6])],
        ("gpus", _INT),
        ("cause", _TEXT),
        ("reason", _TEXT),
        ("from_ts", _TIME),
    ]
)
_OVER = pa.schema([*_KEY, ("to_ts", _TIME)])


@dataclass(slots=True)
class Waits:
    """The open intervals of each run, and when each cluster was looked at last."""

    open: dict[Run, Kind] = field(default_factory=dict)
    looked: dict[tuple[str, str], datetime] = field(default_factory=dict)


def read_waits(connection: duckdb.DuckDBPyConnection) -> Waits:
    """The open intervals that the store has."""
    rows = connection.sql(statement("open_manager_waits")).to_arrow_table().to_pylist()
    looked = connection.execute(statement("newest_manager_looks")).fetchall()
    return Waits(
        open={_run(row): _kind(row) for row in rows},
        looked={(manager, cluster): at for manager, cluster, at in looked},
    )


def write_waits(connection: duckdb.DuckDBPyConnection, waits: Waits, manager: str, look: Look) -> None:
    """What the look changes. Call it before the look itself is recorded."""
    where = (manager, look.cluster)
    rows = {_run(row): row for row in (_row(job, manager) for job in look.jobs if _waits(job))}
    own = {run: kind for run, kind in waits.open.items() if run[:2] == where}
    at, last = _time(look.at_ms), waits.looked.get(where)
    paused = last is None or at - last > timedelta(milliseconds=RESUME_MS) or at < last
    over = [run for run, kind in own.items() if paused or run not in rows or _kind(rows[run]) != kind]
    new = [row for run, row in rows.items() if paused or own.get(run) != _kind(row)]
    if over:
        ended = [
            dict(zip((name for name, _ in _KEY), run, strict=True)) | {"to_ts": last or at} for run in over
        ]
        feed(connection, "close_manager_waits", pa.Table.from_pylist(ended, schema=_OVER))
    if new:
        since = at if paused or last is None else last
        begun = [{**row, "from_ts": max(since, min(row["submitted_at"], at))} for row in new]
        feed(connection, "insert_manager_waits", pa.Table.from_pylist(begun, schema=_NEW))
    waits.open = {run: kind for run, kind in waits.open.items() if run not in own} | {
        run: _kind(row) for run, row in rows.items()
    }
    waits.looked[where] = at


def _waits(job: ManagedJob) -> bool:
    return job.state is JobState.PENDING and bool(job.ask.gpus)


def _row(job: ManagedJob, manager: str) -> Mapping[str, Any]:
    return {
        "manager": manager,
        "cluster": job.key.cluster,
        "number": job.key.id,
        "submitted_at": _time(job.key.submitted_ms),
        "restarts": job.key.restarts,
        "job": job.holder.job,
        "user_name": job.holder.user,
        "project": job.holder.project,
        "partition": job.partition,
        "qos": job.qos,
        "reservation": job.reservation,
        "gpu_type": job.ask.gpu_type,
        "gpus": (job.ask.gpus or 0) * job.tasks,
        "cause": (job.cause or WaitCause.UNSAID).value,
        "reason": job.reason,
    }


def _run(row: Mapping[str, Any]) -> Run:
    return (row["manager"], row["cluster"], row["number"], row["submitted_at"], row["restarts"])


def _kind(row: Mapping[str, Any]) -> Kind:
    """A limit's word is part of it: which limit it was is told of that time."""
    return (*(row[name] for name in _KIND), row["reason"] if row["cause"] == WaitCause.LIMIT else "")


def _time(ms: int) -> datetime:
    """As the store has times: UTC, without saying so."""
    return datetime(1970, 1, 1) + timedelta(milliseconds=ms)  # noqa: DTZ001

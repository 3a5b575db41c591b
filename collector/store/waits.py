"""Why the jobs of a workload manager wait, as intervals: opens what is new, closes what is over.

Runs inside the caller's transaction. An interval is of one cause and one ask: a queue that only moves up
writes nothing. After a pause longer than RESUME_MS nobody knows who waited, as with allocations: all are
closed at the last look before it.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
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
_WORDED = (WaitCause.LIMIT.value, WaitCause.OTHER.value)
"""Causes whose word says what they are: which limit, or that it is a licence, is told of that time."""
_NEW = pa.schema(
    [
        *_KEY,
        *[(name, _TEXT) for name in ("job", *_KIND[:6])],
        ("gpus", _INT),
        ("cause", _TEXT),
        ("reason", _TEXT),
        ("limit_met", _TEXT),
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
    rows = {run: _as_known(row, own.get(run)) for run, row in rows.items()}
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
        "limit_met": _limit(job),
    }


def _limit(job: ManagedJob) -> str | None:
    """As ``manager_jobs`` has it, but for what is used, which changes from look to look, and for a name: sums
    are told to everybody."""
    if job.limit is None or job.limit.most is None:
        return None
    return json.dumps(asdict(replace(job.limit, used=None, user="one person" if job.limit.user else "")))


def _as_known(row: Mapping[str, Any], open_kind: Kind | None) -> Mapping[str, Any]:
    """The row with the limit of its open interval, where nothing but the number isn't known just now."""
    if row["limit_met"] is not None or open_kind is None:
        return row
    known = {**row, "limit_met": open_kind[-1]}
    return known if _kind(known) == open_kind else row


def _run(row: Mapping[str, Any]) -> Run:
    return (row["manager"], row["cluster"], row["number"], row["submitted_at"], row["restarts"])


def _kind(row: Mapping[str, Any]) -> Kind:
    reason = row["reason"] if row["cause"] in _WORDED else ""
    return (*(row[name] for name in _KIND), reason, row["limit_met"])


def _time(ms: int) -> datetime:
    """As the store has times: UTC, without saying so."""
    return datetime(1970, 1, 1) + timedelta(milliseconds=ms)  # noqa: DTZ001

"""What workload managers show, kept: a row a run of a job, the nodes as they are, and each look.

Runs inside the caller's transaction. A look brings every run that is not over, so only rows that changed are
written; a run that is not shown any more is over, at the latest since the look that misses it.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta
from typing import Any

import duckdb
import pyarrow as pa

from collector.managers.model import (
    HOLDING,
    Grant,
    JobKey,
    JobState,
    KnownRun,
    Look,
    ManagedJob,
    ManagedNode,
    Reservation,
)
from collector.model import (
    JobId,
    OutOfService,
)
from collector.reading import Reading
from collector.store.statements import feed, statement
from collector.store.waits import Waits, read_waits, write_waits

Key = tuple[str, str, str, datetime, int]
Row = Mapping[str, Any]

LATELY_MS = 30 * 86_400_000
"""A number comes again at once after a crash, or when Slurm's 67 million are used up: not after a month."""

_TEXT, _TIME, _INT, _BIG = pa.string(), pa.timestamp("us"), pa.int32(), pa.int64()
JOBS = pa.schema(
    [
        *[(name, _TEXT) for name in ("manager", "cluster", "number")],
        ("submitted_at", _TIME),
        ("restarts", _INT),
        *[(name, _TEXT) for name in ("job", "shown_id", "user_name", "project", "job_name", "kind")],
        *[(name, _TEXT) for name in ("state", "state_name", "reason", "partition", "qos", "reservation")],
        *[(name, _INT) for name in ("nodes", "gpus", "shards", "tasks")],
        ("given", _TEXT),
        ("priority", _BIG),
        ("limit_s", _BIG),
        *[(name, _TIME) for name in ("eligible_at", "started_at", "ended_at", "expected_at")],
        ("gpu_type", _TEXT),
        ("cause", _TEXT),
        ("word", _TEXT),
        ("limit_met", _TEXT),
    ]
)
NODES = pa.schema(
    [
        *[(name, _TEXT) for name in ("manager", "cluster", "node", "state", "reason")],
        ("gpus", _INT),
        ("given_gpus", _INT),
        ("partitions", _TEXT),
        ("gpu_types", _TEXT),
    ]
)

RESERVATIONS = pa.schema(
    [
        *[(name, _TEXT) for name in ("manager", "cluster", "name")],
        ("node_names", pa.list_(_TEXT)),
        ("is_whole", pa.bool_()),
        ("whose", _TEXT),
        ("starts_at", _TIME),
        ("ends_at", _TIME),
    ]
)


@dataclass(slots=True)
class Managed:
    """What the store holds: the rows of runs that are not over, the nodes of each cluster, open waits."""

    jobs: dict[Key, Row] = field(default_factory=dict)
    nodes: dict[tuple[str, str], tuple[ManagedNode, ...]] = field(default_factory=dict)
    waits: Waits = field(default_factory=Waits)
    reservations: dict[tuple[str, str], tuple[Reservation, ...]] = field(default_factory=dict)


def read_managed(connection: duckdb.DuckDBPyConnection) -> Managed:
    """The runs that are not over; nodes are written anew at the next look."""
    rows: list[Row] = connection.sql(statement("open_manager_jobs")).to_arrow_table().to_pylist()
    return Managed(jobs={_key(row): row for row in rows}, waits=read_waits(connection))


def known_runs(connection: duckdb.DuckDBPyConnection, manager: str, now_ms: int) -> tuple[KnownRun, ...]:
    """Whose each number was last, of the last month."""
    given = {"manager": manager, "since_ms": now_ms - LATELY_MS}
    return tuple(
        KnownRun(
            key=JobKey(cluster=cluster, id=number, submitted_ms=submitted_ms, restarts=restarts),
            user=user,
            job=JobId(job),
        )
        for cluster, number, submitted_ms, restarts, user, job in connection.execute(
            statement("known_runs"), given
        ).fetchall()
    )


def write_looks(
    connection: duckdb.DuckDBPyConnection, managed: Managed, readings: Iterable[Reading], at_ms: int
) -> None:
    """Everything that the readings' looks bring."""
    for reading in readings:
        if reading.look is not None:
            _write_jobs(connection, managed, reading.source, reading.look)
            _write_nodes(connection, managed, reading.source, reading.look)
            _write_reservations(connection, managed, reading.source, reading.look)
            write_waits(connection, managed.waits, reading.source, reading.look)
            row = {"at_ms": at_ms, "manager": reading.source, "took_ms": reading.duration_ms}
            connection.execute(statement("insert_manager_look"), row | _summed(reading.look))


def _write_jobs(connection: duckdb.DuckDBPyConnection, managed: Managed, manager: str, look: Look) -> None:
    shown = {_key(row): row for row in (_row(job, manager) for job in look.jobs)}
    own = {key: row for key, row in managed.jobs.items() if key[:2] == (manager, look.cluster)}
    changed = [row for key, row in shown.items() if own.get(key) != row]
    gone = [_over(row, look.at_ms) for key, row in own.items() if key not in shown and not _is_over(row)]
    if changed or gone:
        rows = pa.Table.from_pylist([*changed, *gone], schema=JOBS)
        feed(connection, "forget_manager_jobs", rows)
        feed(connection, "insert_manager_jobs", rows)
    managed.jobs = {key: row for key, row in managed.jobs.items() if key not in own} | shown


def _write_nodes(connection: duckdb.DuckDBPyConnection, managed: Managed, manager: str, look: Look) -> None:
    where = (manager, look.cluster)
    if managed.nodes.get(where) == look.nodes:
        return
    connection.execute(statement("forget_manager_nodes"), {"manager": manager, "cluster": look.cluster})
    rows = [
        {
            "manager": manager,
            "cluster": look.cluster,
            "node": node.name,
            "state": None if node.state is None else node.state.value,
            "reason": node.reason,
            "gpus": node.gpus,
            "given_gpus": node.given_gpus,
            "partitions": ",".join(node.partitions),
            "gpu_types": ",".join(node.gpu_types),
        }
        for node in look.nodes
    ]
    feed(connection, "insert_manager_nodes", pa.Table.from_pylist(rows, schema=NODES))
    managed.nodes[where] = look.nodes


def _write_reservations(
    connection: duckdb.DuckDBPyConnection, managed: Managed, manager: str, look: Look
) -> None:
    where = (manager, look.cluster)
    if managed.reservations.get(where) == look.reservations:
        return
    connection.execute(
        statement("forget_manager_reservations"), {"manager": manager, "cluster": look.cluster}
    )
    rows = [
        {
            "manager": manager,
            "cluster": look.cluster,
            "name": each.name,
            "node_names": list(each.nodes),
            "is_whole": each.is_whole,
            "whose": each.whose,
            "starts_at": _time(each.starts_ms),
            "ends_at": _time(each.ends_ms),
        }
        for each in look.reservations
    ]
    if rows:
        feed(connection, "insert_manager_reservations", pa.Table.from_pylist(rows, schema=RESERVATIONS))
    managed.reservations[where] = look.reservations


def _summed(look: Look) -> dict[str, object]:
    return {
        "cluster": look.cluster,
        "running": sum(job.state in HOLDING for job in look.jobs),
        "pending": sum(job.tasks for job in look.jobs if job.state is JobState.PENDING),
        "nodes": len(look.nodes),
        "gpus": sum(node.gpus or 0 for node in look.nodes),
        "given_gpus": sum(node.given_gpus or 0 for node in look.nodes),
        "doubted_nodes": sum(node.state is OutOfService.UNASKED for node in look.nodes),
    }


def _row(job: ManagedJob, manager: str) -> Row:
    holder, ask, key = job.holder, job.ask, job.key
    return {
        "manager": manager,
        "cluster": key.cluster,
        "number": key.id,
        "submitted_at": _time(key.submitted_ms),
        "restarts": key.restarts,
        "job": holder.job,
        "shown_id": job.shown_id,
        "user_name": holder.user,
        "project": holder.project,
        "job_name": holder.name,
        "kind": None if holder.kind is None else holder.kind.value,
        "state": job.state.value,
        "state_name": job.state_name,
        "reason": job.reason,
        "partition": job.partition,
        "qos": job.qos,
        "reservation": job.reservation,
        "nodes": ask.nodes,
        "gpus": ask.gpus,
        "shards": ask.shards,
        "tasks": job.tasks,
        "given": None if job.given is None else json.dumps([_grant(grant) for grant in job.given]),
        "priority": job.priority,
        "limit_s": job.limit_s,
        "eligible_at": _time(job.eligible_ms),
        "started_at": _time(job.started_ms),
        "ended_at": _time(job.ended_ms),
        "expected_at": _time(job.expected_ms),
        "gpu_type": ask.gpu_type,
        "cause": None if job.cause is None else job.cause.value,
        "word": "" if job.word is None else job.word.text,
        "limit_met": None if job.limit is None else json.dumps(asdict(job.limit)),
    }


def _grant(grant: Grant) -> dict[str, object]:
    return {
        "node": grant.node,
        "gpus": grant.gpus,
        "indices": list(grant.indices),
        "is_shared": grant.is_shared,
        **({"uuids": list(grant.uuids)} if grant.uuids else {}),
    }


def _over(row: Row, at_ms: int) -> Row:
    """A run that its manager shows no more: how it ended nobody saw."""
    return {
        **row,
        "state": JobState.ENDED.value,
        "state_name": "",
        "reason": "",
        "cause": None,
        "limit_met": None,
        "expected_at": None,
        "ended_at": _time(at_ms),
    }


def _is_over(row: Row) -> bool:
    return bool(row["state"] == JobState.ENDED.value)


def _key(row: Row) -> Key:
    return (row["manager"], row["cluster"], row["number"], row["submitted_at"], row["restarts"])


def _time(ms: int | None) -> datetime | None:
    """As the store has times: UTC, without saying so."""
    return None if ms is None else datetime(1970, 1, 1) + timedelta(milliseconds=ms)  # noqa: DTZ001

"""Runs from a workload manager's accounting, kept; a run that is stored is not stored again.

Runs inside the caller's transaction.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime, timedelta
from typing import Any

import duckdb
import pyarrow as pa

from collector.managers.slurm.sacct_text import AccountedRun
from collector.store.accounted_users import name_holders
from collector.store.registry import Registry
from collector.store.statements import statement

_TEXT, _TIME, _INT = pa.string(), pa.timestamp("us"), pa.int32()
RUNS = pa.schema(
    [
        *[(name, _TEXT) for name in ("manager", "cluster", "number")],
        *[(name, _TIME) for name in ("submitted_at", "started_at", "ended_at")],
        *[(name, _TEXT) for name in ("shown_id", "user_name", "project", "job_name", "partition", "qos")],
        *[(name, _TEXT) for name in ("reservation", "state_name", "exit_code")],
        ("node_names", pa.list_(_TEXT)),
        ("gpus", _INT),
        ("gpu_types", _TEXT),
        ("shards", _INT),
        ("asked_gpus", _INT),
        ("limit_s", pa.int64()),
        ("measured_gpus", _INT),
        ("unused_gpus", _INT),
        ("utilization_ratio", pa.float64()),
        ("measured", _TEXT),
    ]
)


def write_accounted(
    connection: duckdb.DuckDBPyConnection, registry: Registry, manager: str, runs: Sequence[AccountedRun]
) -> tuple[int, int]:
    """How many runs are new, and how many that were there have means now.

    Jobs of whom no source told get the person whose runs they are (``accounted_users``).
    """
    if not runs:
        return 0, 0
    incoming = pa.Table.from_pylist([_row(run, manager) for run in runs], schema=RUNS)
    connection.register("incoming", incoming)
    try:
        completed = connection.execute(statement("forget_unmeasured_runs")).fetchone()
        added = connection.execute(statement("insert_accounted_runs")).fetchone()
    finally:
        connection.unregister("incoming")
    ids = {told for run in runs for told in (run.number, run.shown_id)}
    name_holders(connection, registry, {f"{manager}:{told}" for told in ids})
    with_means = int(completed[0]) if completed else 0
    return (int(added[0]) if added else 0) - with_means, with_means


def _row(run: AccountedRun, manager: str) -> dict[str, Any]:
    ratios = [mean.utilization_ratio for mean in run.means if mean.utilization_ratio is not None]
    return {
        "manager": manager,
        "cluster": run.cluster,
        "number": run.number,
        "submitted_at": _time(run.submitted_ms),
        "started_at": _time(run.started_ms),
        "ended_at": _time(run.ended_ms),
        "shown_id": run.shown_id,
        "user_name": run.user,
        "project": run.project,
        "job_name": run.name,
        "partition": run.partition,
        "qos": run.qos,
        "reservation": run.reservation,
        "state_name": run.state_name,
        "exit_code": run.exit_code,
        "node_names": list(run.nodes),
        "gpus": run.gpus,
        "gpu_types": run.gpu_types,
        "shards": run.shards,
        "asked_gpus": run.asked_gpus,
        "limit_s": run.limit_s,
        "measured_gpus": len(ratios),
        "unused_gpus": ratios.count(0.0),
        "utilization_ratio": sum(ratios) / len(ratios) if ratios else None,
        "measured": json.dumps([asdict(mean) for mean in run.means]) if run.means else None,
    }


def _time(ms: int | None) -> datetime | None:
    """As the store has times: UTC, without saying so."""
    return None if ms is None else datetime(1970, 1, 1) + timedelta(milliseconds=ms)  # noqa: DTZ001

"""The newest judgement: its findings, the patterns of holders, what was not judged, and when that was.

Runs inside the caller's transaction, and takes plain mappings, because the types of those who judge are
not this folder's to know. All but the findings is of the newest judgement only.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import duckdb

from collector.store.ledger_inputs import FindingsWritten, write_findings
from collector.store.statements import statement

Rows = Iterable[Mapping[str, object]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """All that one judging of everything says, as plain rows; the functions below name their keys."""

    findings: Rows = ()
    patterns: Rows = ()
    unjudged: Rows = ()


def write_judgement(
    connection: duckdb.DuckDBPyConnection, judgement: Judgement, at_ms: int, *, of_past: bool = False
) -> FindingsWritten:
    """Make the newest judgement this one, of this moment. A GPU or job that is not known raises KeyError.

    ``of_past``: no service says so, but an import at the end of its records.
    """
    written = write_findings(connection, judgement.findings, at_ms, of_past=of_past)
    write_patterns(connection, judgement.patterns, at_ms)
    write_unjudged(connection, judgement.unjudged, at_ms)
    connection.execute(statement("clear_judged"))
    connection.execute(statement("note_judged"), {"at_ms": at_ms})
    return written


def write_patterns(connection: duckdb.DuckDBPyConnection, found: Rows, at_ms: int) -> int:
    """Make the patterns these; how many.

    Keys: job, kind, window_from_ms, window_to_ms, evidence (a mapping), reason (None: none is needed).

    A job that the store does not know raises KeyError.
    """
    rows = list({row["job"]: row for row in found}.values())
    holders = _holder_ids(connection, rows)
    connection.execute(statement("clear_patterns"))
    if rows:
        asked = {
            "at_ms": at_ms,
            "holder_ids": [holders[row["job"]] for row in rows],
            "kinds": [row["kind"] for row in rows],
            "window_from_ms": [row["window_from_ms"] for row in rows],
            "window_to_ms": [row["window_to_ms"] for row in rows],
            "evidence": [json.dumps(row.get("evidence") or {}) for row in rows],
            "reasons": [row.get("reason") for row in rows],
        }
        connection.execute(statement("insert_patterns"), asked)
    return len(rows)


def write_unjudged(connection: duckdb.DuckDBPyConnection, found: Rows, at_ms: int) -> int:
    """Make what was not judged this; how many rows. Keys: uuid, job (None), verdict, kinds, reason.

    A GPU or job that the store does not know raises KeyError.
    """
    rows = list(found)
    gpus = dict(connection.execute("SELECT uuid, gpu_id FROM gpus").fetchall())
    holders = _holder_ids(connection, rows)
    connection.execute(statement("clear_unjudged"))
    for row in rows:
        job = row.get("job")
        asked = {
            "gpu_id": gpus[row["uuid"]],
            "holder_id": None if job is None else holders[job],
            "verdict": row["verdict"],
            "kinds": row["kinds"],
            "reason": row["reason"],
            "at_ms": at_ms,
        }
        connection.execute(statement("insert_unjudged"), asked)
    return len(rows)


def _holder_ids(connection: duckdb.DuckDBPyConnection, rows: list[Mapping[str, object]]) -> dict[object, int]:
    jobs = sorted({str(row["job"]) for row in rows if row.get("job") is not None})
    return {
        row[1]: row[0] for row in connection.execute(statement("known_holders"), {"jobs": jobs}).fetchall()
    }

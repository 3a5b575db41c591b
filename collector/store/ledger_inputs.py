"""What others keep in the store beside telemetry: findings, prices, leases, and how far imports got.

All of it runs inside the caller's transaction, and takes and gives plain mappings, because the types of
those who judge and act are not this folder's to know.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import duckdb

from collector.store.statements import statement

_KEYS = ("kind", "uuid", "job", "window_from_ms", "window_to_ms", "coverage", "rung", "wasted_gpu_hours")


@dataclass(frozen=True, slots=True, kw_only=True)
class FindingsWritten:
    """How many findings began, went on, and ended."""

    opened: int
    refreshed: int
    closed: int


def write_findings(
    connection: duckdb.DuckDBPyConnection,
    found: Iterable[Mapping[str, object]],
    at_ms: int,
    *,
    of_past: bool = False,
) -> FindingsWritten:
    """Make the open findings those in ``found``, told apart by kind, GPU and holder.

    Keys of each: kind, uuid, job (None: nobody's), window_from_ms, window_to_ms, coverage, rung,
    wasted_gpu_hours, sentence, evidence (a mapping). A known one is refreshed, a new one opened, and an
    open one that is not in ``found`` is closed. A GPU or job that the store does not know raises KeyError.
    ``of_past``: an import says so at the end of its records, and the next import anew.
    """
    if of_past:  # what was over meanwhile is told with its own times by who judges the past
        connection.execute(statement("drop_open_past_findings"))
    known = {row[1:]: row[0] for row in connection.execute(statement("open_findings")).fetchall()}
    gpus = dict(connection.execute("SELECT uuid, gpu_id FROM gpus").fetchall())
    holders = _holder_ids(connection, found := list(found))
    seen = set()
    for finding in found:
        gpu_id, job = gpus[finding["uuid"]], finding.get("job")
        holder_id = None if job is None else holders[job]
        key = (finding["kind"], gpu_id, holder_id)
        row = {name: finding.get(name) for name in _KEYS[3:]}
        row |= {"sentence": finding["sentence"], "evidence": json.dumps(finding.get("evidence") or {})}
        row |= {"at_ms": at_ms, "of_past": of_past}
        if key in known:
            connection.execute(statement("refresh_finding"), {**row, "finding_id": known[key]})
        elif key not in seen:
            names = {"kind": finding["kind"], "gpu_id": gpu_id, "holder_id": holder_id}
            connection.execute(statement("open_finding"), {**row, **names})
        seen.add(key)
    gone = [finding_id for key, finding_id in known.items() if key not in seen]
    if gone:
        connection.execute(statement("close_findings"), {"finding_ids": gone, "at_ms": at_ms})
    refreshed = len(seen & known.keys())
    return FindingsWritten(opened=len(seen) - refreshed, refreshed=refreshed, closed=len(gone))


def set_prices(connection: duckdb.DuckDBPyConnection, prices: Mapping[str, tuple[float, str]]) -> None:
    """Make the price list this one: model to (price of a GPU-hour, currency); ``*`` prices the others."""
    connection.execute("DELETE FROM prices")
    for model, (per_gpu_hour, currency) in prices.items():
        connection.execute("INSERT INTO prices VALUES (?, ?, ?)", (model, per_gpu_hour, currency))


def open_leases(connection: duckdb.DuckDBPyConnection) -> tuple[dict[str, object], ...]:
    """The leases that were granted and not released; times in UTC ms."""
    return _rows(connection, "open_leases", {})


def imported_ranges(connection: duckdb.DuckDBPyConnection, origin: str) -> tuple[tuple[int, int], ...]:
    """The half-open ranges, UTC ms, of an origin that are imported, in order."""
    rows = connection.execute(statement("imported_ranges"), {"origin": origin}).fetchall()
    return tuple((row[0], row[1]) for row in rows)


def note_import(connection: duckdb.DuckDBPyConnection, origin: str, span: tuple[int, int], rows: int) -> None:
    """Record that a range of an origin is imported."""
    connection.execute(
        statement("note_import"),
        {"origin": origin, "from_ms": span[0], "to_ms": span[1], "rows_added": rows},
    )


def _holder_ids(
    connection: duckdb.DuckDBPyConnection, found: list[Mapping[str, object]]
) -> dict[object, int]:
    jobs = sorted({str(finding["job"]) for finding in found if finding.get("job") is not None})
    rows = connection.execute(statement("known_holders"), {"jobs": jobs}).fetchall()
    return {row[1]: row[0] for row in rows}


def _rows(
    connection: duckdb.DuckDBPyConnection, name: str, parameters: Mapping[str, object]
) -> tuple[dict[str, object], ...]:
    cursor = connection.execute(statement(name), dict(parameters) or None)
    names = [column[0] for column in cursor.description or ()]
    return tuple(dict(zip(names, row, strict=True)) for row in cursor.fetchall())

"""What was found in imported pasts, after them: which ranges are to be judged, and what was said of one.

Runs inside the caller's transaction. Rows as in ``collector.store.judgements``, plain mappings.
"""

import json
from collections.abc import Iterable, Mapping, Sequence

import duckdb
import pyarrow as pa

from collector.store.statements import statement

_TIMES = ("opened_ms", "seen_ms", "over_ms", "window_from_ms", "window_to_ms")
_KEYS = ("kind", *_TIMES, "coverage", "rung", "wasted_gpu_hours", "sentence")
_ARROW = pa.schema(
    [
        ("kind", pa.string()),
        ("gpu_id", pa.int32()),
        ("holder_id", pa.int32()),
        *[(name, pa.int64()) for name in _TIMES],
        ("coverage", pa.float64()),
        ("rung", pa.int32()),
        ("wasted_gpu_hours", pa.float64()),
        ("sentence", pa.string()),
        ("evidence", pa.string()),
    ]
)
Span = tuple[int, int]
DAY_MS = 86_400_000
"""More than the rules look back, so that none looks at a day whose samples have been let go of."""
MOST_MS = 31 * DAY_MS
"""Of one span: what is judged is kept span by span, and the minutes of all its GPUs are read at once."""


def pasts_to_judge(connection: duckdb.DuckDBPyConnection, rules: str) -> tuple[Span, ...]:
    """The imported spans, UTC ms, that were never judged by these rules; what adjoins is one."""
    rows = connection.execute(statement("pasts_to_judge"), {"rules": rules}).fetchall()
    return joined(rows)


def joined(spans: Iterable[Sequence[int]]) -> tuple[Span, ...]:
    """Spans in order, those that touch or overlap as one that is no longer than ``MOST_MS``. Pure."""
    merged: list[Span] = []
    for from_ms, to_ms in spans:
        if merged and from_ms <= merged[-1][1] and to_ms - merged[-1][0] <= MOST_MS:
            merged[-1] = (merged[-1][0], max(merged[-1][1], to_ms))
        else:
            merged.append((from_ms, to_ms))
    return tuple(merged)


def measured_from(connection: duckdb.DuckDBPyConnection, span: Span) -> int | None:
    """From when on (UTC ms) a span can be judged by its samples; ``None``: they have been let go of.

    Without them a GPU that was measured looks silent, and what was found while they were there would go.
    """
    from_ms, to_ms = span
    asked = {"from_ms": from_ms, "to_ms": to_ms}
    row = connection.execute(statement("first_sample_of_past"), asked).fetchone()
    first_ms, kept_ms = row if row is not None else (None, None)
    if first_ms is None:
        return None
    if kept_ms is None or from_ms >= kept_ms or first_ms < kept_ms:  # an older import that is whole yet
        return from_ms
    return kept_ms + DAY_MS if kept_ms + DAY_MS < to_ms else None


def write_past_findings(
    connection: duckdb.DuckDBPyConnection, rows: Sequence[Mapping[str, object]], span: Span, rules: str
) -> None:
    """Make these what was found of what was over within ``span`` (UTC ms), and note by which rules.

    Keys of each: those of ``write_findings``, and ``opened_ms``, ``seen_ms``, ``over_ms``. What a service
    told at the time is left as it is. A GPU or job that the store does not know raises KeyError.
    """
    between = {"from_ms": span[0], "to_ms": span[1]}
    connection.execute(statement("clear_past_findings"), between)
    gpus = dict(connection.execute("SELECT uuid, gpu_id FROM gpus").fetchall())
    jobs = sorted({str(row["job"]) for row in rows if row["job"] is not None})
    known = connection.execute(statement("known_holders"), {"jobs": jobs}).fetchall()
    holders = {row[1]: row[0] for row in known}
    incoming = [
        {
            **{name: row[name] for name in _KEYS},
            "gpu_id": gpus[row["uuid"]],
            "holder_id": None if row["job"] is None else holders[row["job"]],
            "evidence": json.dumps(row.get("evidence") or {}),
        }
        for row in rows
    ]
    if incoming:  # at once: a tick waits meanwhile, and one by one 2,000 take five seconds of processor time
        connection.register("incoming", pa.Table.from_pylist(incoming, _ARROW))
        connection.execute(statement("insert_past_findings"))
        connection.unregister("incoming")
    connection.execute(statement("note_past_judged"), between | {"rules": rules})

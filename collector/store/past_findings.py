"""What was found in imported pasts, after them: which ranges are to be judged, and what was said of one.

Runs inside the caller's transaction. Rows as in ``collector.store.judgements``, plain mappings.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import duckdb
import pyarrow as pa

from collector.store.statements import statement

_TIMES = ("opened_ms", "seen_ms", "over_ms", "window_from_ms", "window_to_ms")
_KEYS = ("kind", *_TIMES, "coverage", "rung", "wasted_gpu_hours", "sentence")
_ARROW = pa.schema(
    [
        ("n", pa.int32()),
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
"""Of one past: the minutes of all its GPUs are read at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Past:
    """Imported ranges that adjoin, UTC ms, and up to when all of them are judged by the rules of now."""

    from_ms: int
    to_ms: int
    judged_ms: int


def pasts_to_judge(connection: duckdb.DuckDBPyConnection, rules: str) -> tuple[Past, ...]:
    """The imported pasts that these rules have not judged to their ends; what adjoins is one."""
    rows = connection.execute(statement("pasts_to_judge"), {"rules": rules}).fetchall()
    return tuple(past for past in joined(rows) if past.judged_ms < past.to_ms)


def joined(ranges: Iterable[tuple[int, int, int]]) -> tuple[Past, ...]:
    """Ranges in order (start, end, judged until), those that touch as one no longer than ``MOST_MS``. Pure.

    What is judged already counts too: a rest that began there is told whole.
    """
    merged: list[Past] = []
    for from_ms, to_ms, judged_ms in ranges:
        last = merged[-1] if merged else None
        if last is None or from_ms > last.to_ms or to_ms - last.from_ms > MOST_MS:
            merged.append(Past(from_ms=from_ms, to_ms=to_ms, judged_ms=judged_ms))
            continue
        end_ms = max(last.to_ms, to_ms)
        unjudged = [at for at, end in ((last.judged_ms, last.to_ms), (judged_ms, to_ms)) if at < end]
        merged[-1] = Past(from_ms=last.from_ms, to_ms=end_ms, judged_ms=min(unjudged, default=end_ms))
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
    connection: duckdb.DuckDBPyConnection,
    rows: Sequence[Mapping[str, object]],
    span: Span,
    rules: str,
    *,
    noted_from_ms: int | None = None,
    redone_to_ms: int | None = None,
) -> None:
    """Make these what was found of what was over within ``span`` (UTC ms), and note by which rules.

    Keys of each: those of ``write_findings``, and ``opened_ms``, ``seen_ms``, ``over_ms``. What a service
    told at the time is left as it is; what goes on from a piece of the past that was judged before is one
    finding. ``noted_from_ms``: of what lies between there and the span nothing can be judged any more.
    ``redone_to_ms``: what was over by then is judged anew next.
    A GPU or job that the store does not know raises KeyError.
    """
    connection.execute(statement("clear_past_findings"), {"from_ms": span[0], "to_ms": span[1]})
    gpus = dict(connection.execute("SELECT uuid, gpu_id FROM gpus").fetchall())
    jobs = sorted({str(row["job"]) for row in rows if row["job"] is not None})
    known = connection.execute(statement("known_holders"), {"jobs": jobs}).fetchall()
    holders = {row[1]: row[0] for row in known}
    incoming = [
        {
            **{name: row[name] for name in _KEYS},
            "n": n,
            "gpu_id": gpus[row["uuid"]],
            "holder_id": None if row["job"] is None else holders[row["job"]],
            "evidence": json.dumps(row.get("evidence") or {}),
        }
        for n, row in enumerate(rows)
    ]
    if incoming:  # at once: a tick waits meanwhile, and one by one 2,000 take five seconds of processor time
        connection.register("incoming", pa.Table.from_pylist(incoming, _ARROW))
        _insert(connection, incoming, span[1] if redone_to_ms is None else redone_to_ms)
        connection.unregister("incoming")
    noted = {"from_ms": span[0] if noted_from_ms is None else noted_from_ms, "to_ms": span[1]}
    connection.execute(statement("note_past_judged"), {**noted, "rules": rules})


def _insert(
    connection: duckdb.DuckDBPyConnection, incoming: Sequence[Mapping[str, object]], redone_to_ms: int
) -> None:
    """Add the registered rows, each joined with what was told of an adjoining past without a break."""
    touching: dict[int, list[tuple[int, bool, int, int]]] = defaultdict(list)
    for n, *stored in connection.execute(statement("touching_past_findings")).fetchall():
        touching[n].append(tuple(stored))
    numbers, openings = [], []
    for n, row in enumerate(incoming):
        stored, over_ms = touching[n], int(str(row["over_ms"]))
        if any(not of_past for _, of_past, *_ in stored):
            continue
        earlier = [each for each in stored if each[3] <= over_ms]
        later = [each for each in stored if each[3] > max(over_ms, redone_to_ms)]
        opened_ms = min([int(str(row["opened_ms"])), *(each[2] for each in (*earlier, *later))])
        gone = [each[0] for each in earlier]
        connection.execute(statement("drop_findings"), {"finding_ids": gone})
        if later:  # stays as it was told last
            asked = {"finding_id": later[-1][0], "opened_ms": opened_ms}
            connection.execute(statement("lengthen_past_finding"), asked)
            continue
        numbers.append(n)
        openings.append(opened_ms)
    connection.execute(statement("insert_past_findings"), {"ns": numbers, "opened_ms": openings})

"""Keeps the view ``latest`` true: where the newest sample of each GPU lies.

Of nearly all GPUs it is the row of ``samples`` at one of a few times, that of the last tick. The others are
set apart as copies. Everything here runs inside the caller's transaction.
"""

from dataclasses import dataclass

import duckdb
import numpy as np
import pyarrow as pa

from collector.store.statements import feed, statement

Times = np.ndarray[tuple[int], np.dtype[np.int64]]
Flags = np.ndarray[tuple[int], np.dtype[np.bool_]]
UNKNOWN_MS = -1
LOOK_BACK_MS = 600_000
"""After the clock was set back, a GPU whose newest sample is older than this has none that tells of now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Newest:
    """Where the newest samples lie. By gpu_id: when they ended (``ends_ms``), and which are copies."""

    ends_ms: Times
    apart: Flags
    times: frozenset[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Moves:
    """What to write so that ``latest`` follows: GPUs that fell behind, that came back, and the times."""

    behind: Times
    back: Times
    times: frozenset[int]


def read_newest(connection: duckdb.DuckDBPyConnection) -> Newest:
    """What the file says."""
    newest = connection.execute(statement("newest_samples")).fetchall()
    size = max((row[0] for row in newest), default=0) + 1
    ends_ms = np.full(size, UNKNOWN_MS, dtype=np.int64)
    apart = np.zeros(size, dtype=np.bool_)
    for gpu_id, ts_ms in newest:
        ends_ms[gpu_id] = ts_ms
    apart[[row[0] for row in connection.execute(statement("apart")).fetchall()]] = True
    times = frozenset(row[0] for row in connection.execute(statement("latest_times")).fetchall())
    return Newest(ends_ms=ends_ms, apart=apart, times=times)


def grown(ends_ms: Times, top: int) -> Times:
    """A copy, long enough to be indexed by ``top``; UNKNOWN_MS where nothing is known yet."""
    size = max(top + 1, len(ends_ms))
    longer = np.full(size, UNKNOWN_MS, dtype=np.int64)
    longer[: len(ends_ms)] = ends_ms
    return longer


def stored_ends(connection: duckdb.DuckDBPyConnection, newest: Newest) -> Times:
    """When each GPU's last stored sample ended; in ``newest`` it is earlier where the clock was set back."""
    return _with_span(connection, newest.ends_ms, int(newest.ends_ms.max()), None)


def ends_by(connection: duckdb.DuckDBPyConnection, ends_ms: Times, now_ms: int) -> Times:
    """The same, but none after ``now_ms``: what was measured before the clock was set back is not now."""
    ahead = ends_ms > now_ms
    if not ahead.any():
        return ends_ms
    unknown = np.full(len(ends_ms), UNKNOWN_MS, dtype=np.int64)
    return np.where(ahead, _with_span(connection, unknown, now_ms - LOOK_BACK_MS, now_ms), ends_ms)


def moves(newest: Newest, ends_ms: Times) -> Moves:
    """How the newest samples got from where they lay to ``ends_ms``, which has all GPUs of before; pure.

    A time that any GPU has left is no more one of the times: who stayed there fell behind.
    """
    before = grown(newest.ends_ms, len(ends_ms) - 1)
    apart = _longer(newest.apart, len(ends_ms))
    moved = ends_ms != before
    left = newest.times & frozenset(np.unique(before[moved]).tolist())
    behind = ~moved & ~apart & np.isin(ends_ms, list(left))
    times = (newest.times - left) | frozenset(np.unique(ends_ms[moved]).tolist()) - {UNKNOWN_MS}
    return Moves(behind=np.flatnonzero(behind), back=np.flatnonzero(moved & apart), times=times)


def follow(connection: duckdb.DuckDBPyConnection, newest: Newest, ends_ms: Times) -> Newest:
    """Let ``latest`` follow to ``ends_ms``, the rows of which are in the hot table by now."""
    made = moves(newest, ends_ms)
    apart = _longer(newest.apart, len(ends_ms)).copy()
    if len(made.behind):
        feed(connection, "set_apart", pa.table({"gpu_id": made.behind.astype(np.int32)}))
        apart[made.behind] = True
    if len(made.back):
        feed(connection, "clear_apart", pa.table({"gpu_id": made.back.astype(np.int32)}))
        apart[made.back] = False
    if made.times != newest.times:
        connection.execute(statement("clear_latest_times"))
        connection.execute(statement("insert_latest_times"), {"times_ms": sorted(made.times)})
    return Newest(ends_ms=ends_ms, apart=apart, times=made.times)


def _with_span(
    connection: duckdb.DuckDBPyConnection, ends_ms: Times, after_ms: int, to_ms: int | None
) -> Times:
    """The times, later where a sample of the span is."""
    span = {"after_ms": after_ms, "to_ms": to_ms}
    found = connection.execute(statement("ends_in_span"), span).fetchall()
    if not found:
        return ends_ms
    ids, ends = np.array(found, dtype=np.int64).T
    later = grown(ends_ms, int(ids.max()))
    later[ids] = np.maximum(later[ids], ends)
    return later


def _longer(apart: Flags, size: int) -> Flags:
    return np.concatenate([apart, np.zeros(size - len(apart), dtype=np.bool_)])

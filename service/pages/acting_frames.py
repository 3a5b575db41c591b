"""The lists of the acting routes as frames: the queue, leases and launched jobs. Pure.

Times are UTC instants; a field that a service does not send is an empty column.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import pandas as pd

QUEUE = ("job", "name", "user", "project", "gpus", "place", "waits_for", "since_ms", "promised_ms")
LEASES = ("job", "user", "project", "gpu", "node", "share", "sharing", "since_ms")
ENTRY = ("stand", "said", "ending", "submitted_ms", "started_ms", "ended_ms", "share")
ASKED = ("name", "user", "project", "kind", "mobility", "min_gpus", "max_gpus", "priority")
TIMES = ("since_ms", "promised_ms", "submitted_ms", "started_ms", "ended_ms")


def queue_frame(rows: Iterable[Mapping[str, Any]]) -> pd.DataFrame:
    """``GET /v1/queue``: a row a waiting job in order of place, with ``since`` and ``promised``."""
    frame = _framed(rows, QUEUE)
    return frame.sort_values("place", kind="stable", ignore_index=True)


def leases_frame(rows: Iterable[Mapping[str, Any]]) -> pd.DataFrame:
    """``GET /v1/leases``: a row a GPU lent."""
    return _framed(rows, LEASES)


def jobs_frame(rows: Iterable[Mapping[str, Any]]) -> pd.DataFrame:
    """``GET /v1/jobs``: a row a submitted job, the newest first; ``held`` is how many GPUs it has now."""
    flat = [_flat(row) for row in rows]
    frame = _framed(flat, ("job", *ENTRY, *ASKED, "held"))
    return frame.sort_values("submitted", ascending=False, kind="stable", ignore_index=True)


def matching(frame: pd.DataFrame, find: str | None, **filters: str | None) -> pd.DataFrame:
    """The rows that a text is found in (job, name, person, project), and that pass the filters."""
    kept = pd.Series(True, index=frame.index)
    for name, value in filters.items():
        if value is not None:
            kept &= frame[name] == value
    if find:
        whole = frame["job"].astype(str)
        for name in ("name", "user", "project"):
            whole = whole + " " + frame[name].fillna("").astype(str)
        kept &= whole.str.contains(find, case=False, regex=False)
    return frame[kept]


def asked_gpus(low: float | None, high: float | None, share: float | None) -> str:
    """How many GPUs were asked for, as it is typed: ``1-4``, ``2``, ``0.5``."""
    if low is None or pd.isna(low):
        return "\u2013"
    if share is not None and not pd.isna(share) and share < 1:
        return f"{share:g}" if low == 1 else f"{int(low)}x{share:g}"
    return f"{int(low)}" if high is None or high == low else f"{int(low)}-{int(high)}"


def _flat(row: Mapping[str, Any]) -> dict[str, Any]:
    asked = row.get("submission") or row
    return {
        "job": row.get("job") or row.get("id"),
        **{name: row.get(name) for name in ENTRY},
        **{name: asked.get(name) for name in ASKED},
        "held": len(row.get("gpus") or ()),
    }


def _framed(rows: Iterable[Mapping[str, Any]], columns: tuple[str, ...]) -> pd.DataFrame:
    frame = pd.DataFrame.from_records(
        [{name: row.get(name) for name in columns} for row in rows], columns=columns
    )
    for name in TIMES:
        if name in frame:
            stamped = pd.to_datetime(pd.to_numeric(frame.pop(name)), unit="ms", utc=True)
            frame[name.removesuffix("_ms")] = stamped.dt.as_unit("us")
    return frame

"""What a sum over a range rests on, where most of the range was not measured: one sentence for every head.

A store of a day says nothing of the week that somebody looks at; its sum under "in the last 7 days" would.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime

from analytics import text
from analytics.job_verdict import ENOUGH_MEASURED

QUERY = "measured_time"


def params(start: datetime, end: datetime, filters: Mapping[str, object]) -> dict[str, object]:
    """Of the query: a range is measured or not by the GPUs that are looked at, whoever held them."""
    return {"from_ts": start, "to_ts": end, **{name: filters.get(name) for name in ("node", "model")}}


def rests_on(
    rows: Sequence[Mapping[str, object]] | None, start: datetime, end: datetime, now: datetime
) -> str | None:
    """How much of the range was measured, up to ``now``. Times without a zone are UTC. Pure.

    ``rows``: of the query; an older service has none. ``None`` where nearly all was measured, or nothing,
    which is said elsewhere.
    """
    range_s = (min(text.aware(end), now) - text.aware(start)).total_seconds()
    measured_s = text.known(rows[0]["measured_s"]) if rows else None
    if not measured_s or range_s <= 0 or measured_s >= ENOUGH_MEASURED * range_s:
        return None
    return (
        f"This rests on {text.length(measured_s)} of {text.length(range_s)}: "
        f"{text.percent(measured_s / range_s)} of the range was measured."
    )

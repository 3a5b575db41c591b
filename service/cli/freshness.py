"""How new the answers are: where a question about the past ends, and when all was last judged."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from analytics import text
from service.cli import words
from service.client import Client
from service.durations import BadSpan, window
from service.summaries import accounted, measured_time, unjudged_pasts
from service.usecases.advice import newest

if TYPE_CHECKING:
    from service.client import Client
    from service.schemas.rows import AccountedUseRow


LEAST = timedelta(minutes=2)


def measured_window(client: "Client", since: str, until: str | None) -> tuple[datetime, datetime]:
    """Whole minutes from ``since`` to ``until``, at most to the newest sample.

    Later nobody is known to hold anything. It has two halves: raises ``BadSpan`` when it is under two
    minutes. Blocks.
    """
    measured_to = newest(client)
    start, requested = window(since, until, min(measured_to, datetime.now(UTC)))
    end = min(requested, measured_to.replace(second=0, microsecond=0))
    if end - start < LEAST:
        raise BadSpan(
            f"from {start:%Y-%m-%d %H:%M} to {requested:%Y-%m-%d %H:%M} (UTC) less than two minutes were "
            f"recorded, the newest sample is of {measured_to:%Y-%m-%d %H:%M}; give an earlier --since"
        )
    return start, end


SILENT = timedelta(hours=1)
"""Longer than a restart or a late import of a live service takes: what ended so long ago is over."""


def silent_end(client: Client, start: datetime, end: datetime) -> str | None:
    """What to say where nothing was measured at the end of a range, as after a recording or an import.

    ``None`` where something was, or ever. Blocks.
    """
    last = client.rows("span")[0]["last_ts"]
    if last is None or end - words.moment(last) < SILENT:
        return None
    until = words.moment(last).replace(second=0, microsecond=0) + timedelta(minutes=1)
    if start > datetime.now(UTC):  # an earlier end alone would lie before its begin
        return f"This time is yet to come: the last sample is of {words.clock_time(last)}."
    what = "in this time" if words.moment(last) < start else f"after {words.clock_time(last)}"
    return (
        f"Nothing was measured {what}: `--until {until:%Y-%m-%dT%H:%M}` ends the range with the last sample."
    )


def rests_on(client: Client, span: tuple[datetime, datetime], filters: Mapping[str, object]) -> str | None:
    """How much of a range was measured, where that is not nearly all of it. Blocks."""
    rows = client.rows_if_kept("measured_time", **measured_time.params(*span, filters))
    return measured_time.rests_on(rows, *span, datetime.now(UTC))


def left_out(client: Client, span: tuple[datetime, datetime], filters: Mapping[str, object]) -> str | None:
    """Hours that accounting gave out, of which no sample tells and which are in no sum. Blocks."""
    return accounted.left_out(accounted_by_user(client, span, filters))


def accounted_by_user(
    client: Client, span: tuple[datetime, datetime], filters: Mapping[str, object]
) -> "Sequence[AccountedUseRow]":
    """Rows of the query ``accounted_use``; none of one model, which it doesn't know. Blocks."""
    if filters.get("model"):
        return ()
    chosen = {name: filters.get(name) for name in ("node", "project", "user")}
    return client.rows_if_kept("accounted_use", from_ts=span[0], to_ts=span[1], **chosen, by="user") or ()


NEVER = "nothing was judged yet"
LATE_S = 300.0
"""Five judgements that did not come."""


def lateness(client: Client, now: datetime) -> str | None:
    """What to say where nobody has looked for a while, or ever; an older store does not tell."""
    rows = client.rows_if_kept("judgement")
    if rows is None:
        return None
    age_s = words.since(rows[0]["judged_at"], now) if rows else None
    if age_s is None:
        return NEVER
    return f"judged last {text.length(age_s)} ago" if age_s > LATE_S else None


def unjudged_past(client: Client, span: tuple[datetime, datetime]) -> str | None:
    """What of a range is not judged yet, as after an import; an older store does not tell. Blocks."""
    told = unjudged_pasts.not_judged_yet(client.rows_if_kept("unjudged_pasts") or (), span)
    return None if told is None else words.localized(told)

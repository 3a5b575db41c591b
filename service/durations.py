"""Lengths and points of time as people type them, and the window they make. Pure: ``now`` is handed in."""

import re
from datetime import UTC, datetime, timedelta, tzinfo

from service.errors import FallowError

_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_FIRST, _LAST = datetime(1, 1, 2, tzinfo=UTC), datetime(9999, 12, 30, tzinfo=UTC)
"""What lies between has a date in every zone."""
_PIECE = re.compile(r"(\d+(?:\.\d+)?)\s*([smhdw])")

STALE_S = 60.0
"""Samples come every few seconds: an answer about now that rests on older ones says as of when it is."""


class BadSpan(FallowError):
    """A length or point of time cannot be read."""


def parse_span(text: str) -> timedelta:
    """``90m``, ``24h``, ``7d``, ``1d12h``. Raises ``BadSpan``, naming what was typed."""
    pieces = _PIECE.findall(text.strip().lower())
    if not pieces or _PIECE.sub("", text.strip().lower()).strip():
        raise BadSpan(f"cannot read {text!r} as a length of time; write for example 90m, 24h, 7d or 1d12h")
    try:
        length = sum((timedelta(**{_UNITS[unit]: float(count)}) for count, unit in pieces), timedelta())
    except OverflowError:
        raise BadSpan(f"{text!r} is longer than can be counted; write for example 30d") from None
    if length <= timedelta():
        raise BadSpan(f"{text!r} is no time at all; write for example 90m, 24h or 7d")
    return length


def is_length(text: str) -> bool:
    """Whether a point of time was typed as a length, before now: ``24h``, no date."""
    try:
        return bool(parse_span(text))
    except BadSpan:
        return False


def parse_point(text: str, now: datetime, zone: tzinfo | None = None) -> datetime:
    """A point of time: ``24h`` means so long before ``now``; else ISO 8601.

    A date that names no zone is of ``zone``, ``None``: of the machine's own, in which verbs print times too.
    """
    try:
        at = _point(text, now, zone)
        if _FIRST <= at <= _LAST:
            return at
    except OverflowError:
        pass
    raise BadSpan(f"{text!r} lies outside the calendar; write for example 30d or 2026-11-21")


def _point(text: str, now: datetime, zone: tzinfo | None) -> datetime:
    """The point of time, in UTC. Raises ``BadSpan``, and OverflowError for one outside the calendar."""
    try:
        at = datetime.fromisoformat(text)
        at = (at.replace(tzinfo=zone) if at.tzinfo is None else at).astimezone(UTC)
    except ValueError:
        try:
            return now - parse_span(text)
        except BadSpan:
            raise BadSpan(
                f"cannot read {text!r} as a time; write a length such as 90m, 24h, 7d, "
                "or a date such as 2026-11-21 or 2026-11-21T09:30"
            ) from None
    return at


def window(
    since: str, until: str | None, now: datetime, zone: tzinfo | None = None
) -> tuple[datetime, datetime]:
    """Whole minutes from ``since`` to ``until`` (``now`` when not given), in UTC; ``zone`` as in
    ``parse_point``. Raises ``BadSpan``.
    """
    end = _minute(parse_point(until, now, zone) if until else now)
    start = _minute(parse_point(since, end, zone))
    if start >= end:
        raise BadSpan(f"--since {since} is not before --until {until or 'now'}")
    return start, end


def _minute(at: datetime) -> datetime:
    return at.replace(second=0, microsecond=0)

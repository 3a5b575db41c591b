"""When a receiver is to be reached: working hours, holidays, digests. Pure: the time is handed in.

Wall-clock times are read in the receiver's zone; one that a change to summer time skips falls on the instant
that exists instead, and one that comes twice counts the first time.
"""

from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

from service.config.alerting import DAYS, ReceiverConfig, minutes_of

LOOK_AHEAD_DAYS = 800
"""However many holidays somebody writes down: after two years of them a day counts as a working day."""


def is_working(wishes: ReceiverConfig, at_ms: int) -> bool:
    """Whether ``at_ms`` lies in the receiver's working hours."""
    at = _local(wishes, at_ms)
    if not _is_working_day(wishes, at.date()):
        return False
    return minutes_of(wishes.begins) <= at.hour * 60 + at.minute < minutes_of(wishes.ends)


def next_hours(wishes: ReceiverConfig, at_ms: int) -> int:
    """When working hours begin next, after ``at_ms``, UTC milliseconds."""
    begins = minutes_of(wishes.begins)
    return next(at for day in _days(wishes, at_ms) if (at := _instant(wishes, day, begins)) > at_ms)


def next_digest(wishes: ReceiverConfig, at_ms: int) -> int:
    """When the next digest is due, after ``at_ms``, UTC milliseconds."""
    times = sorted(minutes_of(each) for each in wishes.digest_at)
    instants = (_instant(wishes, day, minutes) for day in _days(wishes, at_ms) for minutes in times)
    return next(at for at in instants if at > at_ms)


def _days(wishes: ReceiverConfig, at_ms: int) -> Iterator[date]:
    """The working days from that of ``at_ms`` on, the day before included: zones differ by a day."""
    today = _local(wishes, at_ms).date()
    ahead = [today + timedelta(days=n) for n in range(-1, LOOK_AHEAD_DAYS)]
    yield from (day for day in ahead if _is_working_day(wishes, day))
    yield ahead[-1] + timedelta(days=1)


def _is_working_day(wishes: ReceiverConfig, day: date) -> bool:
    return DAYS[day.weekday()] in wishes.days and day.isoformat() not in wishes.holidays


def _instant(wishes: ReceiverConfig, day: date, minutes: int) -> int:
    at = datetime.combine(day, time(minutes // 60, minutes % 60), tzinfo=ZoneInfo(wishes.zone))
    return round(at.astimezone(UTC).timestamp() * 1000)


def _local(wishes: ReceiverConfig, at_ms: int) -> datetime:
    return datetime.fromtimestamp(at_ms / 1000, UTC).astimezone(ZoneInfo(wishes.zone))

"""When a report of a schedule is due, and when each was last settled."""

import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from apscheduler.triggers.cron import CronTrigger

from service.errors import FallowError

if TYPE_CHECKING:
    from service.config.telling import ReportConfig


TIMES = "report-times.json"
WEEKDAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat", "sun")
"""By their numbers in a crontab, where Sunday is 0 and 7; APScheduler counts from Monday."""
_NUMBERED = re.compile(r"(?:(?P<first>[0-7])(?:-(?P<last>[0-7]))?|\*(?=/))(?:/(?P<step>[1-9]))?")


class BadSchedule(FallowError):
    """A schedule in the configuration cannot be read."""


def newest_due(report: "ReportConfig", after: datetime, now: datetime) -> datetime | None:
    """The newest time in ``(after, now]`` at which the report is due; ``None`` when there is none.

    A wall-clock time that a change to summer time skips falls on the next instant that exists; one that
    comes twice counts the first time.
    """
    newest = None
    for at in _due_times(report, after):
        if at > now:
            break
        newest = at
    return newest


def next_due(report: "ReportConfig", now: datetime) -> datetime | None:
    """When it comes next."""
    return next(_due_times(report, now), None)


def cron_of(report: "ReportConfig") -> CronTrigger:
    """The report's schedule. Raises ValueError for fields that are none."""
    *fields, weekdays = report.cron.split()
    named = ",".join(map(_named, weekdays.split(",")))
    return CronTrigger.from_crontab(" ".join((*fields, named)), timezone=ZoneInfo(report.zone))


def read_times(data: Path) -> dict[str, datetime]:
    """When each schedule was last settled; none where nothing was written, or it cannot be read."""
    with suppress(OSError, ValueError):
        document: Mapping[str, str] = json.loads((data / TIMES).read_text())
        return {name: datetime.fromisoformat(at) for name, at in document.items()}
    return {}


def write_times(data: Path, times: Mapping[str, datetime]) -> None:
    """Keep them, whole or not at all."""
    fresh = data / f".{TIMES}.new"
    with fresh.open("w") as file:
        json.dump({name: at.isoformat() for name, at in times.items()}, file)
        file.flush()
        os.fsync(file.fileno())
    fresh.rename(data / TIMES)


def _due_times(report: "ReportConfig", after: datetime) -> Iterator[datetime]:
    """The times later than ``after`` at which it is due, in UTC."""
    trigger = cron_of(report)
    at = trigger.get_next_fire_time(after, after)
    while at is not None:
        if at > after and not at.fold:
            yield at.astimezone(UTC)
        at = trigger.get_next_fire_time(at, at)


def _named(weekdays: str) -> str:
    """A part of a crontab's weekday field with names for its numbers: ``1-3`` is ``mon,tue,wed``."""
    numbered = _NUMBERED.fullmatch(weekdays)
    if numbered is None:
        return weekdays
    first, last, step = numbered.group("first", "last", "step")
    if first is None:
        first, last = "0", "6"
    days = range(int(first), int(last or first) + 1, int(step or 1))
    return ",".join(WEEKDAYS[day] for day in days) or weekdays

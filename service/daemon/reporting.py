"""Scheduled reports: which is due, made once in a process of its own, late rather than never, never twice.

When each schedule was last settled stands in DATA/report-times.json. A schedule that is new begins now; one
that was due several times while the service was down is made once, for the newest of them.
"""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from apscheduler.triggers.cron import CronTrigger

from collector.clock import SystemClock
from service.trouble import FallowError

if TYPE_CHECKING:
    from collector.clock import Clock
    from service.config.model import Config
    from service.config.telling import ReportConfig
    from service.daemon.state import MaintenanceTask
    from service.delivery.outbox import Outbox

TIMES = "report-times.json"
EVERY_S = 15
MAKING_S = 600
LATEST = datetime.max.replace(tzinfo=UTC)
WEEKDAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat", "sun")
"""By their numbers in a crontab, where Sunday is 0 and 7; APScheduler counts from Monday."""
_NUMBERED = re.compile(r"(?:(?P<first>[0-7])(?:-(?P<last>[0-7]))?|\*(?=/))(?:/(?P<step>[1-9]))?")


class ReportFailed(FallowError):
    """A scheduled report could not be made; it is tried again at the next look."""


class BadSchedule(FallowError):
    """A schedule in the configuration cannot be read."""


def newest_due(report: "ReportConfig", after: datetime, now: datetime) -> datetime | None:
    """The newest time in ``(after, now]`` at which the report is due; ``None`` when there is none.

    A wall-clock time that a change to summer time skips falls on the next instant that exists; one that
    comes twice counts the first time.
    """
    found = None
    for at in _due_times(report, after):
        if at > now:
            break
        found = at
    return found


def next_due(report: "ReportConfig", now: datetime) -> datetime | None:
    """When it comes next."""
    return next(_due_times(report, now), None)


def cron_of(report: "ReportConfig") -> CronTrigger:
    """The report's schedule. Raises ValueError for fields that are none."""
    *fields, weekdays = report.cron.split()
    named = ",".join(map(_named, weekdays.split(",")))
    return CronTrigger.from_crontab(" ".join((*fields, named)), timezone=ZoneInfo(report.zone))


class Reporter:
    """Looks what is due and has it made. Called from one thread."""

    def __init__(self, data: Path, config: "Config", clock: "Clock", outbox: "Outbox") -> None:
        self._data = data
        self._config = config
        self._clock = clock
        self._outbox = outbox
        self._making: subprocess.Popen[str] | None = None
        self._ended = False

    def interrupt(self) -> None:
        """Cut the making of a report short, for good: it is due again at the next start."""
        self._ended = True
        making = self._making
        if making is not None:
            making.kill()

    def look(self) -> None:
        """Make what is due, and send what waits. Blocks while a report is made. Raises ``ReportFailed``."""
        self._push()
        now = datetime.fromtimestamp(self._clock.now_ms() / 1000, UTC)
        times = read_times(self._data)
        # Settled in what is now the future: the clock was wrong then. What was sent, the outbox knows.
        fresh = {name: now for name in self._config.reports if times.get(name, LATEST) > now}
        if fresh:
            write_times(self._data, times | fresh)
            times |= fresh
        troubles = []
        for name, report in self._config.reports.items():
            due = newest_due(report, times[name], now)
            if due is None:
                continue
            try:
                self._make(name, report, due)
            except ReportFailed as error:
                troubles.append(str(error))
                continue
            times[name] = due
            write_times(self._data, times)
        self._push()
        if troubles:
            raise ReportFailed("; ".join(troubles))

    def _push(self) -> None:
        """Send what waits, by the machine's clock: messages hurry in no rehearsal."""
        hurries = self._config.rehearsal.speed > 1
        self._outbox.push(SystemClock().now_ms() if hurries else self._clock.now_ms())

    def _make(self, name: str, report: "ReportConfig", due: datetime) -> None:
        from service.reports.posting import Order

        order = Order(name=name, due=due, report=report, delivery=self._config.delivery)
        command = [sys.executable, "-P", "-m", "service.reports.posting", str(self._data)]
        pipe = subprocess.PIPE
        with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as making:
            self._making = making
            if self._ended:
                making.kill()
            try:
                _, said = making.communicate(order.as_json(), timeout=MAKING_S)
            except subprocess.TimeoutExpired as error:
                making.kill()
                raise ReportFailed(f"the report {name} was not made within {MAKING_S} s") from error
            finally:
                self._making = None
        if making.returncode != 0:
            why = said.strip().splitlines()[-1:] or [f"exit code {making.returncode}"]
            raise ReportFailed(f"the report {name}, due {due:%Y-%m-%d %H:%M} UTC, was not made: {why[0]}")


def make_reporting(config: "Config", data: Path, clock: "Clock") -> "MaintenanceTask":
    """The chore of reports and messages. Raises ``BadSchedule`` for a cron expression that is none."""
    from service.daemon.state import MaintenanceTask
    from service.delivery.addresses import address_of
    from service.delivery.outbox import Outbox

    for name, report in config.reports.items():
        try:
            cron_of(report)
        except ValueError as error:
            raise BadSchedule(f"reports.{name}.cron = {report.cron!r} is no schedule: {error}") from error
    outbox = Outbox(data, lambda receiver: address_of(receiver, config.delivery))
    reporter = Reporter(data, config, clock, outbox)
    return MaintenanceTask(
        name="reports",
        every_s=EVERY_S,
        first_after_s=5,
        work=reporter.look,
        apart=True,
        interrupt=reporter.interrupt,
    )


def read_times(data: Path) -> dict[str, datetime]:
    """When each schedule was last settled; none where nothing was written, or it cannot be read."""
    with suppress(OSError, ValueError):
        found: Mapping[str, str] = json.loads((data / TIMES).read_text())
        return {name: datetime.fromisoformat(at) for name, at in found.items()}
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

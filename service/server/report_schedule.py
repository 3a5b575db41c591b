"""Scheduled reports: which is due, made once in a process of its own, late rather than never, never twice.

When each schedule was last settled stands in DATA/report-times.json. A schedule that is new begins now; one
that was due several times while the service was down is made once, for the newest of them.
"""

import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from collector.clock import SystemClock
from service.errors import FallowError
from service.reports.due import BadSchedule, cron_of, newest_due, read_times, write_times

if TYPE_CHECKING:
    from collector.clock import Clock
    from service.config.model import Config
    from service.config.telling import ReportConfig
    from service.health.condition import MaintenanceTask
    from service.notify.outbox import Outbox

EVERY_S = 15
"""Schedules are of minutes: a report begins within a quarter of its own."""
MAKING_S = 600
"""A thousand GPUs and 30 days take 2.4 s (docs/performance.md); who takes so long hangs."""
LATEST = datetime.max.replace(tzinfo=UTC)


class ReportFailed(FallowError):
    """A scheduled report could not be made; it is tried again at the next look."""


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
        # -P: no module comes from the folder one stands in (docs/decisions/0035).
        command = [sys.executable, "-P", "-m", "service.reports.posting", str(self._data)]
        pipe = subprocess.PIPE
        with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as making:
            self._making = making
            if self._ended:
                making.kill()
            try:
                _, message = making.communicate(order.as_json(), timeout=MAKING_S)
            except subprocess.TimeoutExpired as error:
                making.kill()
                raise ReportFailed(f"the report {name} was not made within {MAKING_S} s") from error
            finally:
                self._making = None
        if making.returncode != 0:
            why = message.strip().splitlines()[-1:] or [f"exit code {making.returncode}"]
            raise ReportFailed(f"the report {name}, due {due:%Y-%m-%d %H:%M} UTC, was not made: {why[0]}")


def make_reporting(config: "Config", data: Path, clock: "Clock") -> "MaintenanceTask":
    """The chore of reports and messages. Raises ``BadSchedule`` for a cron expression that is none."""
    from service.health.condition import MaintenanceTask
    from service.notify.message import address_of
    from service.notify.outbox import Outbox

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

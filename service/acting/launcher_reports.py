"""What launchers say of their jobs, as it is taken: by the owner's word or an operator's, within what can be.

A report is about one job, and changes no other. What the register does not take of it is told to ``Doubts``.
"""

from dataclasses import replace
from typing import TYPE_CHECKING

from advisor.register.model import Entry, Report

if TYPE_CHECKING:
    from advisor.register.register import Register
    from collector.clock import Clock
    from service.api.port import Caller

CLOCK_SLACK_MS = 2_000
"""A file's time and the service's clock are one machine's, and rounded differently."""
LEAST_STEP_S, MOST_STEP_S = 1e-6, 1e7
"""A step of a training takes longer than a kernel's launch and less than four months."""
MOST_STEPS_LEFT = 1e12
MOST_RESIZE_S = 86_400.0


class LauncherReports:
    """Takes reports about entries of the register. Safe from any thread."""

    def __init__(self, register: "Register", clock: "Clock", attended_s: float) -> None:
        self._register, self._clock, self._attended_s = register, clock, attended_s

    def take(self, caller: "Caller", entry: Entry, report: Report) -> None:
        """Take a word on this entry. Blocks only when something changed."""
        self._register.report(entry.id, self._as_taken(entry, report))

    def take_sign(self, caller: "Caller", entry: Entry, report: Report) -> bool:
        """The same for a word that says nothing new; false: ``take`` has to. Never blocks."""
        return self._register.heard_again(entry.id, self._as_taken(entry, report)) is not None

    def _as_taken(self, entry: Entry, report: Report) -> Report:
        """The report, with nobody at the terminal where nobody has typed for long."""
        away = report.quiet_s is not None and report.quiet_s >= self._attended_s
        report = replace(report, attached=False) if away else report
        return plausible(report, self._clock.now_ms())


def plausible(report: Report, now_ms: int) -> Report:
    """The report without what cannot be: times to come, and speeds that no training has. Pure."""
    step_s = {size: each for size, each in report.step_s.items() if LEAST_STEP_S <= each <= MOST_STEP_S}
    checkpoint_ms, left, resize_s = report.checkpoint_ms, report.steps_left, report.resize_s
    return replace(
        report,
        at_ms=min(report.at_ms, now_ms),
        checkpoint_ms=None
        if checkpoint_ms is None or checkpoint_ms > now_ms + CLOCK_SLACK_MS
        else checkpoint_ms,
        steps_left=None if left is None or left > MOST_STEPS_LEFT else left,
        step_s=step_s,
        resize_s=None if resize_s is None or resize_s > MOST_RESIZE_S else resize_s,
    )

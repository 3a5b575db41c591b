"""What launchers say of their jobs, as it is taken: by the owner's word or an operator's, within what can be.

A report is about one job, and changes no other. What the register does not take of it is told to ``Doubts``.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from advisor.jobs.lifecycle import leased
from advisor.jobs.model import JobRecord, Launcher, Report
from collector.model import JobId
from service.control.liveness import Liveness
from service.control.peer_processes import PeerProcesses, unheard

if TYPE_CHECKING:
    from advisor.jobs.job_store import Register
    from collector.clock import Clock
    from service.control.interface import Caller

Number = TypeVar("Number", int, float)

CLOCK_SLACK_MS = 2_000
"""A file's time and the service's clock are one machine's, and rounded differently."""
LEAST_STEP_S, MOST_STEP_S = 1e-6, 1e7
"""A step of a training takes longer than a kernel's launch and less than four months."""
MOST_STEPS_LEFT = 1e12
"""At a microsecond a step still eleven days: more is a mistake, or meant to bend the plan."""
MOST_RESIZE_S = 86_400.0
"""A day: who takes longer to change its size is not resized for anybody's sake."""


class LauncherReports:
    """Takes reports about entries of the register. Safe from any thread.

    ``eyes`` say which of a job's processes live; ``attended_s``: whoever has not typed for so long is away;
    ``named`` as ``PeerProcesses`` has it.
    """

    def __init__(
        self,
        register: "Register",
        clock: "Clock",
        eyes: Liveness,
        attended_s: float,
        named: Callable[[JobId, Launcher], None] = unheard,
    ) -> None:
        self._register, self._clock, self._attended_s = register, clock, attended_s
        self._eyes, self._peers = eyes, PeerProcesses(named=named)

    def take(self, caller: "Caller", entry: JobRecord, report: Report) -> None:
        """Take a word on this entry. Blocks only when something changed."""
        lets_go = set(leased(entry)) - set(report.gpus) or report.exit_reason is not None
        in_doubt = bool(lets_go and leased(entry) and self._eyes.living(entry))
        self._register.report(entry.id, self._accepted(caller, entry, report), in_doubt=in_doubt)

    def take_sign(self, caller: "Caller", entry: JobRecord, report: Report) -> bool:
        """The same for a word that says nothing new; false: ``take`` has to. Never blocks."""
        if not self._peers.knows(caller, entry, report):
            return False
        return self._register.heard_again(entry.id, self._accepted(caller, entry, report)) is not None

    def is_launcher(self, caller: "Caller", entry: JobRecord) -> bool:
        """Whether the kernel says that the caller is the job's launcher."""
        return self._peers.is_launcher(caller, entry)

    def _accepted(self, caller: "Caller", entry: JobRecord, report: Report) -> Report:
        """What is meant by it, within what can be; with nobody where nobody has typed for long."""
        report = self._peers.meant(caller, entry, report)
        away = report.quiet_s is not None and report.quiet_s >= self._attended_s
        return plausible(replace(report, attached=False) if away else report, self._clock.now_ms())


def plausible(report: Report, now_ms: int) -> Report:
    """The report without what cannot be: times to come, and speeds that no training has. Pure."""
    step_s = {size: each for size, each in report.step_s.items() if LEAST_STEP_S <= each <= MOST_STEP_S}
    return replace(
        report,
        at_ms=min(report.at_ms, now_ms),
        # What a client tells counts within what can be, so that it can't bend the plan (docs/decisions/0037).
        checkpoint_ms=_at_most(report.checkpoint_ms, now_ms + CLOCK_SLACK_MS),
        steps_left=_at_most(report.steps_left, MOST_STEPS_LEFT),
        step_s=step_s,
        resize_s=_at_most(report.resize_s, MOST_RESIZE_S),
    )


def _at_most(value: Number | None, most: Number) -> Number | None:
    return None if value is None or value > most else value

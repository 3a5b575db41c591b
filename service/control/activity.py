"""What the acting half does, as lines of the log and as counters for ``/metrics``.

Told of each change once it is committed: jobs by the register, actions by the journal, refusals by the loop.
Nothing here decides, and nothing blocks: it is called by whoever acts.
"""

import logging
import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from advisor.jobs.model import Command, JobRecord, JobState
from advisor.journal.journal import Begun
from advisor.journal.records import Result
from advisor.planner.plan import Rule
from advisor.state.model import ActionClass
from advisor.tags import verb_of
from service.logs import log_event

if TYPE_CHECKING:
    from advisor.cycle import Cycle
    from collector.model import JobId

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """What happened since the start of the service.

    ``actions`` by (verb, result), ``refusals`` by (class of action, rule), ``in_progress`` the actions whose
    result is not known yet; ``cycle_s`` is how long all cycles took together.
    """

    cycles: int
    failed_cycles: int
    cycle_s: float
    actions: Mapping[tuple[str, str], int]
    in_progress: int
    refusals: Mapping[tuple[str, str], int]


class Activity:
    """Logs and counts. Safe from any thread."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._cycles = self._failed = 0
        self._cycle_s = 0.0
        self._open: dict[int, Begun] = {}
        self._actions: Counter[tuple[str, str]] = Counter()
        self._refusals: Counter[tuple[str, str]] = Counter()
        self._refused: frozenset[tuple[JobId, ActionClass, Rule]] = frozenset()

    def job_changed(self, before: JobRecord | None, after: JobRecord) -> None:
        """A change of a job was committed: one line for each thing that changed."""
        if before is None:
            submission = after.submission
            log_event(
                log,
                "job-submitted",
                job=after.id,
                user=submission.user,
                project=submission.project,
                name=submission.name or None,
                gpus=_range(submission.min_gpus, submission.max_gpus),
                share=None if submission.share == 1 else submission.share,
            )
            return
        if after.directive is not None and after.directive != before.directive:
            _log_command(after, after.directive)
        if after.acknowledged > before.acknowledged:
            log_event(log, "command-handled", job=after.id, action=after.acknowledged, failed=after.failed)
        if after.gpus != before.gpus or after.share != before.share:
            _lease_changed(before, after)
        if after.state is not before.state:
            ended = after.state is JobState.ENDED
            log_event(
                log,
                "job-ended" if ended else f"job-{after.state.value}",
                job=after.id,
                user=after.submission.user,
                before=before.state.value,
                exit_reason=None if after.exit_reason is None or not ended else after.exit_reason.value,
                exit_code=after.exit_code if ended else None,
                reason=after.message or None,
            )

    def action_begun(self, begun: Begun) -> None:
        """The intent is in the journal; what it intends is done next."""
        with self._guard:
            self._open[begun.number] = begun
        log_event(
            log,
            "action-begun",
            action=begun.number,
            job=begun.job,
            verb=begun.verb,
            actor=begun.actor,
            reason=begun.reason or None,
        )

    def action_settled(self, number: int, result: Result, reason: str) -> None:
        """The journal has the result of an action."""
        with self._guard:
            begun = self._open.pop(number, None)
            verb = "unknown" if begun is None else begun.verb
            self._actions[verb, result.value] += 1
        log_event(
            log,
            "action-ended",
            logging.INFO if result is Result.DONE else logging.WARNING,
            action=number,
            job=None if begun is None else begun.job,
            verb=verb,
            result=result.value,
            found=reason or None,
        )

    def cycle_ended(self, cycle: "Cycle", took_s: float) -> None:
        """A cycle is over: new refusals, and one line if it did anything.

        A job that waits is refused its start in every cycle: that is counted when it begins or its rule
        changes, and stands in `fallow queue`. Advice that nobody switched on (its mode) stands in `fallow
        advise`. Lines of the log are the other refusals, to disturb somebody.
        """
        refused = {(each.job, each.action, each.rule): each for each in cycle.ruling.refused}
        with self._guard:
            self._cycles += 1
            self._cycle_s += took_s
            new = [each for key, each in refused.items() if key not in self._refused]
            self._refused = frozenset(refused)
            self._refusals.update((each.action.value, each.rule.value) for each in new)
        for each in new:
            if each.action is not ActionClass.SCHEDULE and each.rule is not Rule.MODE:
                log_event(
                    log,
                    "action-refused",
                    job=each.job,
                    action_class=each.action.value,
                    rule=each.rule.value,
                    reason=each.reason,
                )
        if cycle.outcomes:
            log_event(log, "cycle-acted", actions=len(cycle.outcomes), seconds=round(took_s, 3))

    def cycle_failed(self, took_s: float) -> None:
        """A cycle raised; the loop logs why."""
        with self._guard:
            self._cycles += 1
            self._failed += 1
            self._cycle_s += took_s

    def counts(self) -> Counts:
        """What happened so far."""
        with self._guard:
            return Counts(
                cycles=self._cycles,
                failed_cycles=self._failed,
                cycle_s=self._cycle_s,
                actions=dict(self._actions),
                in_progress=len(self._open),
                refusals=dict(self._refusals),
            )


def _log_command(after: JobRecord, directive: Command) -> None:
    log_event(
        log,
        "command-given",
        job=after.id,
        action=directive.number,
        command=verb_of(directive),
        reason=getattr(directive, "reason", "") or None,
    )


def _lease_changed(before: JobRecord, after: JobRecord) -> None:
    event = "lease-changed" if before.gpus and after.gpus else "lease-begun" if after.gpus else "lease-ended"
    log_event(
        log,
        event,
        job=after.id,
        user=after.submission.user,
        gpus=",".join(after.gpus) or None,
        before=",".join(before.gpus) or None,
        share=None if after.share == 1 or not after.gpus else after.share,
    )


def _range(least: int, most: int) -> str:
    return str(least) if least == most else f"{least}-{most}"

"""The books of a service that acts: journal, waiting plans and switch of one store, kept up to date.

What they hold goes into every look at the cluster (the brake counts what the journal knows), and what a cycle
finds goes back into them (what must be approved waits on the shelf). Nothing is done to anybody here.
"""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from advisor.actions import Resume, Start
from advisor.journal.in_progress import owed, with_owed
from advisor.journal.journal import StoreJournal
from advisor.journal.kill_switch import KillSwitch
from advisor.journal.pending_plans import PendingPlans
from advisor.journal.proposals import asking, reconcile
from advisor.journal.records import ActionRecord, remembered
from advisor.journal.recovery import Found, Recovering, Recovery
from advisor.outcomes import Done
from advisor.planner.limits import Limits
from advisor.state.model import ClusterState
from collector.model import GpuUuid, JobId

if TYPE_CHECKING:
    from advisor.cycle import Cycle
    from advisor.jobs.model import JobRecord
    from collector.clock import Clock
    from collector.store.database import Store

log = logging.getLogger(__name__)


class Records:
    """One for a service. ``open_books`` makes it."""

    def __init__(
        self,
        store: "Store",
        clock: "Clock",
        switch: KillSwitch,
        entry_of: "Callable[[JobId], JobRecord | None]",
        found: Found,
        *,
        by_launcher: "Callable[[JobId], bool]",
        known: "Callable[[], int]" = int,
    ) -> None:
        self.store, self.clock = store, clock
        self.journal = StoreJournal(store, clock, above=known)
        self.shelf = PendingPlans(store)
        self.switch = switch
        self._settling = Recovering(store, self.journal, entry_of, found, by_launcher=by_launcher)
        self._seen_ms: dict[int, int] = {}

    def remember(self, state: ClusterState) -> ClusterState:
        """``state`` with the recent past of the journal: for the brake, for cooldowns, and for those to whom
        others give way just now. Blocks briefly."""
        deeds, now = self.journal.lately(), self.journal.moment()
        state_now = remembered(state, deeds, now)
        result = owed(deeds, state_now, now)
        state_now = with_owed(
            state_now, result, {heir: self._place(heir, what.plan) for heir, what in result.items()}
        )
        self.journal.saw(state_now)
        return state_now

    def _place(self, job: JobId, plan: int | None) -> tuple[GpuUuid, ...]:
        """The GPUs that a plan starts a job on; none where it does not."""
        pending = None if plan is None else self.shelf.plan(plan)
        steps = () if pending is None else (each.step for each in pending.proposal.steps)
        return next((s.gpus for s in steps if isinstance(s, Start | Resume) and s.job == job), ())

    def settle(self) -> tuple[tuple[ActionRecord, Recovery], ...]:
        """Settle what a crash or a full disk left open; at the start and before every cycle. Blocks."""
        settled = self._settling.settle()
        for deed, how in settled:
            log.warning(
                "action %d (%s %s) is settled: %s, %s", deed.number, deed.verb, deed.job, *_result_text(how)
            )
        return settled

    def file(self, cycle: "Cycle", limits: Limits) -> None:
        """Put on the shelf what of a cycle's plan waits for a yes, and end what is not proposed any more."""
        now_ms = self.clock.now_ms()
        done = frozenset(step for step, outcome in cycle.outcomes if isinstance(outcome, Done))
        result = asking(cycle.plan, cycle.ruling.refused, cycle.state, limits, done)
        waiting = self.shelf.waiting()
        if not result and not waiting:
            return
        for pending in waiting:  # after a restart nothing may be measured for a while
            self._seen_ms.setdefault(pending.number, now_ms)
        rejections = self.shelf.said_no(now_ms)
        changes = reconcile(waiting, self._seen_ms, result, said_no=rejections, now_ms=now_ms)
        added = self.shelf.change(now_ms, changes)
        ended = {number for number, _ in changes.end}
        numbers = {pending.number for pending in waiting} - ended
        self._seen_ms = {number: at_ms for number, at_ms in self._seen_ms.items() if number in numbers}
        self._seen_ms.update(dict.fromkeys((*changes.still, *added), now_ms))


def open_books(
    store: "Store",
    clock: "Clock",
    folder: Path,
    entry_of: "Callable[[JobId], JobRecord | None]",
    found: Found = lambda job, step, intent: None,
    *,
    by_launcher: "Callable[[JobId], bool]",
    known: "Callable[[], int]" = int,
    withheld: "Callable[[], str | None]" = lambda: None,
) -> Records:
    """The books of a store, with the switch of its folder as file and store have it. Raises StoreFull.

    ``found`` says what a job's engine sees of a step that nobody saw the end of, ``known`` the
    highest number of a directive that a launcher knows; ``by_launcher``: whether a job's engine commands one;
    ``withheld``: why this service is not to act, whatever a person says.
    """
    switch = KillSwitch(store, folder, withheld)
    switch.adopt()
    return Records(store, clock, switch, entry_of, found, by_launcher=by_launcher, known=known)


def _result_text(how: Recovery) -> tuple[str, str]:
    return how.result.value, how.found

"""Sees to it that no job holds more memory than its share, after every cycle of the acting loop.

The rule is ``advisor.jobs.memory_watchdog``; this is its memory and its hands. Everything goes through the
journal and the engine as the cycle's own steps do. Telling keeps the mode of cap-memory (not while it is
off), and pausing needs it to be auto, as everything that disturbs. Clocks and the bound of an hour are not
asked: a neighbour would lose its work meanwhile. The switch is, before every step.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from advisor.actions import Notify, Pause
from advisor.jobs.memory_watchdog import Noted, draws, holdings, remembered, watch
from advisor.jobs.model import JobState
from advisor.outcomes import Done, Late
from advisor.planner.limits import Limits, Mode
from advisor.state.model import ActionClass
from collector.model import JobId

if TYPE_CHECKING:
    from advisor.cycle import Cycle, Journal
    from advisor.jobs.job_store import Register
    from advisor.outcomes import Engine
    from advisor.state.model import ClusterState
    from collector.clock import Clock
    from collector.snapshot import Snapshot


class MemoryWatchdog:
    """One thread at a time. After a restart it begins anew: whoever holds too much is told again first.

    ``snapshot`` is what the collector saw at its newest tick: memory by process, and whose they are. A word
    to the owner is waited for until it arrived or is late; for a pause, which may take its grace, the
    ``brief`` engine waits.
    """

    def __init__(
        self,
        register: "Register",
        engine: "Engine",
        journal: "Journal",
        clock: "Clock",
        limits: Limits,
        *,
        snapshot: "Callable[[], Snapshot]",
        brief: "Engine | None" = None,
        halted: Callable[[], str | None] = lambda: None,
    ) -> None:
        self._snapshot, self._brief, self._halted = snapshot, brief or engine, halted
        self._register, self._engine, self._journal = register, engine, journal
        self._clock, self._limits = clock, limits
        self._noted: Mapping[JobId, Noted] = {}

    def remember(self, state: "ClusterState") -> "ClusterState":
        """The state with what is known of jobs that were paused for their memory."""
        return remembered(state, self._noted)

    def after(self, cycle: "Cycle") -> None:
        """Tell and pause whom the rule names; nothing while acting is stopped. Blocks as the engine does."""
        if cycle.halt is not None:
            return
        state, before = cycle.state, self._noted
        entries = self._register.entries().values()
        paused = {each.id for each in entries if each.state is JobState.PAUSED}
        snapshot = self._snapshot()
        holders = holdings(snapshot.process_samples, dict(snapshot.owners))
        watched = watch(draws(state, entries, holders), before, self._clock.now_ms(), paused)
        self._noted = watched.noted
        for step in watched.steps:
            stopped = self._halted() is not None
            if stopped and isinstance(step, Pause):
                continue  # its time is up already: it is paused as soon as acting goes on
            if stopped or (self._may(step, state) and not self._do(step)):
                self._noted = self._failed(step, before)

    def _may(self, step: Notify | Pause, state: "ClusterState") -> bool:
        job = state.jobs[step.job]
        mode = self._limits.mode_for(ActionClass.CAP_MEMORY, job.project, state.projects)
        return mode is Mode.AUTO if isinstance(step, Pause) else mode is not Mode.OFF

    def _failed(self, step: Notify | Pause, before: Mapping[JobId, Noted]) -> Mapping[JobId, Noted]:
        """What did not reach its owner was not said; a pause that failed is tried after another wait."""
        rest = {id: note for id, note in self._noted.items() if id != step.job}
        if isinstance(step, Pause):
            note = self._noted[step.job]
            return {**rest, step.job: replace(note, told_ms=self._clock.now_ms())}
        return {**rest, step.job: before[step.job]} if step.job in before else rest

    def _do(self, step: Notify | Pause) -> bool:
        intent = self._journal.intends(self._clock.now_ms(), step)
        engine = self._engine if isinstance(step, Notify) else self._brief
        outcome = engine.do(step, intent)
        self._journal.came_of(self._clock.now_ms(), intent, outcome)
        under_way = isinstance(outcome, Late) and isinstance(step, Pause)  # it saves itself and then is off
        return under_way or isinstance(outcome, Done)

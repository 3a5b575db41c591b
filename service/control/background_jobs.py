"""Sees to background jobs in others' idle gaps, after every acting cycle: who leaves, and what came of it.

The rule is ``advisor.jobs.background``; this is its memory and its hands. Whoever must leave does so in every
mode and while acting is stopped for everything else but the kill switch, which shuts the gates and moves
nobody. Through the journal and the engine, as every step.
"""

import logging
import threading
from collections.abc import Callable
from dataclasses import asdict, replace
from functools import partial
from typing import TYPE_CHECKING

from advisor.actions import Requeue
from advisor.jobs.background import OpenGaps, Stay, is_beside, memory_seen, must_leave, open_gaps, stay_of
from advisor.jobs.memory_watchdog import holdings
from advisor.jobs.model import JobState
from advisor.outcomes import Done
from advisor.state.model import ActionClass
from collector.model import GpuUuid, Holder, JobId
from service.usecases.harvests import sentences

if TYPE_CHECKING:
    from advisor.cycle import Cycle, Journal
    from advisor.jobs.harvest_store import HarvestStore
    from advisor.jobs.job_store import Register
    from advisor.jobs.model import JobRecord
    from advisor.outcomes import Engine
    from collector.clock import Clock
    from collector.snapshot import Snapshot

log = logging.getLogger(__name__)

KEPT_EVERY_MS = 15_000
"""Between two writes of one stay: a crash of the service loses that much of the count at most, and the count
is the jobs' own, so the next write has it again."""


class BackgroundJobs:
    """``after`` is called by one thread at a time, everything else by any. ``stir`` is told of a job whose
    gates may have changed.
    """

    def __init__(
        self,
        register: "Register",
        engine: "Engine",
        journal: "Journal",
        clock: "Clock",
        *,
        book: "HarvestStore",
        snapshot: "Callable[[], Snapshot]",
        halted: Callable[[], str | None] = lambda: None,
    ) -> None:
        self._register, self._engine, self._journal, self._clock = register, engine, journal, clock
        self._book, self._snapshot, self._halted = book, snapshot, halted
        self._guard = threading.Lock()
        self._stays = {(each.job, each.from_ms): each for each in book.stays()}
        self._written_ms: dict[tuple[JobId, int], int] = {}
        self.stir: Callable[[JobId], None] = lambda job: None
        register.listen(self._changed)

    def open_gaps(self, entry: "JobRecord") -> OpenGaps:
        """On which of the job's GPUs background jobs may compute now; on none while the switch is thrown."""
        if entry.report is None or not entry.report.idle_gaps:
            return OpenGaps()
        open_now = open_gaps(entry, self._register.entries().values())
        return open_now if self._halted() is None else replace(open_now, gpus=())

    def guests(self) -> dict[GpuUuid, tuple[Holder, ...]]:
        """Who was sent into the idle gaps of which GPU, those too that are about to leave."""
        there = [each for each in self._register.entries().values() if each.state is not JobState.ENDED]
        found: dict[GpuUuid, tuple[Holder, ...]] = {}
        for each in there:
            if each.beside_gpu is not None:
                holder = Holder(job=each.id, user=each.submission.user)
                found[each.beside_gpu] = (*found.get(each.beside_gpu, ()), holder)
        return found

    def told(self, entry: "JobRecord") -> tuple[str, ...]:
        """What is said of a job's idle gaps, or of those that it computes in."""
        with self._guard:
            stays = sorted(self._stays.values(), key=lambda each: -each.to_ms)
        rows = [{**asdict(each), "harvested_gpu_s": each.harvested_gpu_s} for each in stays]
        return sentences(rows, entry.id)

    def totals(self) -> tuple[float, dict[JobId, float]]:
        """GPU-seconds harvested in all stays that are kept, and the slowdown of each job that has company."""
        entries = self._register.entries()
        with self._guard:
            stays = tuple(self._stays.values())
        now = {
            each.foreground: each.slowdown_ratio
            for each in stays
            if each.slowdown_ratio is not None
            and (entry := entries.get(each.job)) is not None
            and entry.started_ms == each.from_ms
            and is_beside(entry)
        }
        return sum(each.harvested_gpu_s or 0.0 for each in stays), now

    def after(self, cycle: "Cycle") -> None:
        """Write down what was done, and have those leave who must. Blocks as the engine does."""
        entries = self._register.entries()
        there = [each for each in entries.values() if each.beside is not None]
        if not there:
            return
        snapshot = self._snapshot()
        holders = holdings(snapshot.process_samples, dict(snapshot.owners))
        for entry in there:
            self._count(entry, entries)
            why = must_leave(entry, entries, cycle.state, holders)
            if why is not None and self._halted() is None:
                seen = memory_seen(entry, entries, cycle.state, holders)
                if seen is not None and seen > (entry.memory_seen_bytes or 0):
                    self._register.change(entry.id, partial(_needing, seen_bytes=seen))
                self._leave(entry, why)

    def _count(self, entry: "JobRecord", entries: "dict[JobId, JobRecord]") -> None:
        stay = stay_of(entry, entries, self._clock.now_ms())
        if stay is None:
            return
        key = stay.job, stay.from_ms
        with self._guard:
            refusal = self._stays.get(key)
            self._stays[key] = stay
        is_new = refusal is None or (refusal.step_s is None) is not (stay.step_s is None)
        if is_new or stay.to_ms - self._written_ms.get(key, 0) >= KEPT_EVERY_MS:
            self._write(stay)

    def _write(self, stay: Stay) -> None:
        self._book.put(stay)
        self._written_ms[stay.job, stay.from_ms] = stay.to_ms

    def _leave(self, entry: "JobRecord", why: str) -> None:
        step = Requeue(job=entry.id, action=ActionClass.BACKGROUND, reason=why)
        intent = self._journal.intends(self._clock.now_ms(), step)
        outcome = self._engine.do(step, intent)
        self._journal.came_of(self._clock.now_ms(), intent, outcome)
        with self._guard:
            stay = next((each for each in reversed(self._stays.values()) if each.job == entry.id), None)
        if stay is not None:
            self._write(stay)
        if not isinstance(outcome, Done):
            log.info("%s has not left the idle gaps of %s yet: %s", entry.id, entry.beside, outcome)

    def _changed(self, before: "JobRecord | None", after: "JobRecord") -> None:
        """Whoever has, or had, this job in its idle gaps may have to open or shut them."""
        for each in {after.beside, None if before is None else before.beside}:
            if each is not None:
                self.stir(each)


def _needing(entry: "JobRecord", *, seen_bytes: int) -> "JobRecord":
    return replace(entry, memory_seen_bytes=seen_bytes)

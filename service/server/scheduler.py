"""The service's clockwork on APScheduler: ticks on one thread, chores on another, slow ones on a third.

A tick is never queued behind a chore, and a late tick is skipped rather than doubled: the loop itself
records the hole. APScheduler goes by the wall clock: when that is set back, what is due is moved with it, or
nothing would run until the time comes again.
"""

import logging
import math
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta

from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.job import Job
from apscheduler.jobstores.base import JobLookupError
from apscheduler.schedulers.background import BackgroundScheduler
from apscheduler.triggers.interval import IntervalTrigger

from service.health.components import MISSED
from service.health.condition import Heartbeat, MaintenanceTask, ServiceHealth

log = logging.getLogger(__name__)

CHORE_LEAST_S = 1.0
"""However fast the calendar runs: a chore that never rests would leave the ticks no time."""

CHORE_PATIENCE_S = 300.0
"""Chores take turns on one thread, and some (a day that is sealed) take minutes on a slow disk."""

LOOK_S = 1.0
SET_BACK_S = 1.0
"""How often the wall clock is held against the steady one; a fall of so much between two looks counts."""


class Scheduler:
    """Runs a beat, and chores, until stopped; failures are logged, shown in the pulse, and tried again.

    The ``early`` chores begin when the first tick is stored, and what failed beside ticks that failed is done
    again as soon as one is stored: a disk that was full has room again then. All that is due comes ``speed``
    times as often, where the calendar runs so much faster than the machine's.
    """

    def __init__(
        self,
        beat: Heartbeat | None,
        pulse: ServiceHealth,
        speed: float = 1.0,
        early: tuple[MaintenanceTask, ...] = (),
        *,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._wall = wall
        self._ended = threading.Event()  # that the end is near
        self._beat_s = 0.0 if beat is None else beat.every_s / speed
        self._pulse = pulse
        self._early = early
        self._failed: dict[str, MaintenanceTask] = {}
        self._missing = False
        self._speed = speed
        self._interrupts: list[Callable[[], None]] = []
        self._due: dict[str, Job] = {}
        # Ticks have a thread of their own: no chore that takes long makes one late.
        self._executors = {name: ThreadPoolExecutor(1) for name in ("beat", "chores", "apart")}
        # Coalesced: what was missed, as while the machine slept, is done once, however late.
        self._scheduler = BackgroundScheduler(
            executors=self._executors,
            job_defaults={"coalesce": True, "max_instances": 1, "misfire_grace_time": None},
            timezone=UTC,
        )
        if beat is not None:
            self._scheduler.add_job(self._tick, args=[beat], executor="beat")  # at once, not at the next mark
            # Ticks on whole multiples of the width, so that the ticks of many machines fall together.
            every_s = beat.every_s / speed
            now_s = datetime.now(UTC).timestamp()
            first = datetime.fromtimestamp((now_s // every_s + 1) * every_s, UTC)
            trigger = IntervalTrigger(seconds=every_s, start_date=first, timezone=UTC)
            # A tick that comes over a second late is left out: the next mark has its own.
            self._scheduler.add_job(self._tick, trigger, args=[beat], executor="beat", misfire_grace_time=1)

    def start(self) -> None:
        """Begin; returns at once."""
        for name in ("scheduler", "executors.beat", "executors.chores", "executors.apart"):
            logging.getLogger(f"apscheduler.{name}").setLevel(logging.ERROR)
        self._scheduler.start()
        ahead_s = self._wall() - time.monotonic()
        threading.Thread(target=self._watch_clock, args=[ahead_s], name="watch-clock", daemon=True).start()

    def add_chores(self, chores: tuple[MaintenanceTask, ...]) -> None:
        """Begin these too, each after its own first wait."""
        self._interrupts += [chore.interrupt for chore in chores if chore.interrupt is not None]
        for chore in chores:
            start = _in(chore.first_after_s / self._speed)
            every_s = max(CHORE_LEAST_S, chore.every_s / self._speed)
            trigger = IntervalTrigger(seconds=every_s, start_date=start, timezone=UTC)
            self._pulse.health.expect(
                chore.name,
                bound_s=max(MISSED * every_s, CHORE_PATIENCE_S),
                first_s=chore.first_after_s / self._speed,
            )
            executor = "apart" if chore.apart else "chores"
            self._due[chore.name] = self._scheduler.add_job(
                self._chore, trigger, args=[chore], executor=executor, next_run_time=start
            )

    def now(self, chores: tuple[MaintenanceTask, ...]) -> None:
        """Do these at once as well, for what they look at has changed; the others come all the same."""
        for chore in chores:
            if chore.name in self._due:
                with suppress(JobLookupError):  # the scheduler has ended meanwhile
                    self._due[chore.name].modify(next_run_time=_in(0))

    def hurry(self) -> None:
        """The end is near: what takes long is cut short, and what that breaks is no trouble."""
        self._ended.set()
        for interrupt in self._interrupts:
            interrupt()

    def stop(self) -> None:
        """End after what is under way, of which what takes long is cut short; blocks until then.

        The scheduler waits under its own lock, which a tick wants that adds chores: it would wait for ever.
        """
        self.hurry()
        self._scheduler.shutdown(wait=False)
        for executor in self._executors.values():
            executor.shutdown(wait=True)

    def _watch_clock(self, ahead_s: float) -> None:
        while not self._ended.wait(LOOK_S):
            before_s, ahead_s = ahead_s, self._wall() - time.monotonic()
            if before_s - ahead_s > SET_BACK_S:
                self._set_back(before_s - ahead_s)

    def _set_back(self, by_s: float) -> None:
        """Move all that is due by as much, in whole beats, so that ticks stay where the marks are."""
        log.warning("the clock was set back by %.0f s; what is due moves with it", by_s)
        moved_s = math.ceil(by_s / self._beat_s) * self._beat_s if self._beat_s else by_s
        for job in self._scheduler.get_jobs():
            with suppress(JobLookupError):  # it has run meanwhile, or the scheduler has ended
                job.modify(next_run_time=job.next_run_time - timedelta(seconds=moved_s))

    def _tick(self, beat: Heartbeat) -> None:
        if self._ended.is_set():
            return
        try:
            self._pulse.note(last_tick_ms=beat.work(), trouble=None)
        except Exception as error:
            if self._ended.is_set():
                return
            self._missing = True
            log.error("tick failed: %s", error, exc_info=not expected(error))
            self._pulse.note(trouble=f"the last tick could not be stored: {error}")
        else:
            early, self._early = self._early, ()
            self.add_chores(early)
            missing, self._missing = self._missing, False
            if missing:
                self.now(tuple(self._failed.values()))

    def _chore(self, chore: MaintenanceTask) -> None:
        if self._ended.is_set():
            return
        try:
            chore.work()
            self._failed.pop(chore.name, None)
            self._pulse.chore_went(chore.name, None)
        except Exception as error:
            if self._ended.is_set():
                return
            self._failed[chore.name] = chore
            log.error("%s failed: %s", chore.name, error, exc_info=not expected(error))
            self._pulse.chore_went(chore.name, f"{chore.name} failed: {error}")


def expected(error: Exception) -> bool:
    """Our own operating failures say all there is to say; anything else is a bug and shows its trace."""
    return type(error).__module__.startswith("collector.store")


def _in(seconds: float) -> datetime:
    return datetime.fromtimestamp(datetime.now(UTC).timestamp() + seconds, UTC)

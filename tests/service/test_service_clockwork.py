"""The clockwork: what waits for the first tick, and what does not wait at all."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from collector.clock import SystemClock
from collector.store.errors import StoreFull
from service.health.components import HealthBoard
from service.health.condition import Condition, Heartbeat, MaintenanceTask, ServiceHealth
from service.server.scheduler import Scheduler

WAIT_S = 20.0


@contextmanager
def running(clockwork: Scheduler) -> Iterator[None]:
    clockwork.start()
    try:
        yield
    finally:
        clockwork.stop()


def pulse() -> ServiceHealth:
    return ServiceHealth(Condition(started_ms=0, tick_ms=1000), HealthBoard(SystemClock()))


def test_an_early_chore_comes_at_once_after_the_first_tick_that_is_stored() -> None:
    """Nothing is judged on a store that the service has not written to yet."""
    ticks: list[int] = []
    seen: list[int] = []
    judged = threading.Event()

    def tick() -> int:
        ticks.append(len(ticks))
        if len(ticks) == 1:
            raise StoreFull("no space left")
        return ticks[-1]

    def judge() -> None:
        seen.append(len(ticks))
        judged.set()

    early = MaintenanceTask(name="findings", every_s=3600, first_after_s=0, work=judge, early=True)
    with running(Scheduler(Heartbeat(every_s=1, work=tick), pulse(), early=(early,))):
        assert judged.wait(WAIT_S), "an hour's chore without a wait is not put off by an hour"
    assert seen[0] >= 2, "the first tick failed"
    assert len(seen) == 1, "it was begun once"


def test_what_is_asked_for_now_does_not_wait_for_its_turn() -> None:
    """With the older past filled in, what was judged on the last day alone is judged again."""
    times = threading.Semaphore(0)
    chore = MaintenanceTask(name="findings", every_s=3600, first_after_s=0, work=times.release)
    clockwork = Scheduler(None, pulse())
    with running(clockwork):
        clockwork.now((chore,))
        clockwork.add_chores((chore,))
        assert times.acquire(timeout=WAIT_S)
        clockwork.now((chore,))
        assert times.acquire(timeout=WAIT_S)


def test_what_is_due_moves_with_a_clock_that_is_set_back() -> None:
    """Or the service would be blind, and idle, until the time that it was comes again."""
    set_back_s = [0.0]
    done, waits = threading.Event(), threading.Event()
    clockwork = Scheduler(None, pulse(), wall=lambda: time.time() - set_back_s[0])
    with running(clockwork):
        clockwork.add_chores(
            (
                MaintenanceTask(name="due in half an hour", every_s=7200, first_after_s=1800, work=done.set),
                MaintenanceTask(name="due in two hours", every_s=7200, first_after_s=7200, work=waits.set),
            )
        )
        set_back_s[0] = 3600.0
        assert done.wait(WAIT_S)
        assert not waits.is_set()


def test_other_chores_come_when_they_are_added() -> None:
    done = threading.Event()
    clockwork = Scheduler(None, pulse())
    with running(clockwork):
        clockwork.add_chores((MaintenanceTask(name="late", every_s=3600, first_after_s=0, work=done.set),))
        assert done.wait(WAIT_S)


def test_what_failed_beside_ticks_that_failed_is_done_again_once_a_tick_is_stored() -> None:
    """A disk that was full for a moment leaves nothing undone for the hour until a chore's next turn."""
    room = threading.Event()
    missed, failed, done = threading.Event(), threading.Event(), threading.Event()
    seen = pulse()

    def write() -> int:
        if not room.is_set():
            missed.set()
            raise StoreFull("no space left")
        return 1

    def judge() -> None:
        if not room.is_set():
            failed.set()
            raise StoreFull("no space left")
        done.set()

    chore = MaintenanceTask(name="findings", every_s=3600, first_after_s=0, work=judge)
    clockwork = Scheduler(Heartbeat(every_s=1, work=write), seen)
    with running(clockwork):
        clockwork.add_chores((chore,))
        assert missed.wait(WAIT_S) and failed.wait(WAIT_S)
        room.set()
        assert done.wait(WAIT_S), "an hour's chore that failed is not put off by an hour"
    assert seen.condition.chore_troubles == {}


def test_first_tick_that_begins_its_chores_amid_the_end_does_not_hold_it_up() -> None:
    """Chores are added under the scheduler's lock, which it must not hold while it waits for the tick."""
    ticking, told = threading.Event(), threading.Event()
    at_work: list[bool] = []

    def tick() -> int:
        ticking.set()
        assert told.wait(WAIT_S)
        time.sleep(0.5)  # the end waits for this tick by now
        return 1

    early = MaintenanceTask(
        name="findings", every_s=3600, first_after_s=0, work=lambda: at_work.append(True), early=True
    )
    clockwork = Scheduler(Heartbeat(every_s=1, work=tick), pulse(), early=(early,))
    clockwork.start()
    assert ticking.wait(WAIT_S)
    ending = threading.Thread(target=clockwork.stop, daemon=True)
    ending.start()
    told.set()
    ending.join(WAIT_S)
    assert not ending.is_alive()
    assert at_work == []


def test_failed_chores_that_are_asked_for_amid_the_end_are_no_trouble() -> None:
    """What the scheduler has forgotten cannot come sooner."""
    chore = MaintenanceTask(name="findings", every_s=3600, first_after_s=0, work=lambda: None)
    clockwork = Scheduler(None, pulse())
    with running(clockwork):
        clockwork.add_chores((chore,))
    clockwork.now((chore,))

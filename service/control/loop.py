"""The acting loop: a thread that looks, decides and acts every few seconds, and at once when something came.

What it is made of is handed in; the cycle itself is ``advisor.cycle``. Before each one, what was open is
settled; after it, it is filed and the watchdogs look at neighbours (``settling``, ``after_cycle``). A cycle
that fails is said in the service's health and tried again. Who submitted a job agreed to be scheduled;
everything that disturbs keeps its mode (docs/act.md).
"""

import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from advisor.engines.router import Dispatch
from advisor.jobs.lifecycle import in_flight, lapsing, silent, vacated
from advisor.jobs.model import JobRecord, JobState
from advisor.outcomes import Engine, Interrupted
from service.control.activity import Activity
from service.control.background_jobs import BackgroundJobs
from service.control.memory_watchdog import MemoryWatchdog
from service.control.records import Records
from service.control.slowdown_watchdog import SlowdownWatchdog
from service.control.wait_reasons import Reasons, Wait, reasons_of, waits

if TYPE_CHECKING:
    from advisor.cycle import Cycle, Journal, Policy
    from advisor.jobs.job_store import Register
    from advisor.planner.limits import Limits
    from advisor.state.model import ClusterState
    from collector.clock import Clock
    from collector.model import JobId
if TYPE_CHECKING:
    from advisor.cycle import Cycle
    from advisor.planner.limits import Limits


log = logging.getLogger(__name__)

RESTS = 1.5
"""Of the time that a cycle took, so much is waited before the next: others want the processor as well."""
LEAST_REST_S = 0.05
"""After a cycle on an empty cluster, which takes no time: words of many launchers come in one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Looks:
    """Whether processes of this machine live; ``None``: it cannot be told from here.

    ``launcher`` is asked of an entry's launcher, ``workers`` whether any of its workers is left.
    """

    launcher: Callable[[JobRecord], bool | None]
    workers: Callable[[JobRecord], bool | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What a cycle is made of. ``before`` and ``after`` frame every one, ``halted`` is the switch."""

    register: "Register"
    observe: "Callable[[], ClusterState]"
    policies: "tuple[Policy, ...]"
    engine: Engine
    journal: "Journal"
    clock: "Clock"
    limits: "Limits"
    looks: Looks
    before: Callable[[], object] = lambda: None
    after: "Callable[[Cycle], None]" = lambda cycle: None
    halted: Callable[[], str | None] = lambda: None
    trouble: Callable[[str | None], None] = lambda trouble: None
    activity: Activity = field(default_factory=Activity)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How often is looked without any reason; how long a launcher may be silent before it counts as absent,
    and as lost; in seconds."""

    every_s: float = 5.0
    silent_s: float = 20.0
    launcher_grace_s: float = 120.0


class ActingLoop:
    """Runs cycles on a thread of its own until stopped."""

    def __init__(self, parts: Parts, pace: Pace) -> None:
        self._parts, self._pace = parts, pace
        self._woken = threading.Event()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="acting", daemon=True)
        self._unlisten = parts.register.listen(self._on_change)
        self.waits: Mapping[JobId, Wait] = {}
        self.state: ClusterState | None = None
        """The world that the newest cycle saw."""
        self.cycle_s: float | None = None
        """How long the newest cycle took, with the waits for launchers that it caused."""
        self._failing: str | None = None
        self._minders: dict[JobId, tuple[Callable[[], None], ...]] = {}
        self._minding = threading.Lock()

    def mind(self, job: "JobId", minder: Callable[[], None]) -> Callable[[], None]:
        """Tell ``minder`` whenever the job's place in the queue or its reason changed; the answer ends it."""
        with self._minding:
            self._minders[job] = (*self._minders.get(job, ()), minder)

        def end() -> None:
            with self._minding:
                rest = tuple(each for each in self._minders.get(job, ()) if each is not minder)
                self._minders.pop(job, None)
                if rest:
                    self._minders[job] = rest

        return end

    def stir(self, job: "JobId") -> None:
        """Tell the job's minders that something of it may have changed."""
        with self._minding:
            minders = self._minders.get(job, ())
        for minder in minders:
            minder()

    def stir_all(self) -> None:
        """Tell everybody's."""
        with self._minding:
            everyone = [each for minders in self._minders.values() for each in minders]
        for minder in everyone:
            minder()

    def absent(self) -> "frozenset[JobId]":
        """The jobs whose launcher is not to be reached now."""
        return self._parts.register.absent(self._pace.silent_s)

    def start(self) -> None:
        """Begin; returns at once."""
        self._thread.start()

    def hurry(self) -> None:
        """The end is near: no further step is begun."""
        self._stopping.set()
        self._woken.set()

    def stop(self) -> None:
        """End after the step that is under way, whose wait the engine's owner interrupts; blocks."""
        self.hurry()
        self._unlisten()
        if self._thread.is_alive():
            self._thread.join(timeout=10)

    def wake(self) -> None:
        """Look at once: something came that may matter."""
        self._woken.set()

    def cycle(self) -> "Cycle":
        """One cycle, on the caller's thread: first who is lost, then what to do. Raises what it raises."""
        from advisor.cycle import run_cycle  # it takes a while, and callers are answered by now

        parts = self._parts
        self._reap()
        parts.before()
        cycle = run_cycle(
            parts.observe,
            parts.engine,
            parts.journal,
            parts.clock,
            parts.limits,
            policies=parts.policies,
            halted=self._halted,
        )
        self._say(reasons_of(cycle) if cycle.halt is None else Reasons(otherwise=cycle.halt))
        self.state = cycle.state
        parts.after(cycle)
        return cycle

    def _run(self) -> None:
        while not self._stopping.is_set():
            # Before the cycle: what comes while it looks at the world is for the next one, at once.
            self._woken.clear()
            begun_ms = self._parts.clock.monotonic_ms()
            again = self._tried(begun_ms)
            took_s = self._since_s(begun_ms)
            self.cycle_s = took_s
            self._stopping.wait(max(LEAST_REST_S, took_s * RESTS))
            if not again:
                self._woken.wait(self._pace.every_s)

    def _since_s(self, begun_ms: int) -> float:
        return (self._parts.clock.monotonic_ms() - begun_ms) / 1000

    def _tried(self, begun_ms: int) -> bool:
        """Run a cycle, whatever comes of it; whether the next one should follow at once."""
        try:
            cycle = self.cycle()
        except Interrupted:
            return False
        except Exception as error:
            if self._stopping.is_set():  # what the end of the service breaks is no failure
                return False
            self._parts.activity.cycle_failed(self._since_s(begun_ms))
            self._failed(error)
            return False
        self._parts.activity.cycle_ended(cycle, self._since_s(begun_ms))
        self._parts.trouble(None)
        if self._failing is not None:
            log.warning("acting cycles succeed again")
            self._failing = None
        # A plan ends at the first step that the world no longer fits: the rest is planned anew at once.
        return cycle.halt is None and len(cycle.outcomes) < len(cycle.ruling.approved.steps)

    def _failed(self, error: Exception) -> None:
        """Say so wherever one looks; in the log once for as long as it is the same."""
        self._parts.trouble(f"the last acting cycle failed: {error}")
        if self._failing != str(error):
            expected = type(error).__module__.split(".")[0] in ("collector", "advisor", "service")
            log.error("an acting cycle failed: %s", error, exc_info=not expected)
        self._failing = str(error)

    def _halted(self) -> str | None:
        """The switch; asked before each step, so that none is begun by a service that ends."""
        if self._stopping.is_set():
            raise Interrupted
        return self._parts.halted()

    def _on_change(self, before: JobRecord | None, after: JobRecord) -> None:
        if before is None or matters(before, after):
            self._woken.set()

    def _reap(self) -> None:
        """Find who is lost: its entry ends, or waits for its workers' end; all in one commit, if any."""
        register, now_ms = self._parts.register, self._parts.clock.now_ms()
        silent_long = register.silent(self._pace.launcher_grace_s)
        lost = {
            entry.id: why
            for entry in register.entries().values()
            if entry.state is not JobState.ENDED
            and (why := self._why_lost(entry, entry.id in silent_long)) is not None
        }
        register.change_all(lost, lambda each: silent(each, now_ms, lost[each.id]))
        lapsed = [each.id for each in register.entries().values() if lapsing(each) and self._is_over(each)]
        register.change_all(lapsed, lambda each: vacated(each, now_ms))

    def _why_lost(self, entry: JobRecord, silent_long: bool) -> str | None:
        if lapsing(entry):
            return None
        alive = self._parts.looks.launcher(entry)
        if alive is False:
            return "its launcher is gone"
        if alive is None and silent_long:
            return f"its launcher was not heard for {self._pace.launcher_grace_s:g} s"
        return None

    def _is_over(self, entry: JobRecord) -> bool:
        """Whether nothing of a job whose launcher is lost is left."""
        looks = self._parts.looks
        return looks.workers(entry) is not True and looks.launcher(entry) is not True

    def _say(self, reasons: Reasons) -> None:
        """Reckon places and reasons anew, and tell those whose own has changed."""
        before, after = self.waits, waits(self._parts.register.entries().values(), reasons, self.absent())
        self.waits = after
        with self._minding:
            changed = [
                each
                for job, minders in self._minders.items()
                if before.get(job) != after.get(job)
                for each in minders
            ]
        for minder in changed:
            minder()


def matters(before: JobRecord, after: JobRecord) -> bool:
    """Whether a change may let somebody start, or call for a new decision. Pure."""
    return (
        before.state is not after.state
        or before.gpus != after.gpus
        or in_flight(before) != in_flight(after)
        or before.held_by_user != after.held_by_user
        or before.keep_until_ms != after.keep_until_ms
        or before.alone != after.alone
        or before.beside != after.beside
    )


def settling(books: Records, engine: Dispatch) -> "Callable[[], None]":
    """What goes before every cycle: what was open is settled, and what was told by then is noted."""

    def settle() -> None:
        for deed, how in books.settle():
            if deed.step is not None:
                engine.settled(deed.step, how.result, how.found)

    return settle


def after_cycle(
    books: Records,
    limits: "Limits",
    watching: "tuple[MemoryWatchdog | SlowdownWatchdog | BackgroundJobs, ...]",
) -> "Callable[[Cycle], None]":
    """What follows every cycle: it is filed, and neighbours are seen to: their memory, and their speed."""

    def follow(cycle: "Cycle") -> None:
        books.file(cycle, limits)
        for each in watching:
            each.after(cycle)

    return follow

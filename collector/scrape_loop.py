"""The tick: read every source at once, ask who was given what, and hand one ``Tick`` to the sink.

Each source has a thread of its own and a time limit, so a slow or dead one costs only itself: it becomes an
``Unavailable`` (of which the store makes a gap), and what it brings too late comes with the next tick. A
tick that comes late, or is lost to a failing sink, becomes a ``Gap`` here.
"""

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Protocol, TypeVar

from collector.attribution import Attribution
from collector.clock import Clock
from collector.clusters import JobsApart
from collector.gpu_identity import names_of, reconciled
from collector.model import (
    NODES_SOURCE,
    Gap,
    GpuUuid,
    MigPlace,
    NodeName,
    NodeState,
    OutOfService,
    Unavailable,
)
from collector.reading import Reading, Tick
from collector.snapshot import Snapshot, after
from collector.source import Source
from collector.source_log import SourceLog

log = logging.getLogger(__name__)

Outcome = Reading | Unavailable
T = TypeVar("T", Reading, Reading | Unavailable)

SLICE_S = 0.25
"""How soon a loop that waits for its sources finds that its end is near."""

LATE_TICKS = 1.5
"""A tick this many widths after the one before left a hole between them."""


class Hurried(Exception):
    """A tick was given up because the service ends; nothing of it is stored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """How often, and how long to wait. What was last known of a silent source holds for ``remember_ms``."""

    tick_ms: int = 10_000
    source_timeout_ms: int = 8_000
    inventory_every_ms: int = 30_000
    remember_ms: int = 600_000


class Attribute(Protocol):
    """Who holds what and whose each process is, from all that is known; ``None`` when nobody looked."""

    def __call__(self, readings: Sequence[Reading], now_ms: int) -> Attribution | None:
        """Pure; called once a tick."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopDependencies:
    """What the loop is joined to. ``inventories`` are sources of allocations that are asked more seldom.

    The sink gets each whole tick and may block; its failure costs that tick, and is told to the next.
    ``given_out`` are the nodes whose GPUs each source was known to give out before the loop began,
    ``clusters`` those of the GPUs that were known then.
    """

    sources: Sequence[Source]
    inventories: Sequence[Source] = ()
    given_out: Mapping[str, Sequence[NodeName]] = field(default_factory=dict)
    clusters: Mapping[GpuUuid, str] = field(default_factory=dict)
    attribute: Attribute
    sink: Callable[[Tick], None]


class Loop:
    """Reads all sources each time ``tick_once`` is called; one caller at a time."""

    def __init__(self, ports: LoopDependencies, *, clock: Clock, timing: Timing) -> None:
        self._ending = threading.Event()
        due = [(source, 0) for source in ports.sources]
        due += [(source, timing.inventory_every_ms) for source in ports.inventories]
        self._feeds = [
            _Feed(source, self._ending, every_ms=every_ms, gives=ports.given_out.get(source.name, ()))
            for source, every_ms in due
        ]
        self._attribute = ports.attribute
        self._sink = ports.sink
        self._clock = clock
        self._timing = timing
        self._last_ms: int | None = None
        self._owed: tuple[Gap, ...] = ()
        self._newest: dict[str, Outcome] = {}
        self._places: dict[str, tuple[MigPlace, ...]] = {}
        self._clusters = JobsApart(ports.clusters)
        self._snapshot = Snapshot()
        self._log = SourceLog()

    @property
    def snapshot(self) -> Snapshot:
        """The newest that is known of each GPU, for ``/metrics``; safe from any thread."""
        return self._snapshot

    def tick_once(self) -> Tick:
        """Read, attribute, hand to the sink. Blocks at most the source timeout and the sink's time.

        Raises what the sink raises, after noting the hole for the next tick.
        """
        now_ms, started_ms = self._clock.now_ms(), self._clock.monotonic_ms()
        if self._last_ms is not None and now_ms < self._last_ms:
            self._set_back(now_ms)
        outcomes = self._clusters.told(self._reconciled(self._read(now_ms)))
        self._log.note(outcomes)
        self._newest |= {each.source: each for each in outcomes}
        attribution = self._attribute(self._known(now_ms), now_ms)
        tick = Tick(
            at_ms=now_ms,
            width_ms=self._timing.tick_ms,
            outcomes=outcomes,
            allocations=None if attribution is None else attribution.allocations,
            owners=() if attribution is None else tuple(attribution.owners.items()),
            intrusions=() if attribution is None else attribution.intrusions,
            unclear=() if attribution is None else attribution.unclear,
            withheld=() if attribution is None else attribution.withheld,
            out_of_service=() if attribution is None else attribution.out_of_service,
            gaps=(*self._owed, *self._lateness(now_ms)),
        )
        self._last_ms = now_ms
        try:
            self._sink(tick)
        except Exception as error:
            self._owed = _owing(self._owed, tick, error)
            raise
        # Also when it could not be stored: a full disk is no reason for /metrics to stand still.
        finally:
            took_ms = self._clock.monotonic_ms() - started_ms
            self._snapshot = after(self._snapshot, tick, duration_ms=took_ms)
        self._owed = ()
        return tick

    def hurry(self) -> None:
        """The end is near: no source is waited for any more, and a tick that waits raises ``Hurried``."""
        self._ending.set()

    def close(self) -> None:
        """Close every source that is not stuck in a read; a stuck one ends with the process."""
        for feed in self._feeds:
            feed.close()

    def _set_back(self, now_ms: int) -> None:
        """The clock was set back: what is known is known now, and every source may be asked again."""
        self._newest = {name: _by(each, now_ms) for name, each in self._newest.items()}
        for feed in self._feeds:
            feed.set_back(now_ms)

    def _read(self, now_ms: int) -> tuple[Outcome, ...]:
        late = [outcome for feed in self._feeds if (outcome := feed.take()) is not None]
        feeds = [feed for feed in self._feeds if feed.ask(now_ms, self._clock)]
        self._await([feed.future for feed in feeds if feed.future])
        return (*late, *(feed.answer(self._clock, self._timing) for feed in feeds))

    def _await(self, futures: Sequence[Future[Outcome]]) -> None:
        """Until all have answered, or the source timeout is over. Raises ``Hurried``."""
        left_s = self._timing.source_timeout_ms / 1000
        while futures and left_s > 0:
            futures = tuple(wait(futures, timeout=min(SLICE_S, left_s)).not_done)
            left_s -= SLICE_S
            if futures and self._ending.is_set():
                raise Hurried("the service ends while its sources are waited for")

    def _reconciled(self, outcomes: tuple[Outcome, ...]) -> tuple[Outcome, ...]:
        """One name a GPU; what NVML said of MIG holds while it is silent."""
        self._places |= {each.source: each.mig_places for each in outcomes if isinstance(each, Reading)}
        places = [place for places_of_source in self._places.values() for place in places_of_source]
        return reconciled(outcomes, names_of(places))

    def _known(self, now_ms: int) -> tuple[Reading, ...]:
        oldest_ms = now_ms - self._timing.remember_ms
        readings = [feed.remember(self._newest.get(feed.name), oldest_ms) for feed in self._feeds]
        silent = (
            feed.unasked(now_ms) for feed, each in zip(self._feeds, readings, strict=True) if each is None
        )
        return tuple(reading for reading in (*readings, *silent) if reading is not None)

    def _lateness(self, now_ms: int) -> tuple[Gap, ...]:
        width_ms = self._timing.tick_ms
        if self._last_ms is None or now_ms - self._last_ms <= LATE_TICKS * width_ms:
            return ()
        late_s = (now_ms - self._last_ms - width_ms) / 1000
        reason = f"the tick came {late_s:.1f} s late: the one before overran, or the machine slept"
        return (Gap(source="loop", from_ms=self._last_ms, to_ms=now_ms - width_ms, reason=reason),)


class _Feed:
    """One source, its thread while it reads, and what it last knew of processes and allocations."""

    def __init__(
        self, source: Source, ending: threading.Event, *, every_ms: int, gives: Sequence[NodeName]
    ) -> None:
        self.name = source.name
        self.future: Future[Outcome] | None = None
        self._ending = ending
        self._source = source
        self._every_ms = every_ms
        self._asked_ms: int | None = None
        self._known: Reading | None = None
        self._told_ms: int | None = None
        self._gives = tuple(gives)

    def take(self) -> Outcome | None:
        """What came after its tick had given up on it."""
        if self.future is None or not self.future.done():
            return None
        future, self.future = self.future, None
        return future.result()

    def ask(self, now_ms: int, clock: Clock) -> bool:
        """Start a read if one is due; whether an answer is expected at this tick."""
        # Its last read is still under way: a source that hangs has one thread, not one more at each tick.
        if self.future is not None:
            return True
        if self._asked_ms is not None and now_ms - self._asked_ms < self._every_ms:
            return False
        self._asked_ms = now_ms
        self.future = Future()
        work = (self._source, now_ms, self.future, clock, self._ending)
        # A daemon: a read that hangs in a driver or a dead file system must not keep the service from ending.
        threading.Thread(target=_read_into, args=work, name=f"read-{self.name}", daemon=True).start()
        return True

    def set_back(self, now_ms: int) -> None:
        """Nothing was asked or known later than now."""
        self._asked_ms = None
        self._known = None if self._known is None else _by(self._known, now_ms)

    def answer(self, clock: Clock, timing: Timing) -> Outcome:
        """What it said in time, or that it has not; the same words each time, so that one gap grows."""
        outcome = self.take()
        if outcome is not None:
            return outcome
        now_ms = clock.now_ms()
        limit_s = timing.source_timeout_ms / 1000
        reason = f"no answer within {limit_s:g} s; what it brings later comes with a later tick"
        waited_ms = now_ms - (self._asked_ms or now_ms)
        return Unavailable(source=self.name, at_ms=now_ms, reason=reason, duration_ms=waited_ms)

    def remember(self, outcome: Outcome | None, oldest_ms: int) -> Reading | None:
        """The newest reading, with processes and allocations from the last time anybody looked."""
        reading = self._known if self._known is not None and self._known.at_ms >= oldest_ms else None
        if isinstance(outcome, Reading) and outcome.at_ms >= oldest_ms:
            reading = _merged(outcome, reading)
            self._told_ms = outcome.at_ms
            nodes = (
                *(each.node for each in reading.nodes or ()),
                *(each.node for each in reading.claims or ()),
            )
            self._gives = tuple(dict.fromkeys(nodes)) or self._gives
        self._known = reading
        return reading

    def unasked(self, now_ms: int) -> Reading | None:
        """Of a source that gives out nodes' GPUs and has long been silent: nobody knows who holds them."""
        if not self._gives:
            return None
        since = "the start" if self._told_ms is None else _clock(self._told_ms)
        reason = f"no answer from {self.name} since {since}"
        nodes = (NodeState(node=node, state=OutOfService.UNASKED, reason=reason) for node in self._gives)
        return Reading(source=self.name, at_ms=now_ms, nodes=tuple(nodes))

    def close(self) -> None:
        if self.future is None or self.future.done():
            self._source.close()


def _read_into(
    source: Source, now_ms: int, future: Future[Outcome], clock: Clock, ending: threading.Event
) -> None:
    """Read, with the measured duration filled in; a bug in a source costs that source, not the loop.

    At the end what a source reads may be cut short under it: that is no fault of it.
    """
    started_ms = clock.monotonic_ms()
    try:
        outcome = source.read(now_ms)
    except Exception as error:
        if not ending.is_set():
            log.exception("source failed", extra={"source": source.name})
        outcome = Unavailable(source=source.name, at_ms=now_ms, reason=f"a fault in Fallow: {error!r}")
    took_ms = float(clock.monotonic_ms() - started_ms)
    future.set_result(outcome if outcome.duration_ms else replace(outcome, duration_ms=took_ms))


def _clock(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M UTC")


def _by(outcome: T, now_ms: int) -> T:
    """The outcome, dated now at the latest."""
    return replace(outcome, at_ms=min(outcome.at_ms, now_ms))


def _merged(newest: Reading, reading: Reading | None) -> Reading:
    """The newest reading; what it did not look at is as it was when somebody last did."""
    if reading is None:
        return newest
    looked = newest.processes is not None
    return replace(
        newest,
        processes=newest.processes if looked else reading.processes,
        process_samples=newest.process_samples if looked else reading.process_samples,
        allocations=reading.allocations if newest.allocations is None else newest.allocations,
        claims=reading.claims if newest.claims is None else newest.claims,
        nodes=reading.nodes if newest.nodes is None else newest.nodes,
    )


def _owing(gaps: tuple[Gap, ...], tick: Tick, error: Exception) -> tuple[Gap, ...]:
    """The hole that lost ticks leave, one a source however long the sink fails.

    What nodes push is not lost: it waits until it is stored.
    """
    begun = {gap.source: gap.from_ms for gap in gaps}
    reason = f"the tick could not be stored: {error}"
    return tuple(
        Gap(
            source=name,
            from_ms=begun.get(name, tick.at_ms - tick.width_ms),
            to_ms=tick.at_ms,
            reason=reason,
        )
        for name in dict.fromkeys([*begun, *(each.source for each in tick.outcomes)])
        if name != NODES_SOURCE
    )

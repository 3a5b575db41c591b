"""Gathers a source's ticks into one history for the store: samples, who held what when, who was where.

Attribution is the loop's own (``collector.attribution``), asked for each machine whenever what it knows of
processes or allocations has changed.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace

from collector.arrow import HeldInterval, History, IntrudedInterval, to_table
from collector.attribution import Attribution, effective
from collector.model import (
    Allocation,
    Event,
    Gap,
    Gpu,
    GpuSample,
    GpuUuid,
    Holder,
    Intrusion,
    JobId,
    Process,
    ProcessKey,
    ProcessSample,
)
from collector.reading import Reading
from collector.store.database import Store

BELIEVED_MS = 600_000
"""How long what was last known of a silent machine holds, as in the loop
(``collector.scrape_loop.Timing``).
"""

Told = tuple[GpuUuid, JobId, float, str]


@dataclass(slots=True)
class _Node:
    """What is remembered of one machine from tick to tick."""

    last_ms: int = 0
    looked: Reading | None = None
    asked: object = None
    found: Attribution | None = None
    held: dict[Told, tuple[int, Allocation]] = field(default_factory=dict)
    intruded: dict[Intrusion, int] = field(default_factory=dict)


class Recorder:
    """Takes readings in the order of time, and hands all of them to a store at the end."""

    def __init__(self, source: str, tick_ms: int) -> None:
        self._source = source
        self._tick_ms = tick_ms
        self._nodes: dict[str, _Node] = {}
        self._gpus: dict[GpuUuid, Gpu] = {}
        self._samples: list[GpuSample] = []
        self._held: list[HeldInterval] = []
        self._holders: dict[JobId, Holder] = {}
        self._intruded: list[IntrudedInterval] = []
        self._processes: dict[ProcessKey, Process] = {}
        self._process_samples: list[ProcessSample] = []
        self._owners: dict[ProcessKey, JobId] = {}
        self._events: list[Event] = []
        self._gaps: list[Gap] = []
        self._last_ms = 0

    def take(self, node: str, readings: Iterable[Reading], at_ms: int) -> Attribution | None:
        """What the sources of one machine said at one tick; who holds what after it."""
        state = self._nodes.setdefault(node, _Node(last_ms=at_ms))
        if at_ms - state.last_ms > BELIEVED_MS:
            self.leave(node, at_ms)
        state.last_ms = at_ms
        told = [self._merged(state, each) for each in readings]
        self._last_ms = max(self._last_ms, at_ms)
        for each in told:
            self._gpus.update((gpu.uuid, gpu) for gpu in each.gpus)
            self._samples += each.samples
            self._events += each.events
            self._gaps += each.gaps
        asked = tuple(_known(each) for each in told)
        if asked != state.asked or state.found is None:
            state.asked = asked
            state.found = effective(told, at_ms)
            if state.found is not None:
                self._hold(state, state.found, at_ms)
        return state.found

    def leave(self, node: str, at_ms: int) -> None:
        """The machine answers no more: whatever is open there ends, after it was believed for a while."""
        state = self._nodes.get(node)
        if state is not None:
            self._close(state, set(), set(), min(at_ms, state.last_ms + BELIEVED_MS))
            state.asked = state.looked = state.found = None

    def write(self, store: Store) -> None:
        """Store all of it, and whose each process was."""
        for state in self._nodes.values():
            self._close(state, set(), set(), None)
        store.write_history(
            History(
                source=self._source,
                gpus=tuple(self._gpus.values()),
                samples=to_table(self._samples),
                held=tuple(
                    replace(each, allocation=replace(each.allocation, holder=self._holders[job]))
                    for each in self._held
                    for job in [each.allocation.holder.job]
                ),
                processes=tuple(self._processes.values()),
                process_samples=tuple(self._process_samples),
                events=tuple(self._events),
                gaps=tuple(self._gaps),
                intruded=tuple(self._intruded),
                owners=tuple(self._owners.items()),
            )
        )

    def _merged(self, state: _Node, reading: Reading) -> Reading:
        """The reading; processes are those of the last look where this tick did not look."""
        if reading.process_samples is not None:
            self._processes.update((each.key, each) for each in reading.processes or ())
            self._process_samples += reading.process_samples
            state.looked = reading
            return reading
        if state.looked is None or state.looked.source != reading.source:
            return reading
        return Reading(
            source=reading.source,
            at_ms=reading.at_ms,
            gpus=reading.gpus,
            samples=reading.samples,
            processes=state.looked.processes,
            process_samples=state.looked.process_samples,
            allocations=reading.allocations,
            claims=reading.claims,
            events=reading.events,
            gaps=reading.gaps,
        )

    def _hold(self, state: _Node, found: Attribution, at_ms: int) -> None:
        self._owners.update(found.owners)
        for each in found.allocations:
            self._learn(each.holder)
        now: Mapping[Told, Allocation] = {
            (each.uuid, each.holder.job, each.share, each.source.value): each for each in found.allocations
        }
        self._close(state, set(now), set(found.intrusions), at_ms - self._tick_ms)
        began_ms = at_ms - self._tick_ms
        for key, allocation in now.items():
            begun = state.held.get(key, (began_ms, allocation))
            state.held[key] = (begun[0], allocation)
        for intrusion in found.intrusions:
            state.intruded.setdefault(intrusion, began_ms)

    def _learn(self, holder: Holder) -> None:
        """Keep what was ever said of a job, as the store does from tick to tick."""
        known = self._holders.get(holder.job)
        if known is None or known == holder:
            self._holders[holder.job] = holder
            return
        told = {
            column.name: value
            for column in fields(holder)
            if (value := getattr(holder, column.name)) is not None
        }
        self._holders[holder.job] = replace(known, **told)

    def _close(self, state: _Node, held: set[Told], intruded: set[Intrusion], at_ms: int | None) -> None:
        for key in [key for key in state.held if key not in held]:
            from_ms, allocation = state.held.pop(key)
            if at_ms is None or at_ms > from_ms:
                self._held.append(HeldInterval(allocation=allocation, from_ms=from_ms, to_ms=at_ms))
        for each in [each for each in state.intruded if each not in intruded]:
            from_ms = state.intruded.pop(each)
            if at_ms is None or at_ms > from_ms:
                self._intruded.append(IntrudedInterval(intrusion=each, from_ms=from_ms, to_ms=at_ms))


def _known(reading: Reading) -> object:
    """What attribution looks at, as something that can be compared."""
    used = (
        None if reading.process_samples is None else tuple((s.uuid, s.key) for s in reading.process_samples)
    )
    return (
        reading.source,
        tuple(gpu.uuid for gpu in reading.gpus),
        used,
        None if reading.processes is None else tuple(map(id, reading.processes)),
        reading.allocations,
        reading.claims,
    )

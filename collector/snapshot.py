"""The newest that is known of each GPU, kept from tick to tick for whoever asks between two of them. Pure.

A source may have news only at every third tick, or fall silent: a sample stays until it is old, then goes, so
that nobody mistakes what was for what is.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from collector.managers.model import Look
from collector.model import (
    Allocation,
    Event,
    Gpu,
    GpuSample,
    GpuUuid,
    HolderSample,
    JobId,
    Process,
    ProcessKey,
    ProcessSample,
    Unavailable,
    Withheld,
)
from collector.reading import Reading, Tick

KEPT_MS = 90_000
"""How long a sample stays when nothing newer comes: three of the longest usual intervals."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceHealth:
    """How a source fared when it was asked last, at the tick of ``at_ms``; ``reason``: why it is not up."""

    name: str
    is_up: bool
    duration_ms: float
    gpus: int
    at_ms: int = 0
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EventCount:
    """How often a kind of event befell a GPU since the start, and the last time."""

    last: Event
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """What is known after a tick. ``allocations`` is ``None`` when nobody ever looked.

    ``holder_samples``: what each holder did in the time of its GPU's newest sample, where that is told.
    ``owners`` says whose job a process is, where that is known. ``looks`` are each workload manager's newest.
    """

    at_ms: int = 0
    gpus: tuple[Gpu, ...] = ()
    samples: tuple[GpuSample, ...] = ()
    processes: tuple[Process, ...] = ()
    process_samples: tuple[ProcessSample, ...] = ()
    holder_samples: tuple[HolderSample, ...] = ()
    allocations: tuple[Allocation, ...] | None = None
    withheld: tuple[Withheld, ...] = ()
    owners: tuple[tuple[ProcessKey, JobId], ...] = ()
    events: tuple[EventCount, ...] = ()
    sources: tuple[SourceHealth, ...] = ()
    looks: tuple[Look, ...] = ()
    ticks: int = 0
    tick_duration_ms: float = 0.0


def after(before: Snapshot, tick: Tick, *, duration_ms: float) -> Snapshot:
    """The snapshot after a tick that took ``duration_ms`` in all."""
    readings = [outcome for outcome in tick.outcomes if isinstance(outcome, Reading)]
    oldest = tick.at_ms - KEPT_MS
    samples = {s.uuid: s for s in before.samples if s.at_ms >= oldest}
    for sample in (s for reading in readings for s in reading.samples):
        if sample.uuid not in samples or sample.at_ms >= samples[sample.uuid].at_ms:
            samples[sample.uuid] = sample
    gpus = {gpu.uuid: gpu for gpu in before.gpus if gpu.uuid in samples}
    gpus |= {gpu.uuid: gpu for reading in readings for gpu in reading.gpus}
    looked = [reading for reading in readings if reading.processes is not None]
    return replace(
        before,
        at_ms=tick.at_ms,
        gpus=tuple(gpus.values()),
        samples=tuple(sample for sample in samples.values() if sample.uuid in gpus),
        processes=_processes(before, looked),
        process_samples=_process_samples(before, looked, oldest),
        holder_samples=_holder_samples(before, readings, samples),
        allocations=before.allocations if tick.allocations is None else tick.allocations,
        withheld=before.withheld if tick.allocations is None else tick.withheld,
        owners=before.owners if tick.allocations is None else tick.owners,
        events=_events(before, readings),
        sources=_health(before, tick),
        looks=_looks(before, readings),
        ticks=before.ticks + 1,
        tick_duration_ms=duration_ms,
    )


def _looks(before: Snapshot, readings: Iterable[Reading]) -> tuple[Look, ...]:
    """One a cluster; what a manager that is silent said last stays, with its time."""
    newest = {look.cluster: look for look in before.looks}
    newest |= {reading.look.cluster: reading.look for reading in readings if reading.look is not None}
    return tuple(newest.values())


def _processes(before: Snapshot, looked: Iterable[Reading]) -> tuple[Process, ...]:
    """Of a node that was looked at, what runs now; of the others, what was last seen."""
    looked = tuple(looked)
    nodes = {gpu.node for reading in looked for gpu in reading.gpus}
    processes = {process.key: process for process in before.processes if process.key.node not in nodes}
    return tuple((processes | {p.key: p for reading in looked for p in reading.processes or ()}).values())


def _process_samples(
    before: Snapshot, looked: Iterable[Reading], oldest_ms: int
) -> tuple[ProcessSample, ...]:
    looked = tuple(looked)
    uuids = {gpu.uuid for reading in looked for gpu in reading.gpus}
    samples = [s for s in before.process_samples if s.uuid not in uuids and s.at_ms >= oldest_ms]
    return (*samples, *(s for reading in looked for s in reading.process_samples or ()))


def _holder_samples(
    before: Snapshot, readings: Iterable[Reading], newest: Mapping[GpuUuid, GpuSample]
) -> tuple[HolderSample, ...]:
    """Of the time of a GPU's newest sample alone: what is older would be read as what it did then."""
    samples = (*before.holder_samples, *(each for reading in readings for each in reading.holder_samples))
    return tuple(
        {
            (each.uuid, each.job): each
            for each in samples
            if each.uuid in newest and each.at_ms == newest[each.uuid].at_ms
        }.values()
    )


def _events(before: Snapshot, readings: Iterable[Reading]) -> tuple[EventCount, ...]:
    counts = {(each.last.uuid, each.last.kind): each for each in before.events}
    for event in (event for reading in readings for event in reading.events):
        previous = counts.get((event.uuid, event.kind))
        counts[event.uuid, event.kind] = EventCount(last=event, count=1 + (previous.count if previous else 0))
    return tuple(counts.values())


def _health(before: Snapshot, tick: Tick) -> tuple[SourceHealth, ...]:
    health_by_source = {health.name: health for health in before.sources}
    for outcome in tick.outcomes:
        is_up = not isinstance(outcome, Unavailable)
        health_by_source[outcome.source] = SourceHealth(
            name=outcome.source,
            is_up=is_up,
            duration_ms=outcome.duration_ms,
            gpus=len(outcome.gpus) if isinstance(outcome, Reading) else 0,
            at_ms=tick.at_ms,
            reason=outcome.reason if isinstance(outcome, Unavailable) else None,
        )
    return tuple(health_by_source.values())

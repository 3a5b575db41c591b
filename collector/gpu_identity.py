"""One machine read two ways has one GPU: the same names and one description, whoever tells. Pure.

dcgm-exporter names a MIG instance by its board and GPU instance id only (``collector.dcgm.labels``); NVML
knows its UUID as well. Once both were seen, the exporter's words are put under NVML's name. What NVML could
not measure (utilization while MIG is on, before Hopper) is filled in from the exporter, never the other way
round.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace

from collector.dcgm.labels import instance_uuid
from collector.model import (
    Basis,
    Gpu,
    GpuSample,
    GpuUuid,
    MigPlace,
    Unavailable,
)
from collector.reading import Reading

Outcome = Reading | Unavailable
Names = Mapping[GpuUuid, GpuUuid | None]
"""The UUID behind each of the exporter's names; ``None`` where it is split into several devices."""
_At = tuple[GpuUuid, int]
"""A GPU, and the end of what a sample of it covers."""


def names_of(places: Iterable[MigPlace]) -> dict[GpuUuid, GpuUuid | None]:
    """What the exporter calls each instance, and its UUID.

    NVML's MIG devices are compute instances. Where a GPU instance was split into several, the exporter's one
    row is of all of them: it belongs to none.
    """
    names: dict[GpuUuid, GpuUuid | None] = {}
    for place in places:
        called = instance_uuid(place.parent_uuid, str(place.gpu_instance))
        names[called] = place.uuid if called not in names else None
    return names


def reconciled(outcomes: Sequence[Outcome], names: Names) -> tuple[Outcome, ...]:
    """The outcomes with one name and one description a GPU, and one sample of it at one time.

    Of two that describe or measure a GPU, the one that knows MIG's UUIDs counts, then one that reads its own
    machine before one that knows it by labels of clusters, else the one named first.
    """
    readings = [outcome for outcome in outcomes if isinstance(outcome, Reading)]
    if not names and sum(bool(reading.gpus) for reading in readings) < 2:
        return tuple(outcomes)
    gpus: dict[GpuUuid, Gpu] = {}
    measured: dict[_At, GpuSample] = {}
    settled: dict[int, tuple[Reading, list[_At]]] = {}
    for reading in sorted(readings, key=lambda each: (not each.mig_places, _names_clusters(each))):
        renamed = _renamed(reading, names) if names else reading
        fresh = {gpu.uuid: gpu for gpu in renamed.gpus if gpu.uuid not in gpus}
        gpus |= fresh
        own: list[_At] = []
        for sample in renamed.samples:
            at = (sample.uuid, sample.at_ms)
            if at in measured:
                measured[at] = _with(measured[at], sample)
            else:
                measured[at] = sample
                own.append(at)
        settled[id(reading)] = replace(renamed, gpus=tuple(fresh.values())), own
    return tuple(
        outcome if isinstance(outcome, Unavailable) else _settled(*settled[id(outcome)], measured)
        for outcome in outcomes
    )


def _names_clusters(reading: Reading) -> bool:
    return any(gpu.cluster is not None for gpu in reading.gpus)


def _settled(reading: Reading, own: Iterable[_At], measured: Mapping[_At, GpuSample]) -> Reading:
    return replace(reading, samples=tuple(measured[at] for at in own))


def _renamed(reading: Reading, names: Names) -> Reading:
    """The reading with NVML's names; rows of an instance that NVML tells in parts are left out."""
    uuids = {gpu.uuid for gpu in reading.gpus} | {each.uuid for each in reading.allocations or ()}
    if not uuids & names.keys():
        return reading
    name = {uuid: names.get(uuid, uuid) for uuid in uuids | {sample.uuid for sample in reading.samples}}
    name |= {event.uuid: names.get(event.uuid, event.uuid) for event in reading.events}
    return replace(
        reading,
        gpus=tuple(replace(gpu, uuid=to) for gpu in reading.gpus if (to := name[gpu.uuid])),
        samples=tuple(replace(sample, uuid=to) for sample in reading.samples if (to := name[sample.uuid])),
        allocations=None
        if reading.allocations is None
        else tuple(replace(each, uuid=to) for each in reading.allocations if (to := name[each.uuid])),
        events=tuple(replace(event, uuid=to) for event in reading.events if (to := name[event.uuid])),
        holder_samples=tuple(
            replace(each, uuid=to)
            for each in reading.holder_samples
            if (to := names.get(each.uuid, each.uuid))
        ),
        gaps=tuple(
            gap if gap.uuid is None else replace(gap, uuid=to)
            for gap in reading.gaps
            if gap.uuid is None or (to := names.get(gap.uuid, gap.uuid))
        ),
    )


def _with(sample: GpuSample, other: GpuSample) -> GpuSample:
    """The sample, and what it lacks from the other; its utilization stays of one kind from tick to tick."""
    lacking = {
        column.name: getattr(other, column.name)
        for column in fields(sample)
        if getattr(sample, column.name) is None
    }
    if sample.rung is Basis.UNKNOWN:
        return replace(sample, **lacking, rung=other.rung)
    return replace(sample, **lacking)

"""What is different from the last reading: lost, returned, new and removed GPUs, counters set back. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from collector.model import Event, Gap, Gpu, GpuSample, GpuUuid, NodeName
from collector.sources.nvml.convert import xid as xid_words

LOST, RETURNED = "gpu-lost", "gpu-returned"
ADDED, REMOVED = "gpu-added", "gpu-removed"
ENERGY_RESET, XID = "energy-counter-reset", "xid"
XID_TYPE = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A device that did not answer: at which index, its UUID if it was told, why, and whether it is lost."""

    index: int
    uuid: str | None
    reason: str
    lost: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What is remembered between readings: the GPUs, which of them did not answer, energy counters."""

    gpus: Mapping[GpuUuid, Gpu] = field(default_factory=dict)
    blind: Mapping[GpuUuid, Failure] = field(default_factory=dict)
    energy_mj: Mapping[GpuUuid, int] = field(default_factory=dict)


def blind_now(known: Known, failures: Iterable[Failure]) -> dict[GpuUuid, Failure]:
    """Failures by UUID; a partitioned GPU takes its instances with it.

    A handle that cannot be fetched tells no UUID; then the GPU last seen at that index is meant.
    """
    boards = {gpu.index: gpu.uuid for gpu in known.gpus.values() if gpu.parent_uuid is None}
    blind: dict[GpuUuid, Failure] = {}
    for failure in failures:
        named = GpuUuid(failure.uuid) if failure.uuid else boards.get(failure.index)
        if named:
            blind[named] = failure
    for gpu in known.gpus.values():
        if gpu.parent_uuid in blind:
            blind[gpu.uuid] = blind[gpu.parent_uuid]
    return blind


def never_described(
    blind: Mapping[GpuUuid, Failure], described: Mapping[GpuUuid, Gpu], node: NodeName
) -> dict[GpuUuid, Gpu]:
    """The GPUs that told their UUID and nothing else: lost before the first reading, yet of this node."""
    return {
        uuid: Gpu(uuid=uuid, node=node, index=failure.index)
        for uuid, failure in blind.items()
        if uuid not in described
    }


def gaps(now: Known, source: str, from_ms: int, to_ms: int) -> tuple[Gap, ...]:
    """A gap for each GPU that is there and was not measured."""
    return tuple(
        Gap(
            source=source,
            from_ms=from_ms,
            to_ms=to_ms,
            reason=failure.reason,
            uuid=uuid,
            node=now.gpus[uuid].node if uuid in now.gpus else None,
        )
        for uuid, failure in now.blind.items()
    )


def unnamed(
    known: Known, failures: Iterable[Failure], source: str, from_ms: int, to_ms: int
) -> tuple[Gap, ...]:
    """A gap for each device that did not answer and was never seen before: it is there, and has no name."""
    boards = {gpu.index for gpu in known.gpus.values() if gpu.parent_uuid is None}
    node = next((gpu.node for gpu in known.gpus.values()), None)
    return tuple(
        Gap(
            source=source,
            from_ms=from_ms,
            to_ms=to_ms,
            reason=f"the GPU at index {failure.index}: {failure.reason}",
            node=node,
        )
        for failure in failures
        if not failure.uuid and failure.index not in boards
    )


def events(before: Known, after: Known, read: Iterable[GpuSample], at_ms: int) -> tuple[Event, ...]:
    """What the two states say has happened; nothing at the very first reading, when all is new."""
    out: list[Event] = []
    if before.gpus:
        for uuid in after.gpus.keys() - before.gpus.keys():
            out.append(Event(uuid=uuid, at_ms=at_ms, kind=ADDED, detail=_name(after.gpus[uuid])))
        for uuid in before.gpus.keys() - after.gpus.keys():
            out.append(Event(uuid=uuid, at_ms=at_ms, kind=REMOVED, detail=_name(before.gpus[uuid])))
    was_lost = lost(before)
    for uuid in lost(after) - was_lost:
        out.append(Event(uuid=uuid, at_ms=at_ms, kind=LOST, detail=after.blind[uuid].reason))
    for uuid in was_lost & {row.uuid for row in read}:
        out.append(Event(uuid=uuid, at_ms=at_ms, kind=RETURNED, detail="the driver answers for it again"))
    out += _resets(before, read, at_ms)
    return tuple(sorted(out, key=lambda event: (event.uuid, event.kind)))


def xids(told: Iterable[tuple[str, int, int]], at_ms: int) -> tuple[Event, ...]:
    """The driver's own events (UUID, type, data) that are XIDs."""
    return tuple(
        Event(uuid=GpuUuid(uuid), at_ms=at_ms, kind=XID, detail=xid_words(number))
        for uuid, kind, number in told
        if kind & XID_TYPE
    )


def lost(known: Known) -> set[GpuUuid]:
    """The GPUs that are lost, not only silent for a moment."""
    return {uuid for uuid, failure in known.blind.items() if failure.lost}


def energies(before: Known, read: Iterable[GpuSample]) -> dict[GpuUuid, int]:
    """The newest counter of each GPU."""
    fresh = {row.uuid: row.energy_mj for row in read if row.energy_mj is not None}
    return {**before.energy_mj, **fresh}


def _resets(before: Known, read: Iterable[GpuSample], at_ms: int) -> list[Event]:
    out = []
    for row in read:
        last = before.energy_mj.get(row.uuid)
        if last is not None and row.energy_mj is not None and row.energy_mj < last:
            detail = f"from {last} to {row.energy_mj} mJ, as after a reload of the driver"
            out.append(Event(uuid=row.uuid, at_ms=at_ms, kind=ENERGY_RESET, detail=detail))
    return out


def _name(gpu: Gpu) -> str:
    return gpu.mig_profile or gpu.model or ""

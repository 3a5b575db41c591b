"""One scrape's rows to GPUs, samples and claims: pure, and the same for every version of the exporter.

While MIG is on the exporter repeats the board's power, temperature, energy and clocks for each instance.
They are the board's, so they go to the parent, once, and nothing is ever summed. Where two rows of a board
differ (read a moment apart) the larger is taken: for a counter that is the newer one.

Of a GPU that pods share an exporter (4.8.2 and later) says utilization and memory with a row of the device,
which names no pod, and one of each pod's own processes: those are the holders', and not the device's.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, cast

from collector.dcgm.crowd import CROWDED, MOST_OF_ONE_GPU
from collector.dcgm.labels import Claim, Identity, cluster_of, identity, parent_of
from collector.dcgm.mig import share_of
from collector.dcgm.own_pods import UP, Target, exporters, holders, target_of
from collector.dcgm.text import Row
from collector.dcgm.vocabulary import (
    BOARD_QUANTITIES,
    QUANTITIES,
    Dialect,
    Measure,
    Scope,
    Unit,
    measure_of,
    utilization_scale,
    without_blanks,
)
from collector.metrics import METRICS
from collector.model import Allocation, Basis, Gpu, GpuSample, GpuUuid, HolderSample

SCALE_UNKNOWN = "utilization-scale-unknown"
LADDER = (
    ("sm_active_ratio", Basis.SM_ACTIVE),
    ("graphics_active_ratio", Basis.GRAPHICS_ACTIVE),
    ("gpu_utilization_ratio", Basis.GPU_UTILIZATION),
)
"""The measures of utilization, the one that says most first."""
RATIOS = tuple(sorted(name for name in QUANTITIES if name.endswith("_ratio")))
WHOLES = tuple(each.name for each in METRICS if each.dcgm and each.is_stored and not each.is_ratio)
"""The quantities that a sample holds as whole numbers."""
_MOST = {each.name: each.most for each in METRICS if each.most is not None}
_MOST |= {
    name: _MOST["memory_used_bytes"]
    for name in QUANTITIES
    if name.startswith("memory_") and name.endswith("_bytes")
}
"""Above it a value is in another unit than its name says: not measured."""
OF_HOLDERS = frozenset({"gpu_utilization_ratio", "memory_used_bytes"})
"""What an exporter tells of each pod, beside the device's own (NVIDIA/dcgm-exporter, pull request 594)."""
_Values = dict[str, tuple[int, float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Readout:
    """What one exporter said at one scrape; ``allocations`` is ``None`` when it does not know of holders."""

    gpus: tuple[Gpu, ...]
    samples: tuple[GpuSample, ...]
    allocations: tuple[Allocation, ...] | None
    holder_samples: tuple[HolderSample, ...] = ()


@dataclass(slots=True)
class _Device:
    """What the rows of one device add up to; ``of_holders`` are those that name one, of OF_HOLDERS."""

    identity: Identity
    values: _Values = field(default_factory=dict)
    claims: dict[Claim, Claim] = field(default_factory=dict)
    undecided: bool = False
    of_holders: dict[Claim, _Values] = field(default_factory=dict)
    crowded: bool = False


def read_out(rows: Iterable[Row], *, fallback_node: str, at_ms: int, width_ms: int) -> Readout:
    """The devices of one scrape, with samples for the ``width_ms`` that end at ``at_ms``."""
    every = tuple(rows)
    pairs = [(row, measure) for row in every if (measure := measure_of(row.name)) is not None]
    devices, looked = _devices(pairs, [row.labels for row in every if row.name == UP], fallback_node)
    holder_samples = tuple(
        each for device in devices.values() for each in _holder_samples(device, at_ms, width_ms)
    )
    parents = {device.identity.parent for device in devices.values()} - {None}
    for uuid in parents:
        assert uuid is not None
        _keep_board_values(devices[uuid])
    shares = _shares(devices)
    return Readout(
        gpus=tuple(_gpu(device, shares[uuid]) for uuid, device in devices.items()),
        samples=tuple(_sample(device, at_ms, width_ms) for device in devices.values()),
        allocations=_allocations(devices) if looked else None,
        holder_samples=holder_samples,
    )


def _devices(
    pairs: list[tuple[Row, Measure]], targets: list[Mapping[str, str]], fallback_node: str
) -> tuple[dict[GpuUuid, _Device], bool]:
    """The devices of the rows, and whether any row can name a holder; ``targets`` are the labels of UP."""
    blocks = {id(row.labels): row.labels for row, _ in pairs}
    identities = {key: identity(labels, fallback_node=fallback_node) for key, labels in blocks.items()}
    clusters = {cluster_of(labels) for labels in blocks.values()} - {""}
    claimed = holders(tuple(blocks.values()), exporters(targets, ()), several_clusters=len(clusters) > 1)
    named_in = dict(zip(blocks, claimed, strict=True))
    targets_of = {key: target_of(labels) for key, labels in blocks.items()}
    scales = _scales(pairs, targets_of)
    devices: dict[GpuUuid, _Device] = {}
    for row, measure in pairs:
        who = identities[id(row.labels)]
        if who is None:
            continue
        if who.parent is not None:
            devices.setdefault(who.parent, _Device(parent_of(who)))
        device = devices.setdefault(who.uuid, _Device(who))
        named = named_in[id(row.labels)] or ()
        for claim in named:
            _claim(device, claim)
        if who.parent is not None and measure.scope is Scope.BOARD:
            device = devices[who.parent]
        scale = scales[targets_of[id(row.labels)]]
        _note(device, measure, row.value, scale, named if measure.quantity in OF_HOLDERS else ())
    return devices, any(found is not None for found in claimed)


def _claim(device: _Device, claim: Claim) -> None:
    """Note a claim once for a holder; a pod of which two uids are told has none."""
    if claim not in device.claims and len(device.claims) >= MOST_OF_ONE_GPU:
        device.crowded = True
        return
    entry = device.claims.setdefault(claim, claim)
    if entry.pod_uid != claim.pod_uid:
        device.claims[claim] = replace(entry, pod_uid=None)


def _scales(pairs: list[tuple[Row, Measure]], targets_of: Mapping[int, Target]) -> dict[Target, float | None]:
    """The factor of undecided utilization in this scrape of each target: exporters differ by version."""
    by_target: dict[Target, list[tuple[float, Measure]]] = {}
    for row, measure in pairs:
        by_target.setdefault(targets_of[id(row.labels)], []).append((row.value, measure))
    return {target: _scale_of(rows) for target, rows in by_target.items()}


def _scale_of(rows: Iterable[tuple[float, Measure]]) -> float | None:
    undecided, dialects = [], set()
    for value, measure in rows:
        dialects.add(measure.unit.dialect)
        if measure.unit is Unit.UNDECIDED:
            undecided.append(value)
    return utilization_scale(undecided, frozenset(dialects - {Dialect.NEUTRAL}))


def _note(device: _Device, measure: Measure, raw: float, scale: float | None, named: Iterable[Claim]) -> None:
    """Keep a row's value: as that of the holders whom it names, else as the device's."""
    value = without_blanks(raw)
    factor = scale if measure.unit is Unit.UNDECIDED else measure.unit.factor
    if value is None or value < 0:
        return
    if factor is None:
        device.undecided = True
        return
    if value * factor > _MOST.get(measure.quantity, value * factor):
        return
    candidate = (-measure.rank, value * factor)
    for values in [device.of_holders.setdefault(claim, {}) for claim in named] or [device.values]:
        values[measure.quantity] = max(values.get(measure.quantity, candidate), candidate)


def _holder_samples(device: _Device, at_ms: int, width_ms: int) -> list[HolderSample]:
    """What each holder did; where no row is the device's own, the rows of holders tell it, repeated."""
    own = OF_HOLDERS & device.values.keys()
    for values in device.of_holders.values():
        for name in values.keys() - own:
            device.values[name] = max(device.values.get(name, values[name]), values[name])
    return [
        HolderSample(
            uuid=device.identity.uuid,
            job=claim.holder.job,
            at_ms=at_ms,
            width_ms=width_ms,
            gpu_utilization_ratio=None if used is None else min(used[1], 1.0),
            memory_used_bytes=_whole(values.get("memory_used_bytes")),
        )
        for claim, measurements in device.of_holders.items()
        if (values := {name: value for name, value in measurements.items() if name in own})
        for used in (values.get("gpu_utilization_ratio"),)
    ]


def _keep_board_values(parent: _Device) -> None:
    """A partitioned board's own utilization and memory are those of its instances: counted there, once."""
    parent.values = {name: value for name, value in parent.values.items() if name in BOARD_QUANTITIES}
    parent.undecided = False


def _shares(devices: Mapping[GpuUuid, _Device]) -> dict[GpuUuid, float]:
    """The share of its board that each device is; a parent keeps what its instances leave."""
    parts: dict[GpuUuid, list[Identity]] = {}
    for device in devices.values():
        if device.identity.parent is not None:
            parts.setdefault(device.identity.parent, []).append(device.identity)
    return {uuid: share_of(device.identity, parts.get(uuid, ())) for uuid, device in devices.items()}


def _allocations(devices: Mapping[GpuUuid, _Device]) -> tuple[Allocation, ...]:
    """An allocation for each claim; holders of one device share it evenly, for the exporter says no more."""
    return tuple(
        Allocation(
            uuid=uuid,
            holder=claim.holder,
            share=1 / len(device.claims),
            source=claim.source,
            pod_uid=claim.pod_uid,
        )
        for uuid, device in devices.items()
        for claim in device.claims.values()
    )


def _gpu(device: _Device, share: float) -> Gpu:
    who, persistence = device.identity, device.values.get("persistence_mode")
    return Gpu(
        uuid=who.uuid,
        node=who.node,
        index=who.index,
        model=who.model,
        memory_total_bytes=_memory_total(device.values),
        driver_version=who.driver_version,
        power_limit_mw=_whole(device.values.get("power_limit_mw")),
        parent_uuid=who.parent,
        mig_profile=who.profile,
        share_of_device=share,
        persistence_mode=None if persistence is None else persistence[1] > 0,
        gpu_instance=who.instance,
        cluster=who.cluster,
    )


def _sample(device: _Device, at_ms: int, width_ms: int) -> GpuSample:
    values = {name: candidate[1] for name, candidate in device.values.items()}
    ratios = {name: min(values[name], 1.0) for name in RATIOS if name in values}
    rung, utilization = next(
        ((rung, ratios[name]) for name, rung in LADDER if name in ratios), (Basis.UNKNOWN, None)
    )
    wholes = {name: _whole(device.values.get(name)) for name in WHOLES}
    flags = [f"{name.removesuffix('_ratio')}-above-1" for name in ratios if values[name] > 1]
    flags += [CROWDED] if device.crowded else []
    flags += [SCALE_UNKNOWN] if device.undecided and "gpu_utilization_ratio" not in ratios else []
    return GpuSample(
        uuid=device.identity.uuid,
        at_ms=at_ms,
        width_ms=width_ms,
        rung=rung,
        utilization_ratio=utilization,
        memory_total_bytes=_memory_total(device.values),
        flags=tuple(flags),
        **cast(dict[str, Any], ratios | wholes),
    )


def _memory_total(values: Mapping[str, tuple[int, float]]) -> int | None:
    """The capacity, or the sum of its parts; without the reserved part that is what can be handed out."""
    total = values.get("memory_total_bytes")
    used, free = values.get("memory_used_bytes"), values.get("memory_free_bytes")
    if total is not None:
        return _whole(total)
    if used is None or free is None:
        return None
    reserved = values.get("memory_reserved_bytes", (0, 0.0))
    return round(used[1] + free[1] + reserved[1])


def _whole(candidate: tuple[int, float] | None) -> int | None:
    return None if candidate is None else round(candidate[1])

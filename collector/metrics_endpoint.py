"""Fallow's own ``/metrics``: a snapshot as Prometheus text (format 0.0.4), in base units. Pure.

The tables below are the wire: ``collector.sources.peer`` reads by it what this file wrote, so that one Fallow
collects from another and loses nothing of a sample or an allocation but the holder's command line.

Labels are bounded by the hardware and by what runs at this moment. A pid is no label: processes are summed
by GPU, user and job, and a job is named only while it is allocated. A value that was not measured is absent.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from collector.gpu_place import node_place, place_of
from collector.metrics import METRICS
from collector.model import SIMULATED_SOURCE, Gpu, GpuSample, GpuUuid, ProcessKey
from collector.snapshot import EventCount, Snapshot

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
GAUGE, COUNTER = "gauge", "counter"
Labels = Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """One family: ``field`` of a sample or GPU times ``factor`` is the wire's value."""

    field: str
    name: str
    says: str
    kind: str = GAUGE
    factor: float = 1.0


def _m(field: str, name: str, says: str, kind: str = GAUGE, factor: float = 1.0) -> Metric:
    return Metric(field=field, name=f"fallow_gpu_{name}", says=says, kind=kind, factor=factor)


SAMPLE_METRICS = tuple(
    _m(
        each.name,
        each.exposed.name,
        each.exposed.help,
        COUNTER if each.exposed.is_counter else GAUGE,
        each.exposed.factor,
    )
    for each in METRICS
    if each.exposed
)
GPU_METRICS = (
    _m("memory_total_bytes", "memory_size_bytes", "Device memory built in."),
    _m("power_limit_mw", "power_limit_watts", "Power limit in force.", factor=1e-3),
    _m("share_of_device", "share_of_device_ratio", "Part of its board that this is: 1, or less with MIG."),
    _m("persistence_mode", "persistence_mode", "Whether the driver stays loaded without clients: 1 or 0."),
)
INFO = _m("", "info", "What the GPU is; always 1.")
FLAG = _m("", "flag", "A doubt about the newest sample, in words; 1 while it lasts.")
ALLOCATION = _m("share", "allocation_ratio", "Share of the GPU given to a holder, and who says so.")
WITHHELD = _m("", "withheld", "Held by nobody and not free: drained, down, reserved or unasked; always 1.")
HOLDER_METRICS = (
    _m(
        "gpu_utilization_ratio", "holder_utilization_ratio", "Share of time with kernels of this job's alone."
    ),
    _m("memory_used_bytes", "holder_memory_used_bytes", "Device memory held by this job alone."),
)
"""What each holder of a shared GPU did in the time of its newest sample, where an exporter tells it."""
EVENTS = _m("", "events_total", "Events of a kind that befell the GPU since the start.", COUNTER)
LAST_EVENT = _m("", "last_event_timestamp_seconds", "When an event of a kind was last, with its detail.")
LOOKED = Metric(field="", name="fallow_allocations_known", says="Whether anybody was asked who holds what.")
SOURCE_UP = Metric(
    field="", name="fallow_source_up", says="Whether the source could be read at the newest tick."
)
SIMULATED = Metric(
    field="", name="fallow_simulated", says="Whether these GPUs, people and jobs are invented."
)
GPU_LABELS = ("uuid", "node", "index", "gpu", "model")
INFO_LABELS = ("driver_version", "parent_uuid", "mig_profile")
NUMBER_LABELS = ("gpu_instance", "compute_instance")
"""Labels of the family ``info`` that hold whole numbers."""
HOLDER_LABELS = ("user", "project", "job", "name", "kind", "framework")
_PROCESS = (
    ("fallow_process_processes", "Processes of this user and job on this GPU."),
    ("fallow_process_memory_used_bytes", "Device memory held by processes of this user and job on this GPU."),
    ("fallow_process_sm_ratio", "Share of the GPU's SM time used by processes of this user and job."),
)


def exposition(snapshot: Snapshot, *, version: str = "") -> bytes:
    """The snapshot as one scrape's answer, families in a fixed order."""
    lines = [
        *_families(SAMPLE_METRICS, snapshot.gpus, {sample.uuid: sample for sample in snapshot.samples}),
        *_families(GPU_METRICS, snapshot.gpus, {gpu.uuid: gpu for gpu in snapshot.gpus}),
        *family(INFO, ((_info(gpu), 1) for gpu in snapshot.gpus)),
        *family(FLAG, _flags(snapshot)),
        *family(EVENTS, ((_event(e), e.count) for e in snapshot.events)),
        *family(LAST_EVENT, ((_event(e, detail=True), e.last.at_ms / 1e3) for e in snapshot.events)),
        *_allocations(snapshot),
        *_holders(snapshot),
        *_processes(snapshot),
        *_health(snapshot, version),
    ]
    return ("\n".join(lines) + "\n").encode()


def gpu_labels(gpu: Gpu) -> dict[str, str]:
    """The labels that every series of a GPU has."""
    index = "" if gpu.index is None else str(gpu.index)
    place = node_place(gpu.node, place_of(gpu), gpu.uuid)
    return {"uuid": gpu.uuid, "node": gpu.node, "index": index, "gpu": place, "model": gpu.model or ""}


def _families(
    metrics: Iterable[Metric], gpus: Iterable[Gpu], values: Mapping[GpuUuid, Gpu | GpuSample]
) -> Iterator[str]:
    blocks = {gpu.uuid: _block(gpu_labels(gpu)) for gpu in gpus}
    for metric in metrics:
        rows = [
            f"{metric.name}{block} {_number(value, metric.factor)}"
            for uuid, block in blocks.items()
            if uuid in values and (value := getattr(values[uuid], metric.field)) is not None
        ]
        if rows:
            yield from _head(metric)
            yield from rows


def family(metric: Metric, rows: Iterable[tuple[Labels, float]]) -> Iterator[str]:
    """The family's lines; rows with the same labels are summed, for a series may stand there once."""
    summed: dict[str, float] = {}
    for labels, value in rows:
        block = _block(labels)
        summed[block] = summed.get(block, 0) + value
    if summed:
        yield from _head(metric)
        yield from (f"{metric.name}{block} {_number(value)}" for block, value in summed.items())


def _head(metric: Metric) -> tuple[str, str]:
    return f"# HELP {metric.name} {metric.says}", f"# TYPE {metric.name} {metric.kind}"


def _info(gpu: Gpu) -> Labels:
    numbers = {name: getattr(gpu, name) for name in NUMBER_LABELS}
    return (
        gpu_labels(gpu)
        | {name: getattr(gpu, name) or "" for name in INFO_LABELS}
        | {name: "" if number is None else str(number) for name, number in numbers.items()}
    )


def _flags(snapshot: Snapshot) -> Iterator[tuple[Labels, float]]:
    for sample in snapshot.samples:
        yield from (({"uuid": sample.uuid, "flag": flag}, 1) for flag in sample.flags)


def _event(event: EventCount, *, detail: bool = False) -> Labels:
    labels = {"detail": event.last.detail} if detail else {}
    return {"uuid": event.last.uuid, "kind": event.last.kind} | labels


def _allocations(snapshot: Snapshot) -> Iterator[str]:
    if snapshot.allocations is None:
        return
    yield from family(LOOKED, [({}, 1)])
    yield from family(
        ALLOCATION,
        (
            (
                {"uuid": a.uuid}
                | {name: getattr(a.holder, name) or "" for name in HOLDER_LABELS}
                | {"source": a.source.value},
                a.share,
            )
            for a in snapshot.allocations
        ),
    )
    rows = (({"uuid": w.uuid, "state": w.state.value, "reason": w.reason}, 1) for w in snapshot.withheld)
    yield from family(WITHHELD, rows)


def _holders(snapshot: Snapshot) -> Iterator[str]:
    """What holders did, by job: bounded by what is allocated now."""
    allocated = {(a.uuid, a.holder.job) for a in snapshot.allocations or ()}
    samples = [each for each in snapshot.holder_samples if (each.uuid, each.job) in allocated]
    for metric in HOLDER_METRICS:
        values = (({"uuid": each.uuid, "job": each.job}, getattr(each, metric.field)) for each in samples)
        yield from family(metric, ((labels, value) for labels, value in values if value is not None))


def _processes(snapshot: Snapshot) -> Iterator[str]:
    """Sums over the processes of one GPU, user and job: bounded by what is allocated now, not by pids."""
    described = {process.key: process for process in snapshot.processes}
    owners: dict[ProcessKey, str] = dict(snapshot.owners)
    allocated = {(a.uuid, a.holder.job) for a in snapshot.allocations or ()}
    rows = []
    for sample in snapshot.process_samples:
        process = described.get(sample.key)
        job = owners.get(sample.key, "")
        labels = {
            "uuid": sample.uuid,
            "user": (process.user if process else None) or "",
            "job": job if (sample.uuid, job) in allocated else "",
            "framework": process.frameworks[0] if process and process.frameworks else "",
        }
        rows.append((labels, (1.0, sample.memory_used_bytes, sample.sm_ratio)))
    for place, (name, says) in enumerate(_PROCESS):
        pairs = ((labels, v) for labels, values in rows if (v := values[place]) is not None)
        yield from family(Metric(field="", name=name, says=says), pairs)


def _health(snapshot: Snapshot, version: str) -> Iterator[str]:
    build = Metric(field="", name="fallow_build_info", says="The version that is running; always 1.")
    took = "Time that the newest tick took, from the first question to the commit."
    yield from family(build, [({"version": version}, 1)])
    invented = any(source.name == SIMULATED_SOURCE for source in snapshot.sources)
    yield from family(SIMULATED, [({}, float(invented))])
    yield from single("fallow_collector_tick_duration_seconds", took, snapshot.tick_duration_ms / 1e3)
    yield from single(
        "fallow_collector_tick_timestamp_seconds", "When the newest tick was.", snapshot.at_ms / 1e3
    )
    yield from single("fallow_collector_ticks_total", "Ticks since the start.", snapshot.ticks, COUNTER)
    yield from family(SOURCE_UP, (({"source": s.name}, float(s.is_up)) for s in snapshot.sources))
    read = Metric(field="", name="fallow_source_read_seconds", says="Time that the newest read took.")
    yield from family(read, (({"source": s.name}, s.duration_ms / 1e3) for s in snapshot.sources))
    metric = Metric(field="", name="fallow_source_gpus", says="GPUs that the source saw at the newest tick.")
    yield from family(metric, (({"source": s.name}, s.gpus) for s in snapshot.sources))


def single(name: str, says: str, value: float, kind: str = GAUGE) -> Iterator[str]:
    """The lines of a family with one series and no labels."""
    return family(Metric(field="", name=name, says=says, kind=kind), [({}, value)])


def _block(labels: Labels) -> str:
    """Labels in braces; an empty value is the same as no label, so it is left out."""
    quoted = [f'{name}="{_escaped(value)}"' for name, value in labels.items() if value]
    return "{" + ",".join(quoted) + "}" if quoted else ""


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _number(value: float, factor: float = 1.0) -> str:
    """The shortest text that reads back as the same number."""
    wire = value if factor == 1.0 else value * factor
    if factor < 1:
        wire = value / round(1 / factor)
    return str(int(wire)) if float(wire).is_integer() else repr(float(wire))

"""What ``fallow export`` writes beside the samples: who held which GPU and did what there, and the GPUs.

Columns as in ``docs/schema.md``. All are optional: without them a recording has no holders, and GPUs
of no known model. CSV cells are text, Parquet cells are typed; both are read here.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple, TypeVar

import pyarrow as pa

from collector.arrow import HOLDER_SAMPLE_SCHEMA, HeldInterval
from collector.model import Allocation, ClaimSource, Gpu, GpuUuid, Holder, JobId, JobKind, NodeName
from collector.sources.replay.errors import RecordingUnreadable
from collector.sources.replay.file import read_raw
from collector.sources.replay.recording import DAY_MS, Recording

Row = Mapping[str, object]
_T = TypeVar("_T")
MOST_MW = 10_000_000
"""No board draws 10 kW: such a number is no power."""


def with_neighbours(recording: Recording, samples: Path) -> Recording:
    """The recording with the allocations and GPUs that lie beside its samples.

    Raises RecordingUnreadable when a file is there and cannot be understood.
    """
    told = list(_read(samples, "gpus", _told_gpu))
    known = {each.gpu.uuid: each.gpu for each in told}
    installed_ms = {each.gpu.uuid: each.from_ms for each in told if each.from_ms is not None}
    removed_ms = {each.gpu.uuid: each.to_ms for each in told if each.to_ms is not None}
    idle_power_mw = {each.gpu.uuid: each.idle_power_mw for each in told if each.idle_power_mw is not None}
    gpus = tuple(known.get(gpu.uuid, gpu) for gpu in recording.gpus)
    extra = tuple(gpu for uuid, gpu in known.items() if uuid not in {g.uuid for g in recording.gpus})
    held = tuple(_read(samples, "allocations", _held))
    did = _holder_samples(samples)
    return replace(
        recording,
        gpus=gpus + extra,
        held=held or recording.held,
        ends_are_told=bool(held),
        holder_samples=did,
        installed_ms=installed_ms,
        removed_ms=removed_ms,
        idle_power_mw=idle_power_mw,
    )


def _read(samples: Path, name: str, make: Callable[[Row], _T]) -> Iterator[_T]:
    path = samples.with_name(samples.name.replace("samples", name, 1))
    if path == samples or not path.is_file():
        return
    for number, row in enumerate(read_raw(path).table.to_pylist(), start=1):
        try:
            yield make(row)
        except (KeyError, ValueError, TypeError) as error:
            raise RecordingUnreadable(
                f"replaying {samples}: row {number} of {path} is not as Fallow exports it ({error!r}). "
                "Export again, or take that file away to replay without it."
            ) from error


def _holder_samples(samples: Path) -> pa.Table:
    """What holders did, in the order of time. Raises RecordingUnreadable."""
    rows = sorted(_read(samples, "holder_samples", _holder_sample), key=lambda row: int(str(row["at_ms"])))
    return pa.Table.from_pylist(rows, schema=HOLDER_SAMPLE_SCHEMA)


def _holder_sample(row: Row) -> dict[str, object]:
    ratio = _text(row, "gpu_utilization_ratio")
    width_ms = int(_required(row, "width_ms"))
    if not 0 < width_ms <= DAY_MS:
        raise ValueError(f"width_ms is {width_ms}")
    return {
        "uuid": _required(row, "uuid"),
        "job": _required(row, "job"),
        "at_ms": int(_required(row, "at_ms")),
        "width_ms": width_ms,
        "gpu_utilization_ratio": None if ratio is None else min(max(float(ratio), 0.0), 1.0),
        "memory_used_bytes": _int(row, "memory_used_bytes"),
    }


class _ToldGpu(NamedTuple):
    """A GPU, since when it was installed and until when, and what it draws when idle; ``None``: not told."""

    gpu: Gpu
    from_ms: int | None
    to_ms: int | None
    idle_power_mw: int | None


def _told_gpu(row: Row) -> _ToldGpu:
    power_mw = _int(row, "idle_power_mw")
    return _ToldGpu(
        gpu=_gpu(row),
        from_ms=_int(row, "installed_from_ms"),
        to_ms=_int(row, "installed_to_ms"),
        idle_power_mw=power_mw if power_mw is not None and 0 < power_mw < MOST_MW else None,
    )


def _gpu(row: Row) -> Gpu:
    parent = _text(row, "parent_uuid")
    return Gpu(
        uuid=GpuUuid(_required(row, "uuid")),
        node=NodeName(_required(row, "node")),
        index=_int(row, "index"),
        model=_text(row, "model"),
        memory_total_bytes=_int(row, "memory_total_bytes"),
        driver_version=_text(row, "driver_version"),
        power_limit_mw=_int(row, "power_limit_mw"),
        parent_uuid=None if parent is None else GpuUuid(parent),
        mig_profile=_text(row, "mig_profile"),
        share_of_device=float(_text(row, "share_of_device") or 1.0),
        persistence_mode=_flag(row, "persistence_mode"),
        gpu_instance=_int(row, "gpu_instance"),
        compute_instance=_int(row, "compute_instance"),
    )


def _held(row: Row) -> HeldInterval:
    kind = _text(row, "kind")
    return HeldInterval(
        allocation=Allocation(
            uuid=GpuUuid(_required(row, "uuid")),
            holder=Holder(
                job=JobId(_required(row, "job")),
                user=_text(row, "user"),
                project=_text(row, "project"),
                name=_text(row, "name"),
                kind=None if kind is None else JobKind(kind),
                framework=_text(row, "framework"),
                command=_text(row, "command"),
            ),
            share=float(_text(row, "share") or 1.0),
            source=ClaimSource(_required(row, "source")),
        ),
        from_ms=int(_required(row, "from_ms")),
        to_ms=_int(row, "to_ms"),
    )


def _text(row: Row, name: str) -> str | None:
    value = row.get(name)
    return None if value is None or value == "" else str(value)


def _required(row: Row, name: str) -> str:
    text = _text(row, name)
    if text is None:
        raise ValueError(f"{name} is missing")
    return text


def _int(row: Row, name: str) -> int | None:
    text = _text(row, name)
    return None if text is None else int(text)


def _flag(row: Row, name: str) -> bool | None:
    text = _text(row, name)
    return None if text is None else text.lower() == "true"

"""Small real values for the store's tests: GPUs, samples, holders, ticks on a round minute."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import duckdb

from collector.arrow import HeldInterval, History, to_table
from collector.model import (
    Allocation,
    Basis,
    ClaimSource,
    Gpu,
    GpuSample,
    GpuUuid,
    Holder,
    JobId,
    NodeName,
)
from collector.reading import Reading, Tick
from collector.store.database import Store
from collector.store.migrations import RECORD
from collector.store.statements import migrations

T0 = 1_790_000_040_000 // 3_600_000 * 3_600_000
TICK_MS = 10_000
GIB = 1 << 30


def uuid(number: int) -> GpuUuid:
    return GpuUuid(f"GPU-{number:08d}")


def gpu(number: int, **changes: Any) -> Gpu:
    base: dict[str, Any] = {"node": NodeName("n0"), "index": number, "model": "H100"}
    return Gpu(uuid=uuid(number), memory_total_bytes=80 * GIB, **{**base, **changes})


def sample(number: int, at_ms: int, busy: float | None = 0.5, **changes: Any) -> GpuSample:
    base: dict[str, Any] = {
        "width_ms": TICK_MS,
        "rung": Basis.SM_ACTIVE if busy is not None else Basis.UNKNOWN,
        "utilization_ratio": busy,
        "sm_active_ratio": busy,
        "gpu_utilization_ratio": None if busy is None else min(1.0, busy * 1.5),
        "memory_used_bytes": 10 * GIB,
        "power_mw": 300_000 if busy is None or busy > 0.01 else 100_000,
        "process_count": 1,
    }
    return GpuSample(uuid=uuid(number), at_ms=at_ms, **{**base, **changes})


def empty(number: int, at_ms: int, **changes: Any) -> GpuSample:
    """A GPU on which nothing is and nothing runs."""
    return sample(number, at_ms, 0.0, memory_used_bytes=0, process_count=0, power_mw=70_000, **changes)


def holder(name: str) -> Holder:
    return Holder(job=JobId(f"slurm:{name}"), user=f"user-{name}", project="p")


def held(number: int, name: str, share: float = 1.0) -> Allocation:
    return Allocation(uuid=uuid(number), holder=holder(name), share=share, source=ClaimSource.SLURM)


def tick(
    at_ms: int,
    samples: Iterable[GpuSample],
    allocations: Iterable[Allocation] | None = (),
    *,
    gpus: Iterable[Gpu] | None = None,
    source: str = "test",
    width_ms: int = TICK_MS,
) -> Tick:
    rows = tuple(samples)
    seen = {row.uuid for row in rows}
    known = tuple(gpus) if gpus is not None else tuple(g for n in range(64) if (g := gpu(n)).uuid in seen)
    reading = Reading(source=source, at_ms=at_ms, gpus=known, samples=rows, duration_ms=1.5)
    return Tick(
        at_ms=at_ms,
        width_ms=width_ms,
        outcomes=(reading,),
        allocations=None if allocations is None else tuple(allocations),
    )


def history(
    samples: Iterable[GpuSample], held_intervals: Iterable[HeldInterval] = (), source: str = "test"
) -> History:
    rows = tuple(samples)
    seen = {row.uuid for row in rows}
    known = tuple(g for n in range(64) if (g := gpu(n)).uuid in seen)
    return History(source=source, gpus=known, samples=to_table(rows), held=tuple(held_intervals))


def older_file(path: Path, version: int) -> duckdb.DuckDBPyConnection:
    """A file as the Fallow of that schema made it, open."""
    connection = duckdb.connect(str(path))
    connection.execute(RECORD)
    for number, name, script in migrations():
        if number <= version:
            connection.execute(script)
            connection.execute("INSERT INTO schema_migrations VALUES (?, ?, now())", [number, name])
    return connection


def ask(store: Store, question: str, *parameters: Any) -> list[tuple[Any, ...]]:
    """The rows that a reader of its own sees."""
    with store.reader() as reader:
        return reader.execute(question, parameters or None).fetchall()


def at_path(folder: Path) -> Path:
    return folder / "fallow.duckdb"

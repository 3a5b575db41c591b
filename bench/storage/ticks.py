"""How long a tick of many GPUs takes to commit, on a real file, with the log synced at every commit."""

import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import mean, median

import duckdb
import numpy as np
import pyarrow as pa

from collector.arrow import to_table
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
from collector.store.columns import stored_rows
from collector.store.database import open_store

SEED = 7
TICK_MS = 10_000
T0_MS = 1_790_000_000_000 // 3_600_000 * 3_600_000


@dataclass(frozen=True, slots=True, kw_only=True)
class TickTimes:
    """Milliseconds. ``tick_ms`` and ``closing_ms`` are from the reading's objects to the commit; what is
    left of a tick when its columns are there is ``commit_ms``, the mean over whole minutes, so that every
    sixth of those ticks has rolled a minute up. ``processor_ms`` is the time of all processors, from the
    objects, the mean over the same ticks.
    """

    commit_ms: float
    tick_ms: float
    closing_ms: float
    samples_ms: float
    columns_ms: float
    checkpoint_ms: float
    processor_ms: float


def measure(gpus: int, ticks: int) -> TickTimes:
    """Medians over ``ticks`` ticks; every sixth of them closes a minute and rolls it up."""
    plain: list[float] = []
    closing: list[float] = []
    commits: list[float] = []
    busy: list[float] = []
    with tempfile.TemporaryDirectory() as folder, open_store(Path(folder) / "fallow.duckdb") as store:
        checkpoints = []
        for n, tick in enumerate(story(gpus, ticks + 12), start=1):
            before = time.process_time()
            took = _timed(partial(store.write_tick, tick))
            if n > 12:
                busy.append((time.process_time() - before) * 1e3)
                (closing if n % 6 == 0 else plain).append(took)
                commits.append(took - _timed(partial(_columns, tick)))
            if n % 30 == 0:
                checkpoints.append(_timed(store.checkpoint))
    samples, columns = _samples_alone(gpus, min(ticks, 30))
    whole = len(commits) // 6 * 6
    return TickTimes(
        commit_ms=mean(commits[:whole]),
        processor_ms=mean(busy[:whole]),
        tick_ms=median(plain),
        closing_ms=median(closing),
        samples_ms=samples,
        columns_ms=columns,
        checkpoint_ms=median(checkpoints) if checkpoints else float("nan"),
    )


def story(gpus: int, ticks: int) -> Iterator[Tick]:
    """Ticks of ``gpus`` GPUs, 22 values each, four to a job; one job in fifty changes every 5 minutes."""
    random = np.random.default_rng(SEED)
    known = tuple(_gpu(number) for number in range(gpus))
    holders = [
        Holder(job=JobId(f"slurm:{n}"), user=f"user{n % 211}", project=f"project{n % 23}")
        for n in range(gpus)
    ]
    busy = random.beta(0.6, 0.6, gpus)
    for n in range(1, ticks + 1):
        at = T0_MS + n * TICK_MS
        busy = np.clip(busy + random.normal(0, 0.02, gpus), 0, 1)
        samples = tuple(
            _sample(gpu, at, n, ratio) for gpu, ratio in zip(known, busy.round(4).tolist(), strict=True)
        )
        allocations = tuple(
            Allocation(uuid=gpu.uuid, holder=holders[_job(number, n)], source=ClaimSource.SLURM)
            for number, gpu in enumerate(known)
        )
        reading = Reading(source="bench", at_ms=at, gpus=known, samples=samples, duration_ms=1.0)
        yield Tick(at_ms=at, width_ms=TICK_MS, outcomes=(reading,), allocations=allocations)


def _samples_alone(gpus: int, ticks: int) -> tuple[float, float]:
    """The median of columns ready to commit, one insert and its commit; and of making the columns."""
    took, made = [], []
    with tempfile.TemporaryDirectory() as folder, open_store(Path(folder) / "fallow.duckdb") as store:
        first = next(story(gpus, 1))
        store.write_tick(first)
        with store.reader() as connection:
            ids = {uuid: n for n, uuid in connection.execute("SELECT gpu_id, uuid FROM gpus").fetchall()}
            for tick in story(gpus, ticks):
                (reading,) = tick.outcomes
                assert isinstance(reading, Reading)
                begun = time.perf_counter()
                table = to_table(reading.samples)
                rows = stored_rows(table, pa.array([ids[s.uuid] for s in reading.samples], pa.int32()))
                made.append((time.perf_counter() - begun) * 1e3)
                took.append(_timed(partial(_insert, connection, rows)))
    return median(took), median(made)


def _columns(tick: Tick) -> None:
    """The part of a tick before the store has anything to commit."""
    for reading in tick.outcomes:
        assert isinstance(reading, Reading)
        table = to_table(reading.samples)
        stored_rows(table, pa.array(range(table.num_rows), pa.int32()))


def _insert(connection: duckdb.DuckDBPyConnection, rows: object) -> None:
    connection.execute("BEGIN")
    connection.register("incoming", rows)
    connection.execute("INSERT INTO samples BY NAME SELECT * FROM incoming")
    connection.unregister("incoming")
    connection.execute("COMMIT")


def _job(number: int, n: int) -> int:
    job = number // 4
    return job + n // 30 if job % 50 == 0 else job


def _gpu(number: int) -> Gpu:
    return Gpu(
        uuid=GpuUuid(f"GPU-{number:08x}-5bd1-4c5e-9b0e-0d6e2f0d6a10"),
        node=NodeName(f"node{number // 8:04d}"),
        index=number % 8,
        model="NVIDIA H100 80GB HBM3",
        memory_total_bytes=85_520_809_984,
        driver_version="575.57.08",
        power_limit_mw=700_000,
    )


def _sample(gpu: Gpu, at_ms: int, n: int, busy: float) -> GpuSample:
    return GpuSample(
        uuid=gpu.uuid,
        at_ms=at_ms,
        width_ms=TICK_MS,
        rung=Basis.SM_ACTIVE,
        utilization_ratio=busy,
        gpu_utilization_ratio=min(1.0, busy * 1.6),
        gpu_utilization_max_ratio=1.0 if busy > 0 else 0.0,
        gpu_busy_ratio=min(1.0, busy * 1.7),
        memory_controller_ratio=busy * 0.4,
        encoder_ratio=0.0,
        decoder_ratio=0.0,
        sm_active_ratio=busy,
        sm_occupancy_ratio=busy * 0.3,
        tensor_active_ratio=busy * 0.35,
        dram_active_ratio=busy * 0.5,
        memory_used_bytes=60_000_000_000,
        memory_reserved_bytes=600_000_000,
        power_mw=round(70_000 + 600_000 * busy),
        energy_mj=10**12 + n * round(700_000 + 6_000_000 * busy),
        temperature_c=round(30 + 40 * busy),
        sm_clock_mhz=1_980,
        memory_clock_mhz=2_619,
        throttle_reasons=0,
        ecc_corrected=0,
        ecc_uncorrected=0,
        process_count=1 if busy > 0 else 0,
    )


def _timed(work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    work()
    return (time.perf_counter() - begun) * 1e3

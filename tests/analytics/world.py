"""A store small enough to be counted on paper: three GPUs, two people, two hours, a sample a minute.

=======  ==========================================  =============================================
GPU      12:00 to 13:00                              13:00 to 14:00
=======  ==========================================  =============================================
a0 H100  ana's slurm:1 at 80%                        the same, a process at 0%
a1 H100  ana's slurm:2 and bo's pod, half each, 40%  free
b0 A100  not installed                               bo's slurm:3 without a process; 13:30 to 13:45 unmeasured
=======  ==========================================  =============================================

Samples go on for three minutes more, so that everything before 14:00 is rolled up. a H100-hour costs 4 EUR.
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from collector.arrow import HeldInterval, History, to_table
from collector.model import (
    Allocation,
    Basis,
    ClaimSource,
    Event,
    Gap,
    Gpu,
    GpuSample,
    GpuUuid,
    Holder,
    JobId,
    JobKind,
    NodeName,
    Process,
    ProcessKey,
    ProcessSample,
)
from collector.store.database import Store
from tests.stores import copy_of, open_store

GIB = 1 << 30
MINUTE_MS = 60_000
NOON = datetime(2026, 11, 1, 12, tzinfo=UTC)
NOON_MS = int(NOON.timestamp() * 1000)
ONE_MS, TWO_MS = NOON_MS + 60 * MINUTE_MS, NOON_MS + 120 * MINUTE_MS
END_MS = TWO_MS + 3 * MINUTE_MS
ONE, TWO = NOON.replace(hour=13), NOON.replace(hour=14)
WINDOW = {"from_ts": NOON, "to_ts": TWO}

A0, A1, B0 = GpuUuid("GPU-a0"), GpuUuid("GPU-a1"), GpuUuid("GPU-b0")
NODE_A, NODE_B = NodeName("a"), NodeName("b")
ONE_JOB = Holder(
    job=JobId("slurm:1"), user="ana", project="vision", name="fit", kind=JobKind.BATCH, framework="PyTorch"
)
TWO_JOB = Holder(
    job=JobId("slurm:2"), user="ana", project="vision", name="try", kind=JobKind.INTERACTIVE, framework="JAX"
)
POD = Holder(
    job=JobId("pod:lm/x"), user="bo", project="lm", name="x", kind=JobKind.INFERENCE, framework="JAX"
)
THREE_JOB = Holder(job=JobId("slurm:3"), user="bo", project="lm", name="shell", kind=JobKind.INTERACTIVE)
PROCESS = Process(
    key=ProcessKey(node=NODE_A, pid=71, started_ms=NOON_MS - MINUTE_MS),
    user="ana",
    name="python",
    command="python fit.py",
    frameworks=("PyTorch",),
)


def fill(path: Path) -> Store:
    """The store, open for writing; the caller closes it."""
    copy_of(path, _write)
    return open_store(path / "fallow.duckdb")


def _write(path: Path) -> None:
    with open_store(path / "fallow.duckdb") as store:
        _write_into(store)


def _write_into(store: Store) -> None:
    store.write_history(
        History(
            source="hand",
            gpus=(
                Gpu(uuid=A0, node=NODE_A, index=0, model="H100", memory_total_bytes=80 * GIB),
                Gpu(uuid=A1, node=NODE_A, index=1, model="H100", memory_total_bytes=80 * GIB),
            ),
            samples=to_table(_until_one()),
            held=(_held(A0, ONE_JOB, NOON_MS, None), *_shared()),
            processes=(PROCESS,),
        )
    )
    store.write_history(
        History(
            source="hand",
            gpus=(Gpu(uuid=B0, node=NODE_B, index=0, model="A100", memory_total_bytes=40 * GIB),),
            samples=to_table(_after_one()),
            held=(_held(B0, THREE_JOB, ONE_MS, None),),
            process_samples=(
                ProcessSample(
                    uuid=A0,
                    key=PROCESS.key,
                    at_ms=TWO_MS,
                    width_ms=MINUTE_MS,
                    memory_used_bytes=30 * GIB,
                    sm_ratio=0.0,
                ),
            ),
            processes=(PROCESS,),
            events=(Event(uuid=B0, at_ms=ONE_MS + MINUTE_MS, kind="xid", detail="13"),),
            gaps=(
                Gap(
                    source="hand",
                    from_ms=ONE_MS + 30 * MINUTE_MS,
                    to_ms=ONE_MS + 45 * MINUTE_MS,
                    reason="the cable was out",
                    uuid=B0,
                    node=NODE_B,
                ),
            ),
        )
    )
    store.set_prices({"H100": (4.0, "EUR")})


def _until_one() -> Iterator[GpuSample]:
    for at_ms in range(NOON_MS + MINUTE_MS, ONE_MS + 1, MINUTE_MS):
        yield _sample(A0, at_ms, 0.8, memory_used_bytes=30 * GIB, processes=1, power_mw=400_000)
        yield _sample(A1, at_ms, 0.4, memory_used_bytes=20 * GIB, processes=2, power_mw=200_000)


def _after_one() -> Iterator[GpuSample]:
    for at_ms in range(ONE_MS + MINUTE_MS, END_MS + 1, MINUTE_MS):
        yield _sample(A0, at_ms, 0.0, memory_used_bytes=30 * GIB, processes=1, power_mw=100_000)
        yield _sample(A1, at_ms, 0.0, memory_used_bytes=0, processes=0, power_mw=50_000)
        if not ONE_MS + 30 * MINUTE_MS < at_ms <= ONE_MS + 45 * MINUTE_MS:
            yield _sample(B0, at_ms, 0.0, memory_used_bytes=0, processes=0, power_mw=40_000)


def _sample(
    uuid: GpuUuid, at_ms: int, level: float, *, memory_used_bytes: int, processes: int, power_mw: int
) -> GpuSample:
    return GpuSample(
        uuid=uuid,
        at_ms=at_ms,
        width_ms=MINUTE_MS,
        rung=Basis.SM_ACTIVE,
        utilization_ratio=level,
        gpu_utilization_ratio=min(1.0, level + 0.1) if level else 0.0,
        sm_active_ratio=level,
        memory_controller_ratio=0.5 * level,
        memory_used_bytes=memory_used_bytes,
        power_mw=power_mw,
        temperature_c=50,
        process_count=processes,
    )


def _held(uuid: GpuUuid, holder: Holder, from_ms: int, to_ms: int | None, share: float = 1.0) -> HeldInterval:
    return HeldInterval(
        allocation=Allocation(uuid=uuid, holder=holder, share=share, source=ClaimSource.SLURM),
        from_ms=from_ms,
        to_ms=to_ms,
    )


def _shared() -> tuple[HeldInterval, ...]:
    return _held(A1, TWO_JOB, NOON_MS, ONE_MS, 0.5), _held(A1, POD, NOON_MS, ONE_MS, 0.5)

"""Five people and six hours in rows of half a minute, whose use is counted on paper.

======  =========================================  ==============================================
job     its SMs                                    by hand, in GPU-hours
======  =========================================  ==============================================
thin    0.5% in each bin for four hours, then 0    low saturation 4.0 (used 0.02), idle 2.0
third   0.3% in each third bin                     low saturation 2.0 (a third of 6.0), idle 4.0
ticks   0.3% in each tenth bin                     idle 6.0: a tenth of the bins is no work
idle    0                                          idle 6.0
bursts  60% in the first minute of each half hour  good 12 min = 0.2, idle 5.8
blunt   no SM active; GPU utilization 0.5%         idle 6.0: it may be the reading itself
======  =========================================  ==============================================

Their memory's traffic: ``thin`` and ``bursts`` 2% in each row of work; 30% in the first hour of ``bursts``.
"""

from collections.abc import Callable, Iterator

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
    JobKind,
    NodeName,
)

BIN_MS, MINUTE_MS, HOUR_MS = 30_000, 60_000, 3_600_000
START_MS = 1_793_145_600_000 // HOUR_MS * HOUR_MS
STOP_MS = START_MS + 4 * HOUR_MS
END_MS = START_MS + 6 * HOUR_MS
GIB = 1 << 30
BINS = (END_MS - START_MS) // BIN_MS
LEVELS: dict[str, Callable[[int], float]] = {
    "thin": lambda n: 0.005 if n < 480 else 0.0,
    "third": lambda n: 0.003 if n % 3 == 2 else 0.0,
    "ticks": lambda n: 0.003 if n % 10 == 9 else 0.0,
    "idle": lambda n: 0.0,
    "bursts": lambda n: 0.6 if n % 60 < 2 else 0.0,
    "blunt": lambda n: 0.005,
}
LOW_HOURS = {"thin": 4.0, "third": 2.0, "ticks": 0.0, "idle": 0.0, "bursts": 0.0, "blunt": 0.0}
IDLE_HOURS = {"thin": 2.0, "third": 4.0, "ticks": 6.0, "idle": 6.0, "bursts": 5.8, "blunt": 6.0}


def gpus() -> tuple[Gpu, ...]:
    """One for each job, named after it."""
    return tuple(
        Gpu(uuid=GpuUuid(name), node=NodeName("n"), index=n, model="H100", memory_total_bytes=80 * GIB)
        for n, name in enumerate(LEVELS)
    )


def holds() -> tuple[HeldInterval, ...]:
    """From the first row on, and open: batch jobs, and a server."""
    return tuple(
        HeldInterval(
            allocation=Allocation(
                uuid=GpuUuid(name),
                holder=Holder(
                    job=JobId(name), user=name, kind=JobKind.INFERENCE if name == "thin" else JobKind.BATCH
                ),
                source=ClaimSource.SLURM,
            ),
            from_ms=START_MS,
            to_ms=None,
        )
        for name in LEVELS
    )


def rows(from_bin: int = 0, to_bin: int = BINS) -> Iterator[GpuSample]:
    """The rows of some bins, the oldest first."""
    for n in range(from_bin, to_bin):
        for name, level in LEVELS.items():
            is_blunt = name == "blunt"
            yield GpuSample(
                uuid=GpuUuid(name),
                at_ms=START_MS + (n + 1) * BIN_MS,
                width_ms=BIN_MS,
                rung=Basis.GPU_UTILIZATION if is_blunt else Basis.SM_ACTIVE,
                utilization_ratio=level(n),
                gpu_utilization_ratio=level(n),
                sm_active_ratio=None if is_blunt else level(n),
                memory_controller_ratio=traffic(name, n, level(n)),
                memory_used_bytes=20 * GIB,
                power_mw=90_000,
                process_count=1,
            )


def traffic(name: str, n: int, level: float) -> float:
    """The part of a row in which memory was read or written: else than at work that would be copies."""
    if name == "bursts" and n < 120:
        return 0.3 if level else 0.0
    return 0.02 if level >= 0.005 and name != "blunt" else 0.0


def closing() -> tuple[GpuSample, ...]:
    """Rows after the six hours, by which their last minutes are over: as the last bin."""
    last = tuple(rows(BINS - 1, BINS))
    return tuple(
        GpuSample(
            uuid=each.uuid,
            at_ms=END_MS + 3 * MINUTE_MS,
            width_ms=3 * MINUTE_MS,
            rung=each.rung,
            utilization_ratio=0.0,
            memory_used_bytes=20 * GIB,
            process_count=1,
        )
        for each in last
    )


def history() -> History:
    """All of it."""
    return History(source="hand", gpus=gpus(), samples=to_table(iter([*rows(), *closing()])), held=holds())

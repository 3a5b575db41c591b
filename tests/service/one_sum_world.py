"""Four GPUs and three hours, whose waste is counted on paper; the newest minutes are left to be rolled up.

=====  ====================  ==================================  ==================================
GPU    whose                 12:00 to 13:00                      13:00 to 15:00
=====  ====================  ==================================  ==================================
g0     ana's slurm:1         80%                                 a process that does nothing
g1     ana's slurm:1         10%: low saturation                 a process that does nothing
g2     bo's slurm:2          no process                          no process until 13:30, then free
g3     nobody knows: pod:x   a process that does nothing         the same until 14:00, then 80%
=====  ====================  ==================================  ==================================

By hand, in GPU-hours:

*wasted* = allocated-empty + held-idle
  g0 2.0 (13:00 to 15:00) + g1 2.0 + g2 1.5 (12:00 to 13:30) + g3 2.0 (12:00 to 14:00) = 7.5
*low saturation*, beside it: g1 1.0
*held* = g0 3.0 + g1 3.0 + g2 1.5 + g3 3.0 = 10.5; *installed* = 4 * 3 = 12.0
*cost of the waste* at 4 EUR = 30 EUR
*by person*: ana 4.0, bo 1.5, unknown 2.0; *by job*: slurm:1 4.0, slurm:2 1.5, pod:x 2.0
*from 13:00 to 14:00*: g0 1.0 + g1 1.0 + g2 0.5 + g3 1.0 = 3.5
*energy* in kWh, at 0.5 kW when 80% busy, 0.2 at 10%, 0.1 with a process that does nothing, 0.05 with none
  g0 0.5 + 0.2, g1 0.2 + 0.2, g2 3 * 0.05, g3 0.2 + 0.5: 1.95 in all
  *of the waste*: g0 0.2 + g1 0.2 + g2 1.5 * 0.05 + g3 0.2 = 0.675
  *by person*: ana 1.1, bo 0.075, unknown 0.7, nobody 0.075
*open findings* at the end name g0 and g1 (g1 twice, and the job): 2.0 + 2.0 = 4.0; with what is over, g2: 5.5
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

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
from collector.store.judgements import Judgement
from tests.stores import copy_of, open_store

GIB, MINUTE_MS = 1 << 30, 60_000
NOON = datetime(2026, 11, 1, 12, tzinfo=UTC)
NOON_MS = int(NOON.timestamp() * 1000)
END = NOON.replace(hour=15)
END_MS = NOON_MS + 180 * MINUTE_MS
LAST_MS = END_MS + 3 * MINUTE_MS
GPUS = tuple(GpuUuid(f"GPU-{place}") for place in range(4))
NODE = NodeName("n1")
ANA = Holder(job=JobId("slurm:1"), user="ana", project="vision", name="fit", kind=JobKind.BATCH)
BO = Holder(job=JobId("slurm:2"), user="bo", project="lm", name="shell", kind=JobKind.INTERACTIVE)
UNKNOWN = Holder(job=JobId("pod:x"), name="x", kind=JobKind.BATCH)

WASTED, OPEN, FOUND, LOW, HELD = 7.5, 4.0, 5.5, 1.0, 10.5
COST = 30.0
BY_USER = {"ana": 4.0, "bo": 1.5, None: 2.0}
BY_JOB = {"slurm:1": 4.0, "slurm:2": 1.5, "pod:x": 2.0}
SECOND_HOUR = 3.5
ENERGY_KWH, WASTED_KWH = 1.95, 0.675
KWH_BY_USER = {"ana": 1.1, "bo": 0.075, "pod:x": 0.7, "nobody": 0.075}
KWH_BY_STATE = {
    "free": 0.075,
    "allocated-empty": 0.075,
    "held-idle": 0.6,
    "low-saturation": 0.2,
    "good": 1.0,
}
POWER_MW = {0.8: 500_000, 0.1: 200_000}


def fill(folder: Path) -> Path:
    """The data folder with the store in it, judged once with everything open, and once more."""
    copy_of(folder, _fill)
    return folder


def _fill(folder: Path) -> None:
    with open_store(folder / "fallow.duckdb") as store:
        store.write_history(
            History(
                source="hand",
                gpus=tuple(
                    Gpu(uuid=uuid, node=NODE, index=n, model="H100", memory_total_bytes=80 * GIB)
                    for n, uuid in enumerate(GPUS)
                ),
                samples=to_table(_samples()),
                held=(
                    _held(0, ANA, None),
                    _held(1, ANA, None),
                    _held(2, BO, NOON_MS + 90 * MINUTE_MS),
                    _held(3, UNKNOWN, None),
                ),
            )
        )
        store.set_prices({"*": (4.0, "EUR")})
        still = [
            _finding(0, "held-idle", ANA, 2.0),
            _finding(1, "held-idle", ANA, 2.0),
            _finding(1, "low-saturation", ANA, None),
            _finding(1, "uses-part", ANA, None),
        ]
        over = _finding(2, "allocated-empty", BO, 1.0)
        store.write_judgement(Judgement(findings=[*still, over]), NOON_MS + 80 * MINUTE_MS)
        store.write_judgement(Judgement(findings=still), END_MS)


NIGHTS = datetime(2026, 11, 2, 8, tzinfo=UTC)


def fill_late(folder: Path) -> Path:
    """One GPU that is recorded from noon on, and given to Bo at one."""
    copy_of(folder, _fill_late)
    return folder


def _fill_late(folder: Path) -> None:
    held = HeldInterval(
        allocation=Allocation(uuid=GPUS[0], holder=BO, source=ClaimSource.SLURM),
        from_ms=NOON_MS + 60 * MINUTE_MS,
        to_ms=None,
    )
    with open_store(folder / "fallow.duckdb") as store:
        store.write_history(
            History(
                source="hand",
                gpus=(Gpu(uuid=GPUS[0], node=NODE, index=0, model="H100", memory_total_bytes=80 * GIB),),
                samples=to_table(
                    _sample(0, at_ms, 0.0, 1) for at_ms in range(NOON_MS + MINUTE_MS, LAST_MS + 1, MINUTE_MS)
                ),
                held=(held,),
            )
        )


def fill_nights(folder: Path, days: int) -> None:
    """One GPU, from eight in the morning: twelve hours at 80%, twelve with a process that does nothing."""
    copy_of(folder, _fill_nights, days)


def _fill_nights(folder: Path, days: int) -> None:
    start_ms = int(NIGHTS.timestamp() * 1000)
    notebook = Holder(job=JobId("pod:lab/nb"), user="ana", project="lab", kind=JobKind.INTERACTIVE)
    minutes = range(1, days * 1440 + 4)
    busy = (minute <= days * 1440 and (minute - 1) % 1440 < 720 for minute in minutes)
    with open_store(folder / "fallow.duckdb") as store:
        store.write_history(
            History(
                source="hand",
                gpus=(Gpu(uuid=GPUS[0], node=NODE, index=0, model="H100", memory_total_bytes=80 * GIB),),
                samples=to_table(
                    _sample(0, start_ms + minute * MINUTE_MS, 0.8 if works else 0.0, 1)
                    for minute, works in zip(minutes, busy, strict=True)
                ),
                held=(
                    HeldInterval(
                        allocation=Allocation(uuid=GPUS[0], holder=notebook, source=ClaimSource.SLURM),
                        from_ms=start_ms,
                        to_ms=None,
                    ),
                ),
            )
        )


def _samples() -> Iterator[GpuSample]:
    for at_ms in range(NOON_MS + MINUTE_MS, LAST_MS + 1, MINUTE_MS):
        minute = (at_ms - NOON_MS) // MINUTE_MS
        yield _sample(0, at_ms, 0.8 if minute <= 60 else 0.0, 1)
        yield _sample(1, at_ms, 0.1 if minute <= 60 else 0.0, 1)
        yield _sample(2, at_ms, 0.0, 0)
        yield _sample(3, at_ms, 0.0 if minute <= 120 else 0.8, 1)


def _sample(place: int, at_ms: int, level: float, processes: int) -> GpuSample:
    return GpuSample(
        uuid=GPUS[place],
        at_ms=at_ms,
        width_ms=MINUTE_MS,
        rung=Basis.SM_ACTIVE,
        utilization_ratio=level,
        gpu_utilization_ratio=level,
        sm_active_ratio=level,
        memory_used_bytes=processes * 30 * GIB,
        power_mw=POWER_MW.get(level, 100_000 if processes else 50_000),
        process_count=processes,
    )


def _held(place: int, holder: Holder, to_ms: int | None) -> HeldInterval:
    return HeldInterval(
        allocation=Allocation(uuid=GPUS[place], holder=holder, source=ClaimSource.SLURM),
        from_ms=NOON_MS,
        to_ms=to_ms,
    )


def _finding(place: int, kind: str, holder: Holder, hours: float | None) -> dict[str, object]:
    return {
        "kind": kind,
        "uuid": GPUS[place],
        "job": holder.job,
        "window_from_ms": END_MS - 60 * MINUTE_MS,
        "window_to_ms": END_MS,
        "coverage": 1.0,
        "rung": 3,
        "wasted_gpu_hours": hours,
        "sentence": f"{holder.user} (job {holder.name}) has done nothing on GPU {place} of n1.",
        "evidence": {},
    }

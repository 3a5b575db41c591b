"""Half an hour of little use after hours of good use: the day's use is asked for, and excuses it."""

from pathlib import Path

import pytest

from analytics.assess import assess
from analytics.model import FindingKind
from analytics.thresholds import Thresholds
from collector.arrow import HeldInterval, History, to_table
from collector.model import Allocation, Basis, ClaimSource, Gpu, GpuSample, GpuUuid, Holder, JobId, NodeName
from tests.stores import open_store

START_MS, STEP_MS = 1_793_145_600_000, 30_000
UUID = GpuUuid("GPU-x")


@pytest.mark.parametrize(("good", "is_low"), [(0.6, False), (0.04, True)])
def test_a_wait_in_a_collective_is_judged_by_the_day(tmp_path: Path, good: float, is_low: bool) -> None:
    # Two hours of training, then 34 minutes in which a rank spins while another evaluates.
    steps, waits_from = 308, 240
    with open_store(tmp_path / "fallow.duckdb") as store:
        store.write_history(
            History(
                source="x",
                gpus=(Gpu(uuid=UUID, node=NodeName("n"), index=0, memory_total_bytes=80 << 30),),
                samples=to_table(
                    GpuSample(
                        uuid=UUID,
                        at_ms=START_MS + (n + 1) * STEP_MS,
                        width_ms=STEP_MS,
                        rung=Basis.SM_ACTIVE,
                        utilization_ratio=good if n < waits_from else 0.04,
                        sm_active_ratio=good if n < waits_from else 0.04,
                        gpu_utilization_ratio=0.98,
                        memory_used_bytes=30 << 30,
                        process_count=1,
                    )
                    for n in range(steps)
                ),
                held=(
                    HeldInterval(
                        allocation=Allocation(
                            uuid=UUID, holder=Holder(job=JobId("slurm:1")), source=ClaimSource.SLURM
                        ),
                        from_ms=START_MS,
                        to_ms=None,
                    ),
                ),
            )
        )
        with store.reader() as reader:
            found = assess(reader, START_MS + steps * STEP_MS, Thresholds(), STEP_MS).findings
    assert (FindingKind.LOW_SATURATION in {each.kind for each in found}) is is_low

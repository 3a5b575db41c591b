"""A small model seen by an exporter alone: nobody counts processes, and its memory is under a GiB."""

from pathlib import Path

import pytest

from analytics.assess import assess
from analytics.query import run
from analytics.thresholds import Thresholds
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
from tests.stores import open_store

START_MS, STEP_MS = 1_793_145_600_000, 30_000
CYCLE, BUSY = 14, 10
"""Seven minutes in bins of 30 s, of which five minutes are busy."""
BINS = 20 * CYCLE
"""Two hours and twenty minutes: past every start."""
UUID = GpuUuid("GPU-t4")


@pytest.mark.slow
def test_a_pause_of_two_minutes_with_700_mib_is_neither_empty_nor_idle(tmp_path: Path) -> None:
    gpu = Gpu(uuid=UUID, node=NodeName("n"), index=0, model="Tesla T4", memory_total_bytes=15 << 30)
    pod = Holder(job=JobId("pod:a/small-model"), project="a")
    samples = (
        GpuSample(
            uuid=UUID,
            at_ms=START_MS + (n + 1) * STEP_MS,
            width_ms=STEP_MS,
            rung=Basis.GPU_UTILIZATION,
            utilization_ratio=level,
            gpu_utilization_ratio=level,
            memory_controller_ratio=level / 3,
            memory_used_bytes=700 << 20,
        )
        for n in range(BINS)
        for level in (0.6 if n % CYCLE < BUSY else 0.0,)
    )
    held = HeldInterval(
        allocation=Allocation(uuid=UUID, holder=pod, source=ClaimSource.KUBERNETES),
        from_ms=START_MS,
        to_ms=None,
    )
    history = History(source="dcgm", gpus=(gpu,), samples=to_table(samples), held=(held,))
    with open_store(tmp_path / "fallow.duckdb") as store:
        store.write_history(history)
        with store.reader() as reader:
            for bins_ago in range(CYCLE - BUSY):  # each place of the newest pause
                now_ms = START_MS + (BINS - bins_ago) * STEP_MS
                assert assess(reader, now_ms, Thresholds(), STEP_MS).findings == ()
            (row,) = run(
                reader, "ledger_by_gpu", {"from_ts": START_MS, "to_ts": START_MS + BINS * STEP_MS}
            ).to_pylist()
    assert not row["allocated_empty_gpu_hours"]

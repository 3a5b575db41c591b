"""``fallow whatif`` on an idle time of which part was not measured."""

import json
from pathlib import Path

import pytest

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
from service import data_folder as client_place
from tests.service.conftest import verb
from tests.stores import open_store

pytestmark = pytest.mark.slow

MINUTE_MS = 60_000
START_MS = 1_761_696_000_000  # 2025-10-29, a Wednesday
UUID = GpuUuid("GPU-n")


def test_whatif_counts_what_was_measured_and_says_the_gap(tmp_path: Path) -> None:
    # It works for an hour and is idle for eleven, of which the fifth to the eighth are not measured.
    with open_store(client_place.store_file(tmp_path)) as store:
        store.write_history(
            History(
                source="test",
                gpus=(Gpu(uuid=UUID, node=NodeName("n"), memory_total_bytes=80 << 30),),
                samples=to_table(
                    GpuSample(
                        uuid=UUID,
                        at_ms=START_MS + minute * MINUTE_MS,
                        width_ms=MINUTE_MS,
                        rung=Basis.SM_ACTIVE,
                        utilization_ratio=0.9 if minute <= 60 else 0.0,
                        memory_used_bytes=10 << 30,
                        process_count=1,
                    )
                    for minute in range(1, 12 * 60 + 1)
                    if not 5 * 60 < minute <= 8 * 60
                ),
                held=(
                    HeldInterval(
                        allocation=Allocation(
                            uuid=UUID,
                            holder=Holder(job=JobId("slurm:1"), user="ann", kind=JobKind.BATCH),
                            source=ClaimSource.SLURM,
                        ),
                        from_ms=START_MS,
                        to_ms=None,
                    ),
                ),
            )
        )
    done = verb("whatif", "--since", "1d", data=tmp_path)
    assert done.returncode == 0, done.stderr
    said = " ".join(done.stdout.split())
    assert "Of idle times, 3.0 GPU-hours were not measured and are not counted" in said
    done = verb("whatif", "--since", "1d", "--json", data=tmp_path)
    (tell,) = (row for row in json.loads(done.stdout) if row["action"] == "tell")
    assert tell["unmeasured_gpu_hours"] == pytest.approx(3.0, abs=0.05)
    assert tell["times"] == 2 and 0 < tell["gpu_hours"] < 4 + 4

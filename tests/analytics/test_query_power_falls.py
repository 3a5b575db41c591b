"""When the power of a GPU fell, counted on paper: a job that drew 300 W for 100 minutes, and 100 W since."""

from pathlib import Path
from typing import Any

import pytest

from analytics.query import run
from collector.arrow import HeldInterval, History, to_table
from collector.model import Allocation, ClaimSource, Gpu, GpuSample, GpuUuid, Holder, JobId, NodeName
from tests.stores import open_store

START_MS, MINUTE_MS = 1_793_145_600_000, 60_000
UUID = GpuUuid("GPU-x")
BUSY_MW, STUCK_MW = 300_000, 100_000
FELL = 100


def falls_of(tmp_path: Path, drawn: list[int | None]) -> list[dict[str, Any]]:
    """The rows of ``assess_power_falls`` after minutes of so many milliwatts; None was not measured."""
    samples = [
        GpuSample(uuid=UUID, at_ms=START_MS + (n + 1) * MINUTE_MS, width_ms=MINUTE_MS, power_mw=power)
        for n, power in enumerate(drawn)
        if power is not None
    ]
    held = HeldInterval(
        allocation=Allocation(uuid=UUID, holder=Holder(job=JobId("slurm:1")), source=ClaimSource.SLURM),
        from_ms=START_MS,
        to_ms=None,
    )
    gpu = Gpu(uuid=UUID, node=NodeName("n"), index=0)
    with open_store(tmp_path / "fallow.duckdb") as store:
        store.write_history(History(source="x", gpus=(gpu,), samples=to_table(samples), held=(held,)))
        with store.reader() as reader:
            asked = {"as_of": START_MS + len(drawn) * MINUTE_MS, "gpu_ids": [1]}
            return run(reader, "assess_power_falls", asked).to_pylist()


def test_a_fall_is_told_with_when_it_was_and_with_both_powers(tmp_path: Path) -> None:
    (row,) = falls_of(tmp_path, [BUSY_MW] * FELL + [STUCK_MW] * 180)
    assert row["fell_ms"] == START_MS + FELL * MINUTE_MS
    assert (row["before_mw"], row["now_mw"]) == (pytest.approx(BUSY_MW), pytest.approx(STUCK_MW))
    assert row["measured_ratio"] == 1.0


def test_what_was_not_measured_since_is_no_part_of_it(tmp_path: Path) -> None:
    # 90 of 180 minutes since are missing; the newest two may not be rolled up yet, so a minute more or less
    (row,) = falls_of(tmp_path, [BUSY_MW] * FELL + [STUCK_MW] * 15 + [None] * 90 + [STUCK_MW] * 75)
    assert row["fell_ms"] == START_MS + FELL * MINUTE_MS
    assert row["measured_ratio"] == pytest.approx(90 / 180, abs=2 / 180)


@pytest.mark.parametrize("before_mw", [STUCK_MW, 149_000], ids=["the same", "less than half as much again"])
def test_without_a_minute_of_half_as_much_again_nothing_fell(tmp_path: Path, before_mw: int) -> None:
    assert falls_of(tmp_path, [before_mw] * FELL + [STUCK_MW] * 180) == []

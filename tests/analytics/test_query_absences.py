"""Silences in which nobody is on a GPU are told from those in which a process stays."""

from pathlib import Path
from typing import Any

import pytest

from analytics.query import run
from collector.arrow import HeldInterval, History, to_table
from collector.model import Allocation, Basis, ClaimSource, Gpu, GpuSample, GpuUuid, Holder, JobId, NodeName
from tests.stores import open_store

START_MS, STEP_MS = 1_793_145_600_000, 60_000
UUID = GpuUuid("GPU-x")
WORK, STAYS, AWAY, UNSEEN = (0.5, 1), (0.0, 1), (0.0, 0), (0.0, None)
"""Utilization and how many processes are there."""


@pytest.mark.parametrize(
    ("cycle", "absence_min"),
    [
        ([WORK] * 2 + [STAYS] * 5 + [AWAY] * 20, 25),  # a server that frees its model: the whole silence
        ([WORK] * 2 + [STAYS] * 16 + [AWAY] * 9, None),  # nobody is there for nine minutes
        ([WORK] * 2 + [STAYS] * 25, None),
        ([WORK] * 2 + [UNSEEN] * 25, None),  # half a GiB may be a process
    ],
    ids=["frees its model", "away for nine minutes", "stays", "nobody counts"],
)
def test_absences_are_silences_in_which_nobody_was_there(
    tmp_path: Path, cycle: list[tuple[float, int | None]], absence_min: int | None
) -> None:
    row = rhythm_of(tmp_path, cycle * 5)
    assert row["silence_p90_ms"] == 25 * STEP_MS
    assert row["absence_p90_ms"] == (None if absence_min is None else absence_min * STEP_MS)
    assert (row["spells"], row["begins"]) == (5, 5)
    assert (row["spells_ms"], row["silence_longest_ms"]) == (10 * STEP_MS, 25 * STEP_MS)


def test_a_spell_may_begin_anew_before_ten_minutes_are_over(tmp_path: Path) -> None:
    # Five times a minute's work with six of quiet between (a spell of 29 min), twelve, three of work.
    # The newest minute is not rolled up yet.
    row = rhythm_of(tmp_path, ([WORK] + [STAYS] * 6) * 4 + [WORK] + [STAYS] * 12 + [WORK] * 3 + [STAYS])
    assert (row["spells"], row["begins"]) == (2, 6)
    assert row["spells_ms"] == (29 + 3) * STEP_MS
    assert row["silence_longest_ms"] == 12 * STEP_MS


def rhythm_of(tmp_path: Path, minutes: list[tuple[float, int | None]]) -> dict[str, Any]:
    """The row of ``assess_rhythm`` of one job, a minute after the last of these."""
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
                        utilization_ratio=busy,
                        memory_used_bytes=0 if count == 0 else 500 << 20,
                        process_count=count,
                    )
                    for n, (busy, count) in enumerate(minutes)
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
            asked = {"as_of": START_MS + len(minutes) * STEP_MS, "gpu_ids": [1]}
            (row,) = run(reader, "assess_rhythm", asked).to_pylist()
    return row

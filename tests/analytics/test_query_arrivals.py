"""A process that comes to a GPU again and again is seen without seeing it: by the count, or by the memory."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from analytics.query import run
from collector.arrow import HeldInterval, History, to_table
from collector.model import Allocation, Basis, ClaimSource, Gpu, GpuSample, GpuUuid, Holder, JobId, NodeName
from tests.stores import open_store

START_MS = int(datetime(2026, 11, 1, 12, tzinfo=UTC).timestamp() * 1000)
STEP_MS = 30_000
HOLD_FROM = 20
"""Ten minutes of a free GPU come first: they show what the board keeps for itself."""
STEPS = HOLD_FROM + 7 * 120
END_MS = START_MS + STEPS * STEP_MS
UUID = GpuUuid("GPU-x")
FLOOR, CONTEXT, MODEL = 4 << 20, 500 << 20, 60 << 30


def arrivals(folder: Path, memory: list[int | None], counts: list[int | None], busy: float = 0.0) -> int:
    """What the query says of a GPU whose samples repeat these in turn, held for seven hours."""
    with open_store(folder / "fallow.duckdb") as store:
        store.write_history(
            History(
                source="x",
                gpus=(Gpu(uuid=UUID, node=NodeName("n"), index=0, memory_total_bytes=80 << 30),),
                samples=to_table(
                    GpuSample(
                        uuid=UUID,
                        at_ms=START_MS + (n + 1) * STEP_MS,
                        width_ms=STEP_MS,
                        rung=Basis.GPU_UTILIZATION,
                        utilization_ratio=busy if n >= HOLD_FROM else 0.0,
                        memory_used_bytes=memory[n % len(memory)] if n >= HOLD_FROM else memory[0],
                        process_count=counts[n % len(counts)] if n >= HOLD_FROM else counts[0],
                    )
                    for n in range(STEPS)
                ),
                held=(
                    HeldInterval(
                        allocation=Allocation(
                            uuid=UUID, holder=Holder(job=JobId("slurm:1")), source=ClaimSource.SLURM
                        ),
                        from_ms=START_MS + HOLD_FROM * STEP_MS,
                        to_ms=None,
                    ),
                ),
            )
        )
        with store.reader() as reader:
            asked = {"as_of": END_MS, "use_from": START_MS, "gpu_ids": [1]}
            (row,) = run(reader, "assess_use", asked).to_pylist()
    assert isinstance(row["process_arrivals"], int)  # evidence is JSON
    return row["process_arrivals"]


@pytest.mark.parametrize(
    ("memory", "counts", "times"),
    [
        # six hours are 720 samples: of a cycle of ten, 72
        ([FLOOR] * 8 + [MODEL] * 2, [None], 72),
        ([None], [0] * 8 + [1] * 2, 72),
        ([FLOOR] * 8 + [CONTEXT] * 2, [None], 0),  # under a GiB, above the board's own: nobody can say
        ([CONTEXT] * 8 + [MODEL] * 2, [1], 0),  # it frees memory, and stays
        ([None], [None], 0),
    ],
    ids=["memory", "count", "a context alone", "one process that frees", "nothing is seen"],
)
def test_arrivals_are_counted(
    tmp_path: Path, memory: list[int | None], counts: list[int | None], times: int
) -> None:
    assert arrivals(tmp_path, memory, counts) == times


def test_who_has_computed_is_not_looked_at(tmp_path: Path) -> None:
    assert arrivals(tmp_path, [FLOOR] * 8 + [MODEL] * 2, [None], busy=0.5) == 0

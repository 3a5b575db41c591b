"""A small model seen by an exporter alone: nobody counts processes, and its memory is under a GiB."""

from pathlib import Path

import pytest

from analytics.assess import assess
from analytics.model import FindingKind
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
MINUTE = 2
"""Bins."""


@pytest.mark.slow
def test_a_pause_of_two_minutes_with_700_mib_is_neither_empty_nor_idle(tmp_path: Path) -> None:
    levels = [0.6 if n % CYCLE < BUSY else 0.0 for n in range(BINS)]
    history = told(levels, [700] * BINS, [(0, None)])
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


@pytest.mark.slow
@pytest.mark.parametrize(
    ("busy_mib", "quiet_mib", "quiet", "kind"),
    [
        (700, 700, 40, None),  # its own memory is the least that was ever seen on the board
        (8192, 450, 40, None),  # a kernel that frees its tensors and keeps its context
        (8192, 450, 180, FindingKind.HELD_IDLE),
    ],
)
def test_a_processs_own_memory_is_no_empty_gpu(
    busy_mib: int, quiet_mib: int, quiet: int, kind: FindingKind | None, tmp_path: Path
) -> None:
    busy, silent = 180 * MINUTE, quiet * MINUTE
    history = told([0.6] * busy + [0.0] * silent, [busy_mib] * busy + [quiet_mib] * silent, [(0, None)])
    with open_store(tmp_path / "fallow.duckdb") as store:
        store.write_history(history)
        end_ms = START_MS + (busy + silent) * STEP_MS
        with store.reader() as reader:
            found = assess(reader, end_ms, Thresholds(), STEP_MS).findings
            (row,) = run(reader, "ledger_by_gpu", {"from_ts": START_MS, "to_ts": end_ms}).to_pylist()
    assert [each.kind for each in found] == ([] if kind is None else [kind])
    assert all("no process" not in each.sentence for each in found)
    assert not row["allocated_empty_gpu_hours"]


@pytest.mark.parametrize(
    ("gap", "learnt"),
    [
        ((20, 22), None),  # a label that was missing for a minute: its process was there all the time
        ((20, 60), 450 << 20),  # 20 minutes free: what is taken then is the board's own
    ],
)
def test_the_boards_own_memory_is_learnt_when_it_has_been_free_for_minutes(
    gap: tuple[int, int], learnt: int | None, tmp_path: Path
) -> None:
    steps = 80
    history = told([0.0] * steps, [450] * steps, [(0, gap[0]), (gap[1], None)])
    with open_store(tmp_path / "fallow.duckdb") as store:
        store.write_history(history)
        with store.reader() as reader:
            end_ms = START_MS + steps * STEP_MS
            asked = {"as_of": end_ms, "bins_from": end_ms - STEP_MS}
            (row,) = run(reader, "assess_gpus", asked).to_pylist()
    assert row["memory_free_bytes"] == learnt


def told(levels: list[float], mib: list[int], held: list[tuple[int, int | None]]) -> History:
    """What an exporter without process counts told, a bin each; ``held``: from which bin to which."""
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
            memory_used_bytes=memory << 20,
        )
        for n, (level, memory) in enumerate(zip(levels, mib, strict=True))
    )
    spans = tuple(
        HeldInterval(
            allocation=Allocation(uuid=UUID, holder=pod, source=ClaimSource.KUBERNETES),
            from_ms=START_MS + begin * STEP_MS,
            to_ms=None if end is None else START_MS + end * STEP_MS,
        )
        for begin, end in held
    )
    return History(source="dcgm", gpus=(gpu,), samples=to_table(samples), held=spans)

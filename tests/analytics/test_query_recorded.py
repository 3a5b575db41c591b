"""``recorded_jobs``: how many GPUs jobs held at once and for how long, in minutes of a small past."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from analytics.query import run
from collector.model import JobId
from tests.analytics.given_world import END, A, B, C, D, Held, past
from tests.analytics.world import MINUTE_MS, NOON, NOON_MS

JOB, OTHER = JobId("fallow:1"), JobId("fallow:2")


def recorded(
    folder: Path, *held: Held, begin: int = 0, end: int = END, share: float = 1.0
) -> list[dict[str, Any]]:
    window = {"from_ts": NOON + timedelta(minutes=begin), "to_ts": NOON + timedelta(minutes=end)}
    with past(folder, held, busy=[(A, 0, END)], share=share) as store, store.reader() as reader:
        return run(reader, "recorded_jobs", window).to_pylist()


def told(row: dict[str, Any]) -> tuple[int, float, float, float]:
    """GPUs, the share of each, the minute of its begin, minutes."""
    minute = (row["from_ms"] - NOON_MS) / MINUTE_MS
    return row["gpus"], row["share"], minute, row["run_ms"] / MINUTE_MS


@pytest.mark.parametrize(
    ("held", "found"),
    [
        ([(A, JOB, 10, 50)], (1, 1.0, 10, 40)),
        ([(A, JOB, 0, 60), (B, JOB, 120, 180)], (1, 1.0, 0, 120)),
        ([(A, JOB, 0, 60), (B, JOB, 60, 120), (C, JOB, 120, 180)], (1, 1.0, 0, 180)),
        ([(A, JOB, 20, 80), (B, JOB, 20, 80)], (2, 1.0, 20, 60)),
        ([(A, JOB, 0, 60), (B, JOB, 0, 60), (C, JOB, 90, 120), (D, JOB, 90, 120)], (2, 1.0, 0, 90)),
        ([(A, JOB, 0, 61), (B, JOB, 60, 120)], (1, 1.0, 0, 121)),
        ([(A, JOB, 0, 120), (B, JOB, 60, 120)], (2, 1.0, 0, 90)),
    ],
    ids=["one", "moved after a gap", "moved twice", "gang", "gang that moved", "overlap of a move", "grown"],
)
def test_a_size_is_what_was_held_at_once(
    tmp_path: Path, held: list[Held], found: tuple[int, float, float, float]
) -> None:
    (row,) = recorded(tmp_path, *held)
    assert told(row) == found
    assert (row["job"], row["project"], row["began_before"], row["is_open"]) == (JOB, "vision", False, False)


def test_what_lies_outside_of_the_window_is_cut_off(tmp_path: Path) -> None:
    rows = recorded(tmp_path, (A, JOB, 0, None), (B, OTHER, 30, 90), begin=60, end=120)
    assert [told(row) for row in rows] == [(1, 1.0, 60, 60), (1, 1.0, 60, 30)]
    assert [(row["began_before"], row["is_open"]) for row in rows] == [(True, True), (True, False)]
    assert [row["utilization_ratio"] for row in rows] == [pytest.approx(0.8), pytest.approx(0.0)]


def test_a_part_of_a_gpu_stays_a_part_however_long_the_window_is(tmp_path: Path) -> None:
    (row,) = recorded(tmp_path, (A, JOB, 30, None), begin=60, end=120, share=0.25)
    assert told(row) == (1, 0.25, 60, 60)


def test_a_job_of_the_ledger_whose_gpus_are_not_kept_has_a_row_without_a_size(tmp_path: Path) -> None:
    window = {"from_ts": NOON, "to_ts": NOON + timedelta(minutes=END)}
    with past(tmp_path, [(A, JOB, 0, 120)]) as store, store.reader() as reader:
        reader.execute("DELETE FROM allocations")
        (row,) = run(reader, "recorded_jobs", window).to_pylist()
    assert (row["job"], row["gpus"], row["run_ms"]) == (JOB, None, None)


def test_a_past_job_that_moved_held_one_gpu_and_only_while_it_held_one(tmp_path: Path) -> None:
    window = {"from_ts": NOON, "to_ts": NOON + timedelta(minutes=END)}
    moved: list[Held] = [(A, JOB, 0, 60), (B, JOB, 120, 180), (C, OTHER, 0, 30), (C, OTHER, 150, 180)]
    with past(tmp_path, moved, busy=[(A, 0, 60)]) as store, store.reader() as reader:
        rows = {row["job"]: row for row in run(reader, "past_jobs", window).to_pylist()}
    assert [(rows[job]["gpus"], rows[job]["expected_ms"] / MINUTE_MS) for job in (JOB, OTHER)] == [
        (1, 120),
        (1, 60),
    ]
    assert rows[JOB]["gpus_used"] == 1
    assert rows[OTHER]["measured_ms"] <= rows[OTHER]["expected_ms"]

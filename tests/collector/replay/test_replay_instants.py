"""Rows of a GPU's holders within one interval are of one instant; one after the other they are turns."""

from pathlib import Path

import pytest

from collector.sources.replay.recording import Recording
from tests.collector.replay.test_replay_recording import ORIGIN_MS, recorded


def held(recording: Recording) -> list[tuple[str, float, int, int]]:
    """Job, share, first and last second of each interval."""
    return sorted(
        (
            str(each.allocation.holder.job).removeprefix("slurm:"),
            each.allocation.share,
            (each.from_ms - ORIGIN_MS) // 1000,
            ((each.to_ms or 0) - ORIGIN_MS) // 1000,
        )
        for each in recording.held
    )


def text(rows: list[tuple[float, int, str]]) -> str:
    return "".join(f"{at},a,{busy},1024,{job}\n" for at, busy, job in sorted(rows))


@pytest.mark.parametrize("apart", [1, 12, 29])
@pytest.mark.parametrize("width_s", [30, None])
def test_holders_read_one_after_another_share_the_gpu(
    tmp_path: Path, apart: int, width_s: int | None
) -> None:
    # ann's loop reads each 30 s, bob's a little later; ann uses 60%, bob nothing
    rows = [(30 * n, 60, "ann") for n in range(1, 21)] + [(30 * n + apart, 0, "bob") for n in range(1, 21)]
    told = {} if width_s is None else {"width_s": width_s}
    recording = recorded(tmp_path, text(rows), **told)
    assert held(recording) == [("ann", 0.5, apart, 600 + apart), ("bob", 0.5, apart, 600 + apart)]
    assert [round(row["utilization_ratio"], 2) for row in recording.samples.to_pylist()] == [0.6] * 20
    assert {row["job"]: row["gpu_utilization_ratio"] for row in recording.holder_samples.to_pylist()} == {
        "slurm:ann": pytest.approx(0.6),
        "slurm:bob": 0.0,
    }


def test_who_follows_another_does_not_share_with_them(tmp_path: Path) -> None:
    # bob's loop begins 29 s after ann's last row: less than an interval, and yet ann was gone
    rows = [(30 * n, 60, "ann") for n in range(1, 11)] + [(299 + 30 * n, 20, "bob") for n in range(1, 11)]
    recording = recorded(tmp_path, text(rows), width_s=30)
    assert held(recording) == [("ann", 1.0, 0, 300), ("bob", 1.0, 299, 599)]


def test_who_comes_later_and_leaves_earlier_shares_for_that_time(tmp_path: Path) -> None:
    rows = [(30 * n, 60, "ann") for n in range(1, 21)] + [(30 * n + 2, 0, "bob") for n in range(6, 11)]
    recording = recorded(tmp_path, text(rows), width_s=30)
    assert held(recording) == [
        ("ann", 0.5, 152, 302),
        ("ann", 1.0, 0, 150),
        ("ann", 1.0, 300, 600),
        ("bob", 0.5, 152, 302),
    ]

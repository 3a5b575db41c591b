"""Tables with a row for each holder of a GPU: what is each one's own, what is the GPU's. Values by hand."""

from pathlib import Path

import pytest

from collector.model import Basis
from collector.reading import Reading
from collector.sources.replay.recording import Recording, histories
from collector.sources.replay.source import ReplaySource
from tests.collector.replay.test_replay_recording import ORIGIN_MS, recorded

MIB = 1 << 20
MINUTE = 60_000


def samples(recording: Recording) -> list[tuple[int, float | None, int | None]]:
    """Minute, utilization and MiB of each sample."""
    return [
        (
            (row["at_ms"] - ORIGIN_MS) // MINUTE,
            None if row["utilization_ratio"] is None else round(row["utilization_ratio"], 4),
            None if row["memory_used_bytes"] is None else row["memory_used_bytes"] // MIB,
        )
        for row in recording.samples.to_pylist()
    ]


def own(recording: Recording) -> list[tuple[int, str, float | None, int | None]]:
    """Minute, job, utilization and MiB of each holder's own."""
    return [
        (
            (row["at_ms"] - ORIGIN_MS) // MINUTE,
            row["job"].removeprefix("slurm:"),
            None if row["gpu_utilization_ratio"] is None else round(row["gpu_utilization_ratio"], 4),
            None if row["memory_used_bytes"] is None else row["memory_used_bytes"] // MIB,
        )
        for row in recording.holder_samples.to_pylist()
    ]


def held(recording: Recording) -> list[tuple[str, float, int, int]]:
    """Job, share, first and last minute of each interval."""
    return sorted(
        (
            str(each.allocation.holder.job).removeprefix("slurm:"),
            each.allocation.share,
            (each.from_ms - ORIGIN_MS) // MINUTE,
            ((each.to_ms or 0) - ORIGIN_MS) // MINUTE,
        )
        for each in recording.held
    )


@pytest.mark.parametrize("order", ["ann first", "bob first"])
def test_each_holder_s_row_is_its_own_and_the_gpu_has_their_sum(tmp_path: Path, order: str) -> None:
    rows = ["60,a,80,1024,ann\n60,a,0,2048,bob\n", "120,a,60,1024,ann\n120,a,10,2048,bob\n"]
    if order == "bob first":
        rows = ["".join(reversed(pair.splitlines(keepends=True))) for pair in rows]
    recording = recorded(tmp_path, "".join(rows), width_s=60)
    assert samples(recording) == [(1, 0.8, 3072), (2, 0.7, 3072)]
    assert sorted(own(recording)) == [
        (1, "ann", 0.8, 1024),
        (1, "bob", 0.0, 2048),
        (2, "ann", 0.6, 1024),
        (2, "bob", 0.1, 2048),
    ]
    assert held(recording) == [("ann", 0.5, 0, 2), ("bob", 0.5, 0, 2)]
    assert recording.refused.rows == 0


def test_a_row_that_names_nobody_is_the_gpu_s_own(tmp_path: Path) -> None:
    recording = recorded(tmp_path, "60,a,55,4096,\n60,a,50,1024,ann\n60,a,0,2048,bob\n", width_s=60)
    assert samples(recording) == [(1, 0.55, 4096)]
    assert sorted(own(recording)) == [(1, "ann", 0.5, 1024), (1, "bob", 0.0, 2048)]
    assert held(recording) == [("ann", 0.5, 0, 1), ("bob", 0.5, 0, 1)]


def test_what_is_repeated_for_each_holder_is_the_gpu_s_and_nobody_s_own(tmp_path: Path) -> None:
    repeated = "".join(f"{60 * n},a,80,1024,7\n{60 * n},a,80,1024,8\n" for n in range(1, 4))
    read_later = "240,a,81,1024,7\n240,a,80,1024,8\n"  # two reads of one GPU, a moment apart
    recording = recorded(tmp_path, repeated + read_later, width_s=60)
    assert samples(recording) == [(1, 0.8, 1024), (2, 0.8, 1024), (3, 0.8, 1024), (4, 0.81, 1024)]
    assert own(recording) == []
    assert held(recording) == [("7", 0.5, 0, 4), ("8", 0.5, 0, 4)]


def test_own_use_beside_repeated_memory(tmp_path: Path) -> None:
    recording = recorded(tmp_path, "60,a,80,1024,ann\n60,a,0,1024,bob\n", width_s=60)
    assert samples(recording) == [(1, 0.8, 1024)]
    assert sorted(own(recording)) == [(1, "ann", 0.8, None), (1, "bob", 0.0, None)]


def test_parts_that_are_more_than_the_whole_are_not_added(tmp_path: Path) -> None:
    recording = recorded(
        tmp_path, "60,a,80,60000,ann\n60,a,70,50000,bob\n", width_s=60, memory_total_gib=80
    )  # 150%, and 110,000 MiB of 81,920
    assert samples(recording) == [(1, 0.8, 60000)]


def test_a_holder_s_use_that_is_not_known_is_no_zero_beside_the_others(tmp_path: Path) -> None:
    """Of holders only some of whom are told, the others would seem to have done nothing."""
    rows = "60,a,80,1024,ann\n60,a,0,2048,bob\n120,a,80,1024,ann\n120,a,,2048,bob\n"
    recording = recorded(tmp_path, rows, width_s=60)
    assert samples(recording) == [(1, 0.8, 3072), (2, 0.8, 3072)]
    assert [row for row in sorted(own(recording)) if row[0] == 2] == [
        (2, "ann", None, 1024),
        (2, "bob", None, 2048),
    ]


def test_who_comes_and_goes_beside_another_holds_its_time_alone(tmp_path: Path) -> None:
    rows = (
        "60,a,80,1,ann\n"
        "120,a,80,1,ann\n120,a,5,2,bob\n"
        "180,a,80,1,ann\n180,a,5,2,bob\n"
        "240,a,5,2,bob\n"
        "300,a,0,0,\n"
        "360,a,80,1,ann\n"
    )
    recording = recorded(tmp_path, rows, width_s=60)
    assert held(recording) == [
        ("ann", 0.5, 1, 3),
        ("ann", 1.0, 0, 1),
        ("ann", 1.0, 5, 6),
        ("bob", 0.5, 1, 3),
        ("bob", 1.0, 3, 4),
    ]


def test_the_same_row_twice_for_one_holder_is_refused(tmp_path: Path) -> None:
    rows = "60,a,80,1024,ann\n60,a,0,2048,bob\n60,a,90,1024,ann\n"
    recording = recorded(tmp_path, rows, width_s=60)
    assert samples(recording) == [(1, 0.8, 3072)]
    assert recording.refused.rows == 1 and recording.refused.first[0].line == 4


def test_a_malformed_row_beside_others_takes_them_with_it(tmp_path: Path) -> None:
    """Without it the others would have all of the GPU."""
    rows = "60,a,80,1024,ann\n60,a,zero,2048,bob\n120,a,80,1024,ann\n120,a,0,2048,bob\n"
    recording = recorded(tmp_path, rows, width_s=60)
    assert samples(recording) == [(2, 0.8, 3072)]
    assert recording.refused.rows == 2
    assert "beside a malformed row of this GPU and time" in str(recording.refused)


def test_measures_that_are_never_shared_out_are_the_larger_of_the_rows(tmp_path: Path) -> None:
    sample = {
        "gpu_utilization_ratio": {"column": "util", "unit": "percent"},
        "power_mw": {"column": "mem", "unit": "W"},
    }
    recording = recorded(tmp_path, "60,a,80,300,ann\n60,a,0,302,bob\n", width_s=60, sample=sample)
    assert recording.samples["power_mw"].to_pylist() == [302_000]


def test_sm_active_of_each_is_added_as_utilization_is(tmp_path: Path) -> None:
    sample = {
        "gpu_utilization_ratio": {"column": "util", "unit": "percent"},
        "sm_active_ratio": {"column": "mem", "unit": "percent"},
    }
    recording = recorded(tmp_path, "60,a,60,40,ann\n60,a,30,12,bob\n", width_s=60, sample=sample)
    (row,) = recording.samples.to_pylist()
    assert row["sm_active_ratio"] == pytest.approx(0.52)
    assert (row["utilization_ratio"], row["rung"]) == (pytest.approx(0.52), Basis.SM_ACTIVE)


def test_histories_and_a_live_read_bring_what_each_did(tmp_path: Path) -> None:
    recording = recorded(tmp_path, "60,a,80,1024,ann\n60,a,0,2048,bob\n", width_s=60)
    assert sum(len(part.holder_samples) for part in histories(recording)) == 2
    live = ReplaySource(recording).read(ORIGIN_MS + MINUTE)
    assert isinstance(live, Reading) and {s.job for s in live.holder_samples} == {"slurm:ann", "slurm:bob"}

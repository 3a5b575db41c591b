"""``fallow simulate --from-store``: recorded jobs come back as they were held, the same each time."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from advisor.sim.traces.recorded import recorded_workload
from collector.arrow import HeldInterval
from service.cli import main
from service.client import connect
from tests.collector.store.store_parts import T0, at_path, held, history, sample
from tests.stores import open_store

HOUR_MS, MINUTE_MS = 3_600_000, 60_000
END = datetime.fromtimestamp(T0 / 1000, UTC)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """``old`` holds a whole GPU for 30 h, and still does; ``moved`` had one for an hour and then another."""
    folder = tmp_path_factory.mktemp("recorded")
    samples = [
        sample(number, at, 0.5, width_ms=MINUTE_MS)
        for number in range(3)
        for at in range(T0 - 8 * HOUR_MS, T0 + 1, MINUTE_MS)
    ]
    spans = ((0, "old", 30, None), (1, "moved", 5, 4), (2, "moved", 3, 2))
    with open_store(at_path(folder)) as store:
        store.write_history(history(samples, [interval(*span) for span in spans]))
    yield folder


def interval(gpu: int, name: str, since_h: int, until_h: int | None) -> HeldInterval:
    return HeldInterval(
        allocation=held(gpu, name),
        from_ms=T0 - since_h * HOUR_MS,
        to_ms=None if until_h is None else T0 - until_h * HOUR_MS,
    )


def simulate(folder: Path, *more: str) -> int:
    return main(
        ["simulate", "--data", str(folder), "--from-store", "--nodes", "1x4", "--policy", "fifo", *more]
    )


def test_whole_gpus_stay_whole_for_the_time_that_they_were_held_in_the_window(recorded: Path) -> None:
    with connect(recorded) as client:
        rows = client.rows("recorded_jobs", from_ts=END - timedelta(hours=6), to_ts=END)
    jobs = recorded_workload(rows).jobs
    assert [(job.name, job.gpus, job.share, job.work.steps / 3600) for job in jobs] == [
        ("slurm:old", 1, 1.0, 6.0),
        ("slurm:moved", 1, 1.0, 2.0),
    ]


def test_idle_times_that_are_not_played_are_told_with_their_hours(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    samples = [
        sample(0, at, 0.5 if at < T0 - 2 * HOUR_MS else 0.0, width_ms=MINUTE_MS)
        for at in range(T0 - 6 * HOUR_MS, T0 + 1, MINUTE_MS)
    ]
    with open_store(at_path(tmp_path)) as store:
        store.write_history(history(samples, [interval(0, "rests", 6, None)]))
    assert simulate(tmp_path) == 0
    assert "Idle times are not played" in (told := " ".join(capsys.readouterr().out.split()))
    assert "2.0 of the GPU-hours that these jobs held were idle or empty" in told
    assert simulate(tmp_path, "--json") == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert len(row["not_played"]) == 1


def test_the_same_window_gives_the_same_bytes(recorded: Path, capsys: pytest.CaptureFixture[str]) -> None:
    window = ("--since", (END - timedelta(hours=6)).isoformat(), "--until", END.isoformat(), "--json")
    assert simulate(recorded, *window) == 0
    first = capsys.readouterr().out
    assert simulate(recorded, *window) == 0
    assert capsys.readouterr().out == first
    (row,) = json.loads(first)
    assert (row["jobs"], row["gpu_hours"]["good"]) == (2, pytest.approx(8.0))
    assert sum(row["cut_off"].values()) == 2


@pytest.mark.parametrize("verb", ["simulate", "whatif"])
def test_nobody_holds_anything_after_the_newest_measurement(
    recorded: Path, verb: str, capsys: pytest.CaptureFixture[str]
) -> None:
    window = ["--since", (END - timedelta(hours=6)).isoformat(), "--until", "2090-01-01"]
    if verb == "simulate":
        assert simulate(recorded, *window, "--json") == 0
        (row,) = json.loads(capsys.readouterr().out)
        assert row["gpu_hours"]["good"] == pytest.approx(8.0)
    else:
        assert main(["whatif", "--data", str(recorded), *window]) == 0
        assert "2 jobs held 8.0 GPU-hours" in capsys.readouterr().out


@pytest.mark.parametrize("verb", ["simulate", "whatif"])
@pytest.mark.parametrize("window", [("2090-01-01", "2090-01-02"), ("1m", None)])
def test_a_window_without_measurements_is_said(
    recorded: Path, verb: str, window: tuple[str, str | None], capsys: pytest.CaptureFixture[str]
) -> None:
    since, until = window
    more = ("--since", since, *(("--until", until) if until else ()))
    first = ("--from-store", "--nodes", "1x4") if verb == "simulate" else ()
    assert main([verb, "--data", str(recorded), *first, *more]) != 0
    assert "less than two minutes were recorded" in capsys.readouterr().err


def test_a_window_without_jobs_and_jobs_that_were_cut_off_are_said(
    recorded: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = (END - timedelta(hours=50)).isoformat(), (END - timedelta(hours=40)).isoformat()
    assert simulate(recorded, "--since", before[0], "--until", before[1]) != 0
    assert "no job held a GPU" in capsys.readouterr().err
    assert simulate(recorded) == 0
    assert "still held GPUs at its end" in capsys.readouterr().out

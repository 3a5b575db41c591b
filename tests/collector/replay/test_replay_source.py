"""A recording is read in step with the clock it is given, at any speed."""

from pathlib import Path

from collector.model import (
    GpuSample,
    Unavailable,
)
from collector.reading import Reading
from collector.sources.replay.mapping import mapping_from
from collector.sources.replay.read import open_recording, open_replay
from collector.sources.replay.recording import Recording
from collector.sources.replay.source import ReplayClock, ReplaySource
from tests.collector.replay.hand_clock import HandClock

MINUTE_MS = 60_000


def recording(folder: Path, minutes: int = 60) -> Recording:
    path = folder / "log.csv"
    rows = (
        f"{1_772_409_600 + 60 * m},{gpu},{m},{'job-1' if m > 30 else ''}\n"
        for m in range(1, minutes + 1)
        for gpu in "ab"
    )
    path.write_text("t,gpu,util,job\n" + "".join(rows))
    given = {
        "time": {"column": "t", "unit": "s"},
        "gpu": "gpu",
        "sample": {"gpu_utilization_ratio": {"column": "util", "unit": "percent"}},
        "holder": {"job": "job"},
    }
    return open_recording(path, mapping_from(given, "test"))


def read_all(source: ReplaySource, clock: ReplayClock, tick_s: float) -> list[GpuSample]:
    samples: list[GpuSample] = []
    while not source.finished:
        clock.sleep(tick_s)
        outcome = source.read(clock.now_ms())
        assert isinstance(outcome, Reading)
        assert all(s.at_ms <= outcome.at_ms for s in outcome.samples)
        samples += outcome.samples
    return samples


def test_every_row_comes_once_at_any_tick_and_any_speed(tmp_path: Path) -> None:
    whole = recording(tmp_path)
    for tick_s, speed in ((10.0, None), (60.0, 1.0), (97.0, 30.0), (7200.0, None)):
        samples = read_all(ReplaySource(whole), ReplayClock(HandClock(), whole.from_ms, speed), tick_s)
        assert len(samples) == 120
        assert len({(s.uuid, s.at_ms) for s in samples}) == 120


def test_a_speed_makes_recorded_time_run_faster_than_the_clock_beneath(tmp_path: Path) -> None:
    real = HandClock()
    clock = ReplayClock(real, 1_000_000, speed=60.0)
    real.ms += 10_000
    assert clock.now_ms() == 1_000_000 + 600_000
    clock.sleep(60.0)
    assert real.ms == 11_000


def test_as_fast_as_it_goes_takes_no_real_time(tmp_path: Path) -> None:
    real = HandClock()
    clock = ReplayClock(real, 0)
    clock.sleep(3600.0)
    assert clock.now_ms() == 3_600_000 and real.ms == 0


def test_holders_are_those_of_the_recorded_moment(tmp_path: Path) -> None:
    whole = recording(tmp_path)
    source = ReplaySource(whole)
    early, late = source.read(whole.from_ms + 10 * MINUTE_MS), source.read(whole.from_ms + 45 * MINUTE_MS)
    assert isinstance(early, Reading) and early.allocations == ()
    assert isinstance(late, Reading) and late.allocations is not None
    assert {(a.uuid, a.holder.job) for a in late.allocations} == {("a", "pod:job-1"), ("b", "pod:job-1")}


def test_after_its_end_a_recording_is_unavailable_and_says_so(tmp_path: Path) -> None:
    whole = recording(tmp_path)
    source = ReplaySource(whole)
    source.read(whole.to_ms)
    outcome = source.read(whole.to_ms + 1)
    assert isinstance(outcome, Unavailable) and "has ended" in outcome.reason
    source.close()
    source.close()


def test_a_recording_opened_to_start_now_begins_now(tmp_path: Path) -> None:
    now_ms = 1_795_000_000_000
    recording(tmp_path)
    (tmp_path / "log.toml").write_text(
        'time = { column = "t", unit = "s" }\ngpu = "gpu"\n'
        '[sample]\ngpu_utilization_ratio = { column = "util", unit = "percent" }\n'
    )
    source = open_replay(tmp_path / "log.csv", starts_ms=now_ms)
    outcome = source.read(now_ms + 2 * MINUTE_MS)
    assert isinstance(outcome, Reading)
    assert [s.at_ms - now_ms for s in outcome.samples] == [MINUTE_MS, MINUTE_MS, 2 * MINUTE_MS, 2 * MINUTE_MS]

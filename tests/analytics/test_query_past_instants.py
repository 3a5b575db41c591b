"""At which moments of a past holds are judged, counted by hand."""

from pathlib import Path

from analytics.query import run
from collector.arrow import HeldInterval
from collector.model import GpuSample
from tests.collector.store.store_parts import T0, at_path, held, history, sample
from tests.stores import open_store

MINUTE_MS, HOUR_MS = 60_000, 3_600_000
ODD = -1.0
"""Kernels all the time, and no SM at work: counters that contradict each other."""
HOURS: dict[str, tuple[float | None, ...]] = {
    "rested": (0.9, 0.0, 0.9),
    "left": (0.9, 0.9, 0.0),
    "worked": (0.9, 0.9, 0.9),
    "lasts": (0.9, 0.0, 0.9, 0.9, 0.9, 0.9),
    "twice": (0.9, 0.0, 0.9, 0.0, 0.0, 0.9),
    "rests": (0.9, 0.9, 0.9, 0.9, 0.0, 0.0),
    "filled": (0.1, 0.1, 0.0, 0.0, 0.9),
    "dark": (0.9, None, 0.9, None, 0.9),
    "lost": (0.9, 0.9, None),
    "gone": (0.9, 0.0, 0.0, None),
    "doubted": (ODD, 0.9, 0.9),
    "odd": (0.9, ODD),
}
"""How busy each job was in each of its hours, ``None`` is silence; who had six holds its GPU still."""


def level(gpu: int, minute: int, busy: float) -> GpuSample:
    at_ms = T0 + (minute + 1) * MINUTE_MS
    if busy == ODD:
        return sample(gpu, at_ms, 0.0, width_ms=MINUTE_MS, gpu_utilization_ratio=1.0)
    return sample(gpu, at_ms, busy, width_ms=MINUTE_MS)


def test_a_hold_is_judged_at_its_end_and_after_each_rest_and_silence(tmp_path: Path) -> None:
    """And after its low use and its doubtful counters; not at the end of the records, where it goes on."""
    rows, intervals = [], []
    for gpu, (job, levels) in enumerate(HOURS.items()):
        over_ms = T0 + len(levels) * HOUR_MS
        intervals.append(HeldInterval(allocation=held(gpu, job), from_ms=T0, to_ms=over_ms))
        for minute in range(6 * 60):
            busy = levels[minute // 60] if minute < 60 * len(levels) else 0.0
            if busy is not None:
                rows.append(level(gpu, minute, busy))
    with open_store(at_path(tmp_path)) as store:
        store.write_history(history(rows, intervals))
        with store.reader() as reader:
            asked = {"from_ts": T0, "to_ts": T0 + 6 * HOUR_MS + 15 * MINUTE_MS}
            told = run(reader, "assess_past_instants", asked).to_pylist()
    hours = [
        (
            each["job"].removeprefix("slurm:"),
            each["why"],
            (each["over_ms"] - T0) / HOUR_MS,
            each["idle_ms"] / HOUR_MS,
        )
        for each in told
    ]
    assert sorted(hours) == [
        ("dark", "silent", 2.0, 0.0),
        ("dark", "silent", 4.0, 0.0),
        ("doubted", "doubt", 1.0, 0.0),
        ("filled", "idle", 4.0, 2.0),
        ("filled", "low", 2.0, 0.0),
        ("gone", "end", 4.0, 2.0),
        ("gone", "idle", 3.0, 2.0),
        ("lasts", "idle", 2.0, 1.0),
        ("left", "end", 3.0, 1.0),
        ("lost", "end", 3.0, 0.0),
        ("odd", "end", 2.0, 0.0),
        ("rested", "idle", 2.0, 1.0),
        ("twice", "idle", 2.0, 1.0),
        ("twice", "idle", 5.0, 2.0),
    ]

"""At which moments of a past holds are judged, counted by hand."""

from pathlib import Path

from analytics.query import run
from collector.arrow import HeldInterval
from tests.collector.store.store_parts import T0, at_path, held, history, sample
from tests.stores import open_store

MINUTE_MS, HOUR_MS = 60_000, 3_600_000
HOURS = {
    "rested": (0.9, 0.0, 0.9),
    "left": (0.9, 0.9, 0.0),
    "worked": (0.9, 0.9, 0.9),
    "lasts": (0.9, 0.0, 0.9, 0.9),
}
"""How busy each job was in each of its hours; the last one holds its GPU still."""


def test_a_hold_is_judged_at_its_end_and_after_its_longest_rest(tmp_path: Path) -> None:
    rows, intervals = [], []
    for gpu, (job, levels) in enumerate(HOURS.items()):
        over_ms = T0 + len(levels) * HOUR_MS
        intervals.append(HeldInterval(allocation=held(gpu, job), from_ms=T0, to_ms=over_ms))
        for minute in range(4 * 60):
            busy = levels[minute // 60] if minute < 60 * len(levels) else 0.0
            rows.append(sample(gpu, T0 + (minute + 1) * MINUTE_MS, busy, width_ms=MINUTE_MS))
    with open_store(at_path(tmp_path)) as store:
        store.write_history(history(rows, intervals))
        with store.reader() as reader:
            asked = {"from_ts": T0, "to_ts": T0 + 4 * HOUR_MS}
            told = run(reader, "assess_past_instants", asked).to_pylist()
    hours = {
        (each["job"], each["why"], (each["at_ms"] - T0) / HOUR_MS, each["idle_ms"] / HOUR_MS) for each in told
    }
    assert hours == {
        ("slurm:rested", "idle", 2.0, 1.0),
        ("slurm:left", "end", 3.0, 1.0),
        ("slurm:lasts", "idle", 2.0, 1.0),
    }

"""What a holder used while it was active is of the GPUs that were busy then."""

from pathlib import Path

import pytest

from analytics.query import run
from collector.arrow import HeldInterval
from tests.collector.store.store_parts import T0, at_path, held, history, sample
from tests.stores import open_store

STEP_MS = 30_000
STEPS = 240


def test_gpus_that_do_nothing_do_not_lower_what_was_used_while_active(tmp_path: Path) -> None:
    # By hand: one of four GPUs at 0.8 for two hours; the mean over all four would be 0.2.
    levels = (0.8, 0.0, 0.0, 0.0)
    rows = [
        sample(number, T0 + n * STEP_MS, level, width_ms=STEP_MS)
        for n in range(1, STEPS + 1)
        for number, level in enumerate(levels)
    ]
    past = [HeldInterval(allocation=held(n, "one-job"), from_ms=T0, to_ms=None) for n in range(4)]
    with open_store(at_path(tmp_path)) as store:
        store.write_history(history(rows, past))
        with store.reader() as connection:
            (row,) = run(connection, "activity", {"from_ts": T0, "to_ts": T0 + STEPS * STEP_MS}).to_pylist()
    assert row["utilization_ratio"] == pytest.approx(0.8, abs=0.01)
    assert row["held_gpu_minutes"] >= 4 * 119


def test_time_whose_counters_contradict_each_other_is_told_apart_from_unmeasured_time(tmp_path: Path) -> None:
    # Two hours: half an hour at work, an hour at 95% without a process, half an hour that nobody measured.
    rows = [
        sample(0, T0 + n * STEP_MS, 0.95, width_ms=STEP_MS, process_count=int(n <= 60))
        for n in range(1, STEPS + 10)
        if n <= 180 or n > STEPS
    ]
    past = [HeldInterval(allocation=held(0, "one"), from_ms=T0, to_ms=None)]
    with open_store(at_path(tmp_path)) as store:
        store.write_history(history(rows, past))
        with store.reader() as connection:
            (row,) = run(connection, "activity", {"from_ts": T0, "to_ts": T0 + STEPS * STEP_MS}).to_pylist()
    minutes = {name: row[f"{name}_gpu_minutes"] for name in ("held", "measured", "suspect")}
    assert minutes == {"held": 120, "measured": 30.0, "suspect": 60.0}

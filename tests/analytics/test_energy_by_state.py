"""The part of a state's hours in which energy was measured is that state's own."""

from pathlib import Path

import pytest

from analytics.query import run
from collector.arrow import HeldInterval
from tests.collector.store.store_parts import T0, at_path, held, history, sample, tick
from tests.stores import open_store

MINUTE_MS = 60_000


def test_what_was_not_measured_in_one_state_is_measured_in_the_others(tmp_path: Path) -> None:
    """Thirty minutes at work at 300 W, ten idle without power, and nothing at all for twenty more."""
    work = [sample(0, T0 + n * MINUTE_MS, 0.6, width_ms=MINUTE_MS, power_mw=300_000) for n in range(1, 31)]
    rest = [sample(0, T0 + n * MINUTE_MS, 0.0, width_ms=MINUTE_MS, power_mw=None) for n in range(31, 41)]
    hold = HeldInterval(allocation=held(0, "a"), from_ms=T0, to_ms=None)
    with open_store(at_path(tmp_path)) as store:
        store.write_history(history([*work, *rest], [hold]))
        later_ms = T0 + 62 * MINUTE_MS
        store.write_tick(tick(later_ms, [sample(0, later_ms)], [held(0, "a")]))
        with store.reader() as reader:
            window = {"from_ts": T0, "to_ts": T0 + 60 * MINUTE_MS}
            rows = {row["state"]: row for row in run(reader, "ledger_by_state", window).to_pylist()}
    hours = {state: row["gpu_hours"] for state, row in rows.items() if row["gpu_hours"]}
    assert hours == pytest.approx({"good": 0.5, "held-idle": 1 / 6, "unknown": 1 / 3})
    known = {state: row["energy_known_ratio"] for state, row in rows.items() if row["gpu_hours"]}
    assert known == pytest.approx({"good": 1.0, "held-idle": 0.0, "unknown": 0.0})
    assert rows["good"]["energy_kwh"] == pytest.approx(0.15) and rows["held-idle"]["energy_kwh"] is None
    assert rows["free"]["energy_known_ratio"] is None

"""A silence of more than a day begins with the minute in which the work ended, and not with the next hour."""

from pathlib import Path

import pytest

from analytics.query import run
from collector.arrow import HeldInterval
from collector.model import GpuSample
from tests.collector.store.store_parts import T0, held, history, sample
from tests.stores import open_store

MINUTE_MS = 60_000
WORKED = 3 * 60 + 20
"""Busy from 0:00 to 3:20, then nothing."""
LASTS = 44 * 60
"""Until 20:00 of the next day: idle for 40 h 40 min, 2,440 minutes."""


def whole(gpu: int, worked: int) -> list[GpuSample]:
    return [
        sample(gpu, T0 + minute * MINUTE_MS, 0.6 if minute <= worked else 0.0, width_ms=MINUTE_MS)
        for minute in range(1, LASTS + 1)
    ]


@pytest.mark.parametrize(
    ("holders", "worked", "idle_minutes"),
    [
        ({"a": 1.0}, WORKED, 2_440),
        ({"a": 1.0}, 3 * 60, 2_460),  # to the hour
        ({"a": 0.5, "b": 0.5}, WORKED, 1_220),  # half of the GPU's time each
    ],
)
def test_a_long_silence_is_told_to_the_minute(
    tmp_path: Path, holders: dict[str, float], worked: int, idle_minutes: int
) -> None:
    claims = [
        HeldInterval(allocation=held(0, name, share), from_ms=T0, to_ms=None)
        for name, share in holders.items()
    ]
    as_of = T0 + LASTS * MINUTE_MS
    with open_store(tmp_path / "fallow.duckdb") as store:
        store.write_history(history(whole(0, worked), claims))
        with store.reader() as reader:
            asked = {"as_of": as_of, "use_from": T0, "gpu_ids": [1]}
            rows = run(reader, "assess_use", asked).to_pylist()
    assert len(rows) == len(holders)
    for row in rows:
        assert row["busy_until_ms"] == T0 + worked * MINUTE_MS
        # the two newest minutes may not be rolled up yet
        assert idle_minutes - 2 <= row["idle_gpu_hours"] * 60 <= idle_minutes

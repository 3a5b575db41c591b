"""A pod of under 1 GiB on a GPU of which dcgm-exporter tells GPU utilization: nobody counts its processes.

It is at work for five minutes and rests for two, six hours long: seven minutes divide six hours 51 times, and
three minutes are left. So 51 x 10 + 6 samples of 30 s are busy, 258 min, and 102 min are not. Asked is up
to the last minute, a busy one, which is not complete before the next sample comes.
"""

from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from analytics.assess import assess
from analytics.query import run
from analytics.thresholds import Thresholds
from collector.arrow import HeldInterval, History
from tests.collector.store.store_parts import GIB, T0, at_path, gpu, held, uuid
from tests.stores import open_store

STEP_MS, SAMPLES, MINUTE_MS = 30_000, 720, 60_000
QUIET_AT = (416, 699)
"""Samples at the beginning of a rest in hour four, and at the end of one in hour six."""


def test_a_small_pod_that_rests_for_two_minutes_is_neither_idle_nor_gone(tmp_path: Path) -> None:
    busy = [0.6 if number * 30 % 420 < 300 else 0.0 for number in range(SAMPLES)]
    assert not any(busy[number] for number in QUIET_AT)
    columns = {
        "uuid": [uuid(0)] * SAMPLES,
        "at_ms": [T0 + (number + 1) * STEP_MS for number in range(SAMPLES)],
        "width_ms": pa.array([STEP_MS] * SAMPLES, pa.int32()),
        "rung": pa.array([1] * SAMPLES, pa.uint8()),
        "utilization_ratio": pa.array(busy, pa.float32()),
        "gpu_utilization_ratio": pa.array(busy, pa.float32()),
        "memory_used_bytes": pa.array([700 << 20] * SAMPLES, pa.int64()),
        "memory_controller_ratio": pa.array([each / 3 for each in busy], pa.float32()),
    }
    claim = HeldInterval(allocation=held(0, "small"), from_ms=T0, to_ms=None)
    board = replace(gpu(0, model="Tesla T4"), memory_total_bytes=15 * GIB)
    with open_store(at_path(tmp_path)) as store:
        store.write_history(History(source="dcgm", gpus=(board,), samples=pa.table(columns), held=(claim,)))
        with store.reader() as reader:
            for number in QUIET_AT:
                at_ms = T0 + (number + 1) * STEP_MS
                assert assess(reader, at_ms, Thresholds(), STEP_MS).findings == ()
            span = {"from_ts": T0, "to_ts": T0 + SAMPLES * STEP_MS - MINUTE_MS}
            (row,) = run(reader, "ledger_by_gpu", span).to_pylist()
    assert round(row["good_gpu_hours"] * 60) == 257
    assert round(row["held_idle_gpu_hours"] * 60) == 102
    assert not row["allocated_empty_gpu_hours"] and not row["free_gpu_hours"]

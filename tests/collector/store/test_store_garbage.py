"""What a driver or an exporter says that cannot be: it costs that value, and nothing else."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from collector.model import (
    ProcessKey,
    ProcessSample,
)
from collector.reading import Reading
from tests.collector.store.store_parts import T0, TICK_MS, ask, at_path, gpu, sample, tick, uuid
from tests.stores import open_store

GARBAGE: tuple[tuple[str, str, Any], ...] = (
    ("sm_clock_mhz", "sm_clock_mhz", 4_294_967_295),
    ("temperature_c", "temperature_c", 99_999),
    ("power_mw", "power_mw", 4_294_967_295_000),
    ("xid", "xid", 4_294_967_295),
    ("process_count", "process_count", 40_000),
    ("memory_used_bytes", "memory_used_bytes", 2**64 - 1),
    ("memory_used_bytes", "memory_used_bytes", 2**63 - 1),
    ("energy_mj", "energy_mj", 2**62),
    ("ecc_corrected", "ecc_corrected", 2**64 - 1),
    ("throttle_reasons", "throttle_reasons", 2**63),
    ("utilization_ratio", "utilization_e4", float("nan")),
    ("utilization_ratio", "utilization_e4", float("inf")),
    ("memory_controller_ratio", "memory_controller_e4", float("-inf")),
    ("sm_active_ratio", "sm_active_e4", -0.05),
)


def test_a_value_that_no_column_holds_is_not_measured_and_costs_no_tick(tmp_path: Path) -> None:
    """Each on a GPU of its own, and one GPU whose values are all possible."""
    said = [sample(number, T0, **{name: value}) for number, (name, _, value) in enumerate(GARBAGE)]
    columns = sorted({column for _, column, _ in GARBAGE})
    with open_store(at_path(tmp_path)) as store:
        store.write_tick(tick(T0, [*said, sample(len(said), T0)]))
        rows = ask(store, f"SELECT uuid, {', '.join(columns)} FROM samples JOIN gpus USING (gpu_id)")
    found = {name: dict(zip(columns, values, strict=True)) for name, *values in rows}
    assert set(found) == {uuid(number) for number in range(len(said) + 1)}
    unmeasured = {column for column, value in found[uuid(len(said))].items() if value is None}
    for number, (_, column, value) in enumerate(GARBAGE):
        missing = {each for each, kept in found[uuid(number)].items() if kept is None}
        assert missing == unmeasured | {column}, (column, value)


def test_a_gpu_with_an_impossible_description_is_written_down_without_it(tmp_path: Path) -> None:
    with open_store(at_path(tmp_path)) as store:
        for n, limit_mw in enumerate((4_294_967_295_000, 700_000, 2**70)):
            at = T0 + n * TICK_MS
            store.write_tick(tick(at, [sample(0, at)], gpus=[gpu(0, power_limit_mw=limit_mw)]))
        assert ask(store, "SELECT power_limit_mw FROM gpus") == [(700_000,)]


def test_a_process_with_impossible_memory_is_there_all_the_same(tmp_path: Path) -> None:
    key = ProcessKey(node=gpu(0).node, pid=7, started_ms=T0)
    seen = ProcessSample(uuid=uuid(0), key=key, at_ms=T0, width_ms=TICK_MS, memory_used_bytes=2**64 - 1)
    made = tick(T0, [sample(0, T0)])
    (reading,) = made.outcomes
    assert isinstance(reading, Reading)
    with open_store(at_path(tmp_path)) as store:
        store.write_tick(replace(made, outcomes=(replace(reading, process_samples=(seen,)),)))
        assert ask(store, "SELECT memory_used_bytes FROM process_samples") == [(None,)]


def test_counters_full_of_garbage_stop_no_roll_up(tmp_path: Path) -> None:
    with open_store(at_path(tmp_path)) as store:
        for n in range(1, 14):
            at, garbage = T0 + n * TICK_MS, (2**63 - 1) * (n % 2)
            store.write_tick(
                tick(at, [sample(0, at, memory_used_bytes=garbage, energy_mj=garbage), sample(1, at)])
            )
        assert ask(store, "SELECT gpu_id, sum(good_ms) FROM rollup_1m GROUP BY 1 ORDER BY 1") == [
            (1, 60_000),
            (2, 60_000),
        ]


@pytest.mark.parametrize("width_ms", [0, -5])
def test_a_sample_that_covers_no_time_stops_no_roll_up(tmp_path: Path, width_ms: int) -> None:
    with open_store(at_path(tmp_path)) as store:
        for n in range(1, 14):
            at = T0 + n * TICK_MS
            store.write_tick(tick(at, [sample(0, at, width_ms=width_ms), sample(1, at)]))
        assert ask(store, "SELECT DISTINCT unknown_ms, good_ms FROM rollup_1m WHERE gpu_id = 2") == [
            (0, 60_000)
        ]

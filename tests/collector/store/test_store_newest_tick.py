"""GPUs of which nothing new comes are unknown now, also when none answers. Statement: set_newest_tick."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from analytics.query import run
from collector.model import Unavailable
from collector.reading import Tick
from collector.store.database import Store
from service.wording import is_silent
from tests.collector.store.store_parts import T0, TICK_MS, at_path, gpu, history, older_file, sample, tick
from tests.stores import open_store


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(at_path(tmp_path)) as made:
        yield made


def silent(at_ms: int, source: str = "test") -> Tick:
    """A tick at which the driver did not answer."""
    deaf = Unavailable(source=source, at_ms=at_ms, reason="no answer within 8 s")
    return Tick(at_ms=at_ms, width_ms=TICK_MS, outcomes=(deaf,))


def unknown(store: Store) -> tuple[float, set[str]]:
    """How many GPUs are unknown, and what states there are."""
    with store.reader() as reader:
        (cluster,) = run(reader, "cluster_now", {}).to_pylist()
        states = {row["state"] for row in run(reader, "gpus_now", {}).to_pylist()}
    return cluster["unknown_gpus"], states


def test_gpus_of_a_driver_that_does_not_answer_are_unknown_after_three_ticks(store: Store) -> None:
    store.write_tick(tick(T0, [sample(n, T0) for n in range(3)]))
    assert unknown(store)[0] == 0
    for n in range(1, 4):
        store.write_tick(silent(T0 + n * TICK_MS))
    assert unknown(store)[0] == 0
    store.write_tick(silent(T0 + 4 * TICK_MS))
    assert unknown(store) == (3, {"unknown"})
    later = T0 + 5 * TICK_MS
    store.write_tick(tick(later, [sample(n, later) for n in range(3)]))
    assert unknown(store)[0] == 0


def test_a_clock_that_was_set_back_makes_nobody_unknown(store: Store) -> None:
    store.write_tick(tick(T0, [sample(0, T0)]))
    before = T0 - 3_600_000
    store.write_tick(tick(before, [sample(0, before)]))
    assert unknown(store)[0] == 0


def test_an_imported_past_says_nothing_of_now(store: Store) -> None:
    store.write_tick(tick(T0, [sample(0, T0)]))
    store.write_history(history([sample(0, T0 - 3_600_000)], source="prometheus"))
    assert unknown(store)[0] == 0
    store.write_tick(silent(T0 + 9 * TICK_MS))
    store.write_history(history([sample(1, T0 - 7_200_000)], source="prometheus"))
    assert unknown(store)[0] == 2


@pytest.mark.parametrize("width_ms", [7_000, 10_000, 30_000])
def test_a_recording_is_measured_to_its_end(store: Store, width_ms: int) -> None:
    """The tick that finds it ended comes a minute after its last row: nobody is silent since."""
    store.write_tick(tick(T0, [replace(sample(0, T0, 0.5), width_ms=width_ms)]))
    ended = Unavailable(source="replay", at_ms=T0 + 60_000, reason="samples.csv has ended", is_over=True)
    store.write_tick(Tick(at_ms=T0 + 60_000, width_ms=TICK_MS, outcomes=(ended,)))
    assert unknown(store) == (0, {"good"})


def test_a_recording_that_ended_beside_a_live_source_is_not_how_it_is_now(store: Store) -> None:
    store.write_tick(tick(T0, [sample(0, T0), sample(1, T0)]))
    for n in range(1, 10):
        at_ms = T0 + n * TICK_MS
        live = tick(at_ms, [sample(1, at_ms)])
        ended = Unavailable(source="replay", at_ms=at_ms, reason="it has ended", is_over=True)
        store.write_tick(replace(live, outcomes=(*live.outcomes, ended)))
    assert unknown(store)[0] == 1


def test_a_store_of_before_knows_its_newest_tick(tmp_path: Path) -> None:
    with older_file(at_path(tmp_path), 36) as older:
        older.execute(
            "INSERT INTO ticks VALUES (make_timestamp_ms(?), 'nvml', 1.0, 0, 'no answer')",
            [T0 + 99 * TICK_MS],
        )
        older.execute(
            "INSERT INTO gpus (uuid, node, source, installed_from) "
            "VALUES (?, 'n0', 'nvml', now()::TIMESTAMP)",
            [gpu(0).uuid],
        )
    with open_store(at_path(tmp_path)) as store:
        store.write_history(history([sample(0, T0)]))
        assert unknown(store)[0] == 1


def test_a_silent_gpu_is_unknown_since_it_was_last_seen(store: Store) -> None:
    # Both work for three minutes; then GPU 1 falls silent for four, while GPU 0 is idle.
    for n in range(42):
        at_ms = T0 + n * TICK_MS
        seen = (0, 1) if n < 18 else (0,)
        store.write_tick(tick(at_ms, [sample(number, at_ms, 0.8 if n < 18 else 0.0) for number in seen]))
    with store.reader() as reader:
        alive, dumb = run(reader, "gpus_now", {}).to_pylist()
    last_seen = datetime.fromtimestamp((T0 + 17 * TICK_MS) / 1000, UTC).replace(tzinfo=None)
    assert (dumb["state"], dumb["state_since"], dumb["as_of"]) == ("unknown", last_seen, last_seen)
    assert not dumb["state_since_is_bound"]
    values = ("utilization_ratio", "rung", "memory_used_bytes", "power_w", "process_count")
    assert {dumb[name] for name in values} == {None}, "a stale value is shown as measured"
    assert is_silent(dumb) and not is_silent(alive)
    assert alive["state_since"] is not None and alive["rung"] is not None

"""``latest`` is the newest sample of each GPU, however they come, leave and are sealed."""

from pathlib import Path
from random import Random

import numpy as np
import pytest

from collector.reading import Reading, Tick
from collector.store.database import Store
from collector.store.latest import UNKNOWN_MS, Newest, moves
from collector.store.retention import Retention
from tests.collector.store.store_parts import (
    T0,
    TICK_MS,
    ask,
    at_path,
    gpu,
    history,
    older_file,
    sample,
    tick,
    uuid,
)
from tests.stores import open_store

HOUR_MS, DAY_MS = 3_600_000, 86_400_000
LATEST = "SELECT * FROM latest ORDER BY gpu_id"
NEWEST = """
SELECT ts, gpu_id, width_ms, rung, utilization_e4, gpu_utilization_e4, graphics_active_e4, sm_active_e4,
    memory_used_bytes, power_mw, temperature_c, process_count, flags,
    greatest(encoder_e4, decoder_e4, jpeg_e4, ofa_e4) AS engines_e4,
    greatest(memory_controller_e4, dram_active_e4) AS traffic_e4
FROM samples_all QUALIFY row_number() OVER (PARTITION BY gpu_id ORDER BY ts DESC) = 1 ORDER BY gpu_id
"""
GPUS = 12


def newest(ends: list[int], times: set[int], apart: tuple[int, ...] = ()) -> Newest:
    flags = np.zeros(len(ends), dtype=np.bool_)
    flags[list(apart)] = True
    return Newest(ends_ms=np.array(ends, dtype=np.int64), apart=flags, times=frozenset(times))


def test_where_all_move_nothing_is_copied() -> None:
    made = moves(newest([UNKNOWN_MS, 10, 10], {10}), np.array([UNKNOWN_MS, 20, 20]))
    assert (list(made.behind), list(made.back), made.times) == ([], [], {20})


def test_who_stays_behind_is_set_apart_once_and_comes_back() -> None:
    made = moves(newest([10, 10, 10], {10}), np.array([20, 10, 20, 20]))
    assert (list(made.behind), list(made.back), made.times) == ([1], [], {20})
    made = moves(newest([20, 10, 20, 20], {20}, apart=(1,)), np.array([30, 10, 30, 30]))
    assert (list(made.behind), list(made.back), made.times) == ([], [], {30})
    made = moves(newest([30, 10, 30, 30], {30}, apart=(1,)), np.array([40, 40, 40, 40]))
    assert (list(made.behind), list(made.back), made.times) == ([], [1], {40})


def test_a_slower_source_keeps_its_own_time() -> None:
    made = moves(newest([10, 10, 5, 5], {10, 5}), np.array([20, 20, 5, 5]))
    assert (list(made.behind), made.times) == ([], {20, 5})


@pytest.mark.slow
@pytest.mark.parametrize("seed", (0, 4, 5))
def test_latest_is_the_newest_sample_of_each_gpu(tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    store = open_store(at_path(tmp_path))
    at_ms = T0
    try:
        for _ in range(45):
            at_ms += random.choice((TICK_MS, TICK_MS, TICK_MS, 7_000, DAY_MS // 3))
            store = _done(random, store, at_ms, random.randrange(12))
            assert ask(store, LATEST) == ask(store, NEWEST)
            assert len(ask(store, "SELECT * FROM latest_apart")) <= 4 * GPUS, "copies are cleared away"
    finally:
        store.close()


def test_what_is_let_go_of_is_still_the_newest(tmp_path: Path) -> None:
    with open_store(at_path(tmp_path)) as store:
        store.write_tick(tick(T0, [sample(0, T0, 0.25), sample(1, T0)]))
        store.write_tick(tick(T0 + DAY_MS * 9, [sample(1, T0 + DAY_MS * 9)]))
        store.seal_days(T0 + DAY_MS * 3)
        before = ask(store, LATEST)
        dropped = store.apply_retention(Retention(samples_days=1, minutes_days=2), T0 + DAY_MS * 9)
        assert dropped.files and len(before) == 2 and ask(store, LATEST) == before
        store.apply_retention(Retention(samples_days=1, minutes_days=2), T0 + DAY_MS * 19)
        assert ask(store, "SELECT count(*) FROM samples_all") == [(0,)] and ask(store, LATEST) == before
    with open_store(at_path(tmp_path)) as store:
        assert ask(store, LATEST) == before


@pytest.mark.parametrize("restarted", (False, True))
def test_a_clock_that_was_set_back_leaves_no_future_behind(tmp_path: Path, restarted: bool) -> None:
    """A machine that booted an hour ahead: what it measured then is not now, nor is it stored twice."""
    ahead_ms, store = T0 + HOUR_MS, open_store(at_path(tmp_path))
    try:
        for at in range(ahead_ms, ahead_ms + 4 * TICK_MS, TICK_MS):
            store.write_tick(tick(at, [sample(0, at, 0.9), sample(1, at, 0.9)]))
        for at in range(T0, T0 + 4 * TICK_MS, TICK_MS):
            store.write_tick(tick(at, [sample(0, at, 0.1)]))
            if restarted:
                store.close()
                store = open_store(at_path(tmp_path))
            assert ask(store, "SELECT gpu_id, epoch_ms(ts), utilization_e4 FROM latest") == [(1, at, 1000)]
        store.write_tick(tick(ahead_ms, [sample(0, ahead_ms, 0.1)]))
        assert ask(store, "SELECT count(*) FROM samples WHERE gpu_id = 1") == [(8,)]
        after_ms = ahead_ms + 9 * TICK_MS
        store.write_tick(tick(after_ms, [sample(0, after_ms, 0.2), sample(1, after_ms, 0.3)]))
        assert ask(store, LATEST) == ask(store, NEWEST)
    finally:
        store.close()


def test_what_an_older_file_had_written_twice_is_still_there(tmp_path: Path) -> None:
    with older_file(at_path(tmp_path), 32) as older:
        older.execute(
            "INSERT INTO gpus (uuid, node, source, installed_from) VALUES (?, 'n', 's', now())", [uuid(0)]
        )
        older.execute(
            "INSERT INTO latest (ts, gpu_id, width_ms, rung) VALUES (epoch_ms(?), 1, 10000, 3)", [T0]
        )
    with open_store(at_path(tmp_path)) as store:
        assert ask(store, "SELECT gpu_id, epoch_ms(ts) FROM latest") == [(1, T0)]
        store.write_tick(tick(T0 + TICK_MS, [sample(0, T0 + TICK_MS), sample(1, T0 + TICK_MS)]))
        assert ask(store, LATEST) == ask(store, NEWEST)
        assert ask(store, "SELECT count(*) FROM latest_apart") == [(0,)]


def _done(random: Random, store: Store, at_ms: int, what: int) -> Store:
    """One thing that happens to a store."""
    some = random.sample(range(GPUS), random.randrange(1, GPUS))
    match what:
        case 0:  # of the past, of a time that a newest sample has, or later than all
            ends = [at_ms - random.choice((TICK_MS, 3 * TICK_MS, DAY_MS, 0)) for _ in some]
            store.write_history(
                history(sample(n, end, random.random()) for n, end in zip(some, ends, strict=True))
            )
        case 1:
            store.seal_days(at_ms)
        case 2:
            path = store.path
            store.close()
            return open_store(path)
        case 3:  # late, and two of one GPU in one reading
            rows = [sample(n, at_ms - back * TICK_MS, random.random()) for n in some for back in (1, 0)]
            store.write_tick(tick(at_ms, rows))
        case 4 | 5:  # two sources, one of them with times of its own
            store.write_tick(_two(random, at_ms))
        case _:
            few = some if what < 8 else range(GPUS)
            store.write_tick(tick(at_ms, [sample(n, at_ms, random.random()) for n in few]))
    return store


def _two(random: Random, at_ms: int) -> Tick:
    """A tick of two sources; the samples of the second ended a while ago, each at its own time."""
    parts = ((range(6), 0), (range(6, GPUS), random.choice((2_000, 5_000))))
    outcomes = tuple(
        Reading(
            source=f"source-{numbers.start}",
            at_ms=at_ms,
            gpus=tuple(gpu(n) for n in numbers),
            samples=tuple(sample(n, at_ms - ago * (1 + n % 2), random.random()) for n in numbers),
            duration_ms=1.0,
        )
        for numbers, ago in parts
    )
    return Tick(at_ms=at_ms, width_ms=TICK_MS, outcomes=outcomes, allocations=())

"""Which minutes of an hour had work: what the minutes say, and nothing where they say it in part."""

import random
from collections import Counter
from pathlib import Path

import pytest

from collector.arrow import HeldInterval
from collector.model import GpuSample
from collector.store.database import Store
from collector.store.retention import Retention
from tests.collector.store.store_parts import T0, ask, at_path, held, history, sample, tick
from tests.stores import open_store

MINUTE_MS = 60_000
HOUR_MS = 3_600_000
BIN_MS = 30_000
HOURS = 5
WORKED = "SELECT epoch_ms(ts), gpu_id, holder_id, worked, known FROM worked_minutes ORDER BY ALL"
MINUTES = """
    SELECT epoch_ms(ts), gpu_id, holder_id, low_saturation_ms + moderate_ms + good_ms,
        free_ms + allocated_empty_ms + held_idle_ms + low_saturation_ms + moderate_ms + good_ms,
        suspect_ms + unknown_ms
    FROM rollup_1m
"""
CLAIMS = (("a", 0, 0.2, 3.4), ("b", 0, 3.4, 5.0), ("c", 1, 0.0, 5.0), ("d", 1, 1.5, 2.5), ("e", 2, 0.0, 5.0))


def samples(seed: int) -> list[GpuSample]:
    """Work and none; the second GPU misses whole minutes, the third one half a minute at 2:10."""
    order = random.Random(seed)
    found = []
    for number in range(3):
        busy = 0.0
        for at in range(T0 + BIN_MS, T0 + HOURS * HOUR_MS + 1, BIN_MS):
            if order.random() < 0.02:
                busy = order.choice((0.0, 0.1, 0.9))
            minute = (at - 1 - T0) // MINUTE_MS
            if (number == 1 and minute in (70, 71)) or (number == 2 and at == T0 + 130 * MINUTE_MS + BIN_MS):
                continue
            found.append(sample(number, at, busy, width_ms=BIN_MS))
    return found


def holds() -> list[HeldInterval]:
    return [
        HeldInterval(
            allocation=held(number, name), from_ms=T0 + round(a * HOUR_MS), to_ms=T0 + round(b * HOUR_MS)
        )
        for name, number, a, b in CLAIMS
    ]


def closed(store: Store) -> None:
    """A tick late enough for the last hour to be rolled up."""
    at = T0 + HOURS * HOUR_MS + 3 * MINUTE_MS
    store.write_tick(tick(at, [sample(9, at)], [held(9, "z")]))


def said_by_minutes(store: Store) -> dict[tuple[int, int, int], tuple[int, int]]:
    """The same from ``rollup_1m``, by (hour, GPU, holder); without hours that have a minute known in part."""
    found: dict[tuple[int, int, int], tuple[int, int]] = {}
    partly = set()
    total_ms: Counter[tuple[int, int]] = Counter()
    for ts_ms, gpu_id, holder_id, work_ms, known_ms, unclear_ms in ask(store, MINUTES):
        key = (ts_ms // HOUR_MS * HOUR_MS, gpu_id, holder_id)
        total_ms[ts_ms, gpu_id] += known_ms + unclear_ms
        bit = 1 << (ts_ms - key[0]) // MINUTE_MS
        worked, known = found.get(key, (0, 0))
        found[key] = (worked | (bit if work_ms else 0), known | (bit if known_ms else 0))
        if known_ms and unclear_ms:
            partly.add(key)
    ragged = {
        (ts_ms // HOUR_MS * HOUR_MS, gpu_id) for (ts_ms, gpu_id), ms in total_ms.items() if ms != MINUTE_MS
    }
    return {
        key: bits
        for key, bits in found.items()
        if key not in partly
        and key[:2] not in ragged
        and key[0] < T0 + HOURS * HOUR_MS
        and key[2] is not None
    }


def told(store: Store) -> dict[tuple[int, int, int], tuple[int, int]]:
    return {row[:3]: row[3:] for row in ask(store, WORKED)}


@pytest.mark.parametrize("seed", range(3))
def test_they_are_what_the_minutes_say(tmp_path: Path, seed: int) -> None:
    with open_store(at_path(tmp_path)) as store:
        store.write_history(history(samples(seed), holds()))
        closed(store)
        found = told(store)
        assert found == said_by_minutes(store)
    assert len(found) > 10
    assert {0 < worked < known for worked, known in found.values()} == {True, False}


def test_an_hour_with_a_minute_known_in_part_has_none(tmp_path: Path) -> None:
    with open_store(at_path(tmp_path)) as store:
        store.write_history(history(samples(0), holds()))
        closed(store)
        third = ask(store, "SELECT gpu_id FROM gpus WHERE uuid LIKE '%2'")[0][0]
        hours = sorted((ts - T0) // HOUR_MS for ts, gpu_id, _ in told(store) if gpu_id == third)
    assert hours == [0, 1, 3, 4]


def test_minutes_that_nobody_measured_are_not_known(tmp_path: Path) -> None:
    with open_store(at_path(tmp_path)) as store:
        store.write_history(history(samples(0), holds()))
        closed(store)
        second = ask(store, "SELECT gpu_id FROM gpus WHERE uuid LIKE '%1'")[0][0]
        bits = [known for (ts, gpu_id, _), (_, known) in told(store).items() if gpu_id == second]
    all_but_two = (1 << 60) - 1 & ~(1 << 10 | 1 << 11)
    assert bits.count(all_but_two) == 1


def test_a_sample_that_comes_late_has_them_made_again(tmp_path: Path) -> None:
    rows = samples(1)
    late = [row for row in rows if T0 + HOUR_MS < row.at_ms <= T0 + HOUR_MS + 20 * MINUTE_MS]
    early = [row for row in rows if row not in late]
    with open_store(at_path(tmp_path / "a")) as one, open_store(at_path(tmp_path / "b")) as other:
        one.write_history(history(early, holds()))
        closed(one)
        before = told(one)
        one.write_history(history(late))
        other.write_history(history(rows, holds()))
        closed(other)
        assert told(one) == said_by_minutes(one) == told(other) != before


def test_they_go_with_their_hours_and_not_with_their_minutes(tmp_path: Path) -> None:
    day_ms = 24 * HOUR_MS
    with open_store(at_path(tmp_path)) as store:
        store.write_history(history(samples(0), holds()))
        closed(store)
        before = told(store)
        store.apply_retention(Retention(samples_days=1, minutes_days=2, hours_days=30), T0 + 5 * day_ms)
        assert ask(store, "SELECT count(*) FROM rollup_1m") == [(0,)]
        assert told(store) == before
        store.apply_retention(Retention(samples_days=1, minutes_days=2, hours_days=3), T0 + 5 * day_ms)
        assert told(store) == {}

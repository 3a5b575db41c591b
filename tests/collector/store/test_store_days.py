"""Days are made of hours: the same sums, whatever came when, whatever went, and whatever was there before."""

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from collector.arrow import HeldInterval
from collector.model import GpuSample
from collector.store.database import Store
from collector.store.retention import Retention
from tests.collector.store.store_parts import ask, at_path, held, history, sample, tick
from tests.stores import copy_of, open_store

DAY_MS = 86_400_000
D0 = 1_790_000_000_000 // DAY_MS * DAY_MS
STEP_MS = 1_200_000
TICK_MS = 60_000
SUMS = (
    "free_ms, allocated_empty_ms, held_idle_ms, low_saturation_ms, moderate_ms, good_ms, suspect_ms, "
    "unknown_ms, held_ms, measured_ms, used_ms, energy_mj"
)
DAYS = "SELECT * FROM rollup_1d ORDER BY ALL"
CLAIMS = (("a", 0.3, 0.2, 2.7), ("b", 0.7, 1.1, 3.3), ("c", 1.0, 1.9, 2.1))


def rows(first_day: float, days: float, number: int = 0) -> list[GpuSample]:
    first_ms, last_ms = D0 + round(first_day * DAY_MS), D0 + round((first_day + days) * DAY_MS)
    return [
        sample(number, at, (at // STEP_MS % 97) / 97, width_ms=STEP_MS)
        for at in range(first_ms + STEP_MS, last_ms + 1, STEP_MS)
    ]


def holds(number: int) -> list[HeldInterval]:
    """What overlapping holders had of the GPU, over midnights."""
    return [
        HeldInterval(
            allocation=held(number, name, share),
            from_ms=D0 + round(start * DAY_MS),
            to_ms=D0 + round(end * DAY_MS),
        )
        for name, share, start, end in CLAIMS
    ]


def past() -> list[GpuSample]:
    """Almost four days of one GPU, and most of them of another."""
    return [*rows(0, 3.9), *rows(0.4, 3.5, number=1)]


def write_past(folder: Path) -> None:
    with open_store(at_path(folder)) as opened:
        opened.write_history(history(past(), holds(0)))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    copy_of(tmp_path, write_past)
    with open_store(at_path(tmp_path)) as opened:
        yield opened


def mark(store: Store) -> float | None:
    """How many days after D0 the days are complete."""
    found = ask(store, "SELECT epoch_ms(complete_to) FROM watermarks WHERE name = 'rollup_1d'")
    return (found[0][0] - D0) / DAY_MS if found else None


def added(one: int | None, other: int | None) -> int | None:
    """As SQL adds: what was not measured (the energy of a silent GPU) adds nothing."""
    return other if one is None else one if other is None else one + other


def assert_days_are_their_hours(store: Store) -> None:
    """A row a day, GPU and holder with the sums of its hours, up to the mark and no further."""
    mark_ms = D0 + round((mark(store) or 0) * DAY_MS)
    summed: dict[tuple[int, ...], list[int | None]] = {}
    for ts_ms, gpu_id, holder_id, *parts in ask(
        store, f"SELECT epoch_ms(ts), gpu_id, holder_id, {SUMS} FROM rollup_1h"
    ):
        if ts_ms < mark_ms:
            key = (ts_ms // DAY_MS * DAY_MS, gpu_id, holder_id)
            summed[key] = [added(*each) for each in zip(summed.get(key, [None] * 12), parts, strict=True)]
    days = ask(store, f"SELECT epoch_ms(ts), gpu_id, holder_id, {SUMS} FROM rollup_1d")
    assert len(days) == len(summed) > 0
    assert {row[:3]: list(row[3:]) for row in days} == summed


def forget_days(store: Store) -> None:
    """Leave the store as a Fallow that knew no days would."""
    with store.writing("forgetting the days") as connection:
        connection.execute("DELETE FROM rollup_1d")
        connection.execute("DELETE FROM watermarks WHERE name = 'rollup_1d'")


def closing_tick(store: Store, day: float) -> None:
    """A tick late enough after ``day`` for what ended there to be rolled up."""
    at = D0 + round(day * DAY_MS) + 3 * TICK_MS
    store.write_tick(tick(at, [sample(0, at, width_ms=TICK_MS)], [held(0, "z")], width_ms=TICK_MS))


def test_a_day_is_made_when_its_last_hour_is(store: Store) -> None:
    assert mark(store) == 3.0
    assert_days_are_their_hours(store)
    closing_tick(store, 4)
    assert mark(store) == 4.0
    assert_days_are_their_hours(store)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_history_in_any_order_makes_the_same_days(store: Store, tmp_path: Path, seed: int) -> None:
    order = random.Random(seed)
    samples, claims = past(), holds(0)
    samples.sort(key=lambda row: row.at_ms)
    cuts = sorted(order.sample(range(1, len(samples)), 4))
    pieces = [samples[a:b] for a, b in zip([0, *cuts], [*cuts, len(samples)], strict=True)]
    order.shuffle(pieces)
    with open_store(at_path(tmp_path / "other")) as other:
        for piece in pieces:
            other.write_history(history(piece, claims))
            assert mark(other) is not None
        closing_tick(other, 4)
        closing_tick(store, 4)
        assert_days_are_their_hours(other)
        sums = (
            f"SELECT ts, uuid, job, {SUMS} FROM rollup_1d JOIN gpus USING (gpu_id) "
            "LEFT JOIN holders USING (holder_id)"
        )
        assert sorted(map(str, ask(other, sums))) == sorted(map(str, ask(store, sums)))


def test_a_late_sample_has_its_day_done_again(tmp_path: Path) -> None:
    missed = [row for row in past() if not D0 + 1.2 * DAY_MS < row.at_ms < D0 + 1.4 * DAY_MS]
    with open_store(at_path(tmp_path)) as store:
        store.write_history(history(missed, holds(0)))
        before = ask(store, DAYS)
        late = sample(0, D0 + round(1.25 * DAY_MS), 0.7, width_ms=TICK_MS)
        at = D0 + 4 * DAY_MS + 10_000
        store.write_tick(tick(at, [late, sample(1, at)], None))
        assert ask(store, DAYS) != before
        assert_days_are_their_hours(store)


def test_days_stay_when_samples_and_minutes_go_and_go_with_their_hours(store: Store) -> None:
    closing_tick(store, 4)
    days = ask(store, DAYS)
    store.apply_retention(Retention(samples_days=1, minutes_days=2), D0 + 4 * DAY_MS)
    assert ask(store, DAYS) == days
    dropped = store.apply_retention(Retention(samples_days=1, minutes_days=2, hours_days=2), D0 + 4 * DAY_MS)
    assert dict(dropped.rows)["days"] > 0
    assert ask(store, "SELECT epoch_ms(min(ts)) FROM rollup_1d") == [(D0 + 2 * DAY_MS,)]
    assert_days_are_their_hours(store)


def test_older_history_of_another_gpu_finds_its_way_into_the_days(store: Store) -> None:
    store.apply_retention(Retention(samples_days=1, minutes_days=2), D0 + 4 * DAY_MS)
    assert store.write_history(history(rows(1, 1, number=5))) == 72
    assert_days_are_their_hours(store)
    whole = (
        "SELECT sum(suspect_ms + low_saturation_ms + moderate_ms + good_ms) FROM rollup_1d WHERE gpu_id = 3"
    )
    assert ask(store, whole) == [(DAY_MS,)]


def test_history_told_again_after_its_samples_went_changes_no_day(store: Store) -> None:
    days = ask(store, DAYS)
    store.apply_retention(Retention(samples_days=1, minutes_days=2), D0 + 4 * DAY_MS)
    assert store.write_history(history(rows(1, 1))) == 0
    assert ask(store, DAYS) == days


def test_a_store_that_had_hours_before_there_were_days_gets_them_as_a_minute_closes(store: Store) -> None:
    days = ask(store, DAYS)
    forget_days(store)
    path = store.path
    store.close()
    with open_store(path) as again:
        assert mark(again) is None
        closing_tick(again, 3.92)
        assert mark(again) == 3.0
        assert ask(again, DAYS) == days
        assert_days_are_their_hours(again)


@pytest.mark.slow
def test_where_many_days_are_due_a_closing_makes_some_of_them(store: Store) -> None:
    days = ask(store, DAYS)
    forget_days(store)
    with store.writing("adding GPUs") as connection:
        connection.execute(
            "INSERT INTO gpus (uuid, node, source, installed_from, installed_to) "
            "SELECT format('gone-{}', n), 'far', 'test', '2026-01-01', '2026-01-02' FROM range(12000) AS t(n)"
        )
    path = store.path
    store.close()
    seen = []
    with open_store(path) as again:
        for minute in range(4):
            closing_tick(again, 3.92 + minute / 1440)
            seen.append(mark(again))
            assert_days_are_their_hours(again)
        assert seen == [1.0, 2.0, 3.0, 3.0]
        assert ask(again, DAYS) == days

"""What is let go of, and what must stay."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from collector.store.database import Store
from collector.store.retention import Retention
from tests.collector.store.store_parts import ask, at_path, empty, held, history, sample, tick
from tests.stores import copy_of, open_store

HOUR_MS, DAY_MS = 3_600_000, 86_400_000
D0 = 1_790_000_000_000 // DAY_MS * DAY_MS
STEP_MS = 600_000
STATES = "held_idle_ms + low_saturation_ms + moderate_ms + good_ms + suspect_ms"
HOURS = "SELECT * FROM rollup_1h ORDER BY ALL"


def rows(first_day: int, days: int, number: int = 0) -> list[object]:
    ends = range(D0 + first_day * DAY_MS + STEP_MS, D0 + (first_day + days) * DAY_MS + 1, STEP_MS)
    return [sample(number, at, (at // STEP_MS % 97) / 97, width_ms=STEP_MS) for at in ends]


def write_past(folder: Path) -> None:
    with open_store(at_path(folder)) as opened:
        opened.write_history(history(rows(0, 6)))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    copy_of(tmp_path, write_past)
    with open_store(at_path(tmp_path)) as opened:
        yield opened


def test_samples_go_sealed_or_not_and_hours_stay(store: Store) -> None:
    hours = ask(store, HOURS)
    (first, *_) = store.seal_days(D0 + 2 * DAY_MS)
    dropped = store.apply_retention(Retention(samples_days=3), D0 + 6 * DAY_MS)
    assert first.path in dropped.files and not (store.folder / first.path).parent.exists()
    assert ask(store, "SELECT epoch_ms(min(ts)) FROM samples_all") == [(D0 + 3 * DAY_MS,)]
    assert ask(store, HOURS) == hours
    assert dict(dropped.rows)["samples"] == 144


def test_minutes_go_before_hours(store: Store) -> None:
    hours = ask(store, HOURS)
    store.apply_retention(Retention(samples_days=3, minutes_days=4), D0 + 6 * DAY_MS)
    assert ask(store, "SELECT epoch_ms(min(ts)) FROM rollup_1m") == [(D0 + 2 * DAY_MS,)]
    assert ask(store, HOURS) == hours
    store.apply_retention(Retention(samples_days=3, minutes_days=4, hours_days=5), D0 + 6 * DAY_MS)
    assert ask(store, "SELECT epoch_ms(min(ts)) FROM rollup_1h") == [(D0 + DAY_MS,)]


def test_a_clock_that_is_ahead_empties_nothing_before_it_was_a_day_ahead(store: Store) -> None:
    """What is let go of by mistake is gone; it cannot be told from a long stop, but is noticed in a day."""
    kept = Retention(samples_days=3, minutes_days=3, hours_days=5, settled_days=1)
    hours = ask(store, HOURS)
    assert store.apply_retention(kept, D0 + 400 * DAY_MS).rows == ()
    store.write_history(history(rows(400, 1)))
    assert store.apply_retention(kept, D0 + 401 * DAY_MS - HOUR_MS).rows == ()
    assert ask(store, HOURS)[: len(hours)] == hours
    assert dict(store.apply_retention(kept, D0 + 402 * DAY_MS).rows)["hours"] == 6 * 24


def test_history_told_again_after_its_samples_went_changes_no_hour(store: Store) -> None:
    hours = ask(store, HOURS)
    store.apply_retention(Retention(samples_days=3, minutes_days=3), D0 + 6 * DAY_MS)
    assert store.write_history(history(rows(1, 1))) == 0
    assert ask(store, HOURS) == hours


def test_older_history_of_another_gpu_still_finds_its_way_into_the_hours(store: Store) -> None:
    store.apply_retention(Retention(samples_days=3, minutes_days=3), D0 + 6 * DAY_MS)
    assert store.write_history(history(rows(1, 1, number=5))) == 144
    total = (
        "SELECT sum(suspect_ms + low_saturation_ms + moderate_ms + good_ms) FROM rollup_1h WHERE gpu_id = 2"
    )
    assert ask(store, total) == [(DAY_MS,)]


def test_an_older_history_that_comes_in_pieces_is_whole(store: Store) -> None:
    """An import's pieces end where they end: what follows in the same hour is not complete without them."""
    store.apply_retention(Retention(samples_days=3, minutes_days=3), D0 + 6 * DAY_MS)
    told = [sample(7, D0 + n * 60_000, 0.5, width_ms=60_000) for n in range(1, 241)]
    added = [store.write_history(history(told[a:b])) for a, b in ((0, 90), (90, 91), (91, 130), (80, 240))]
    assert added == [90, 1, 39, 110]
    hours = ask(
        store,
        "SELECT epoch_ms(ts), good_ms, unknown_ms FROM rollup_1h JOIN gpus USING (gpu_id) "
        "WHERE gpu_index = 7 ORDER BY ts",
    )
    assert hours == [(D0 + n * HOUR_MS, HOUR_MS, 0) for n in range(4)]


def test_a_late_sample_does_not_empty_an_hour_whose_minutes_went(store: Store) -> None:
    store.apply_retention(Retention(samples_days=5, minutes_days=2), D0 + 6 * DAY_MS)
    hour = f"SELECT sum({STATES}) FROM rollup_1h GROUP BY ts, gpu_id"
    late = sample(0, D0 + 2 * DAY_MS + STEP_MS + 1000, 0.5, width_ms=STEP_MS)
    at = D0 + 6 * DAY_MS + STEP_MS
    store.write_tick(tick(at, [late, empty(1, at)], [held(0, "a")]))
    assert {total for (total,) in ask(store, hour)} == {3_600_000}


@pytest.mark.long
@pytest.mark.slow
def test_the_file_stops_growing_when_as_much_goes_as_comes(tmp_path: Path) -> None:
    sizes = []
    with open_store(at_path(tmp_path)) as store:
        for day in range(0, 24, 2):
            for number in range(4):
                store.write_history(history(rows(day, 2, number)))
            store.seal_days(D0 + (day + 2) * DAY_MS)
            keep = Retention(samples_days=2, minutes_days=2, hours_days=4)
            store.apply_retention(keep, D0 + (day + 2) * DAY_MS)
            sizes.append(store.checkpoint().file_bytes)
        assert max(sizes[6:]) <= 1.5 * sizes[3]
        assert store.checkpoint().log_bytes < 4096

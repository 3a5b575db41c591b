"""Sealed days: the same rows in fewer bytes, whatever happens in between."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import duckdb
import pyarrow.parquet as pq
import pytest

from collector.store.database import Store
from tests.collector.store.store_parts import ask, at_path, empty, history, sample, tick
from tests.stores import copy_of, open_store

MINUTE_MS, DAY_MS = 60_000, 86_400_000
D0 = 1_790_000_000_000 // DAY_MS * DAY_MS
STEP_MS = 600_000
ALL = "SELECT * FROM samples_all ORDER BY gpu_id, ts"


def rows(first_ms: int = D0, days: float = 3) -> list[object]:
    count = int(days * DAY_MS / STEP_MS)
    return [
        each
        for n in range(1, count + 1)
        for at in [first_ms + n * STEP_MS]
        for each in (
            sample(0, at, (n % 97) / 97, width_ms=STEP_MS, energy_mj=n * 12_345),
            empty(1, at, width_ms=STEP_MS, flags=("x",) if n % 5 == 0 else ()),
        )
    ]


def write_past(folder: Path) -> None:
    with open_store(at_path(folder)) as opened:
        opened.write_history(history(rows()))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    copy_of(tmp_path, write_past)
    with open_store(at_path(tmp_path)) as opened:
        yield opened


def test_sealing_moves_days_and_keeps_every_value(store: Store) -> None:
    before = ask(store, ALL)
    sealed = store.seal_days(D0 + 2 * DAY_MS + 5)
    assert [(day.samples > 0, day.path.endswith("samples.parquet")) for day in sealed] == [(True, True)] * 2
    assert ask(store, ALL) == before
    assert ask(store, "SELECT count(*) FROM samples WHERE ts < epoch_ms(?::BIGINT)", D0 + 2 * DAY_MS) == [
        (0,)
    ]
    assert store.seal_days(D0 + 2 * DAY_MS + 5) == ()


def test_a_sealed_day_is_sorted_and_names_its_gpus(store: Store) -> None:
    (day,) = store.seal_days(D0 + DAY_MS)
    table = pq.read_table(store.folder / day.path, partitioning=None)
    keys = list(zip(table["gpu_id"].to_pylist(), table["ts"].to_pylist(), strict=True))
    assert keys == sorted(keys) and len(set(table["uuid"].to_pylist())) == 2
    column = pq.ParquetFile(store.folder / day.path).metadata.row_group(0).column(1)
    assert column.compression == "ZSTD"


def test_late_samples_of_a_sealed_day_join_it_at_the_next_sealing(store: Store) -> None:
    store.seal_days(D0 + DAY_MS)
    late = [sample(2, D0 + n * STEP_MS, 0.4, width_ms=STEP_MS) for n in range(1, 100)]
    assert store.write_history(history(late)) == 99
    assert store.write_history(history(rows(days=1))) == 0
    before = ask(store, ALL)
    (day,) = store.seal_days(D0 + DAY_MS)
    assert day.path.endswith("samples-2.parquet")
    assert ask(store, ALL) == before
    store.seal_days(D0 + DAY_MS)
    assert [file.name for file in (store.folder / day.path).parent.iterdir()] == ["samples-2.parquet"]


def test_a_file_that_was_never_recorded_counts_for_nothing(store: Store) -> None:
    before = ask(store, ALL)
    (day,) = store.seal_days(D0 + DAY_MS)
    file = store.folder / day.path
    content = file.read_bytes()
    store.close()
    fresh = store.folder / "again"
    with open_store(at_path(fresh)) as other:
        other.write_history(history(rows()))
    orphan = fresh / day.path
    orphan.parent.mkdir(parents=True)
    orphan.write_bytes(content)
    (orphan.parent / "samples.parquet.writing").write_bytes(content[:1000])
    with open_store(at_path(fresh)) as other:
        assert ask(other, ALL) == before
        assert other.remarks == () and not any(orphan.parent.iterdir())
        other.seal_days(D0 + DAY_MS)
        assert ask(other, ALL) == before


def test_a_file_that_nothing_explains_is_set_aside_and_kept(store: Store) -> None:
    (day,) = store.seal_days(D0 + DAY_MS)
    content = (store.folder / day.path).read_bytes()
    stranger = store.folder / "sealed" / "day=2020-01-01" / "samples.parquet"
    stranger.parent.mkdir()
    stranger.write_bytes(content)
    store.close()
    with open_store(store.path) as again:
        (remark,) = again.remarks
        assert "day=2020-01-01/samples.parquet.unclaimed: no record explains it" in remark
        assert stranger.with_name("samples.parquet.unclaimed").read_bytes() == content


def test_a_missing_sealed_day_is_told_left_out_and_can_be_put_back(store: Store) -> None:
    before = ask(store, ALL)
    (day,) = store.seal_days(D0 + DAY_MS)
    store.close()
    file = store.folder / day.path
    hidden = file.rename(file.with_name("elsewhere"))
    with open_store(store.path) as again:
        assert "found no file: its samples are left out" in again.remarks[0]
        assert ask(again, "SELECT count(*) FROM samples_all") == [(len(before) - day.samples,)]
    hidden.rename(file)
    with open_store(store.path) as again:
        assert again.remarks == () and ask(again, ALL) == before


def test_a_damaged_sealed_day_is_told_and_left_out(store: Store) -> None:
    before = ask(store, ALL)
    (day,) = store.seal_days(D0 + DAY_MS)
    store.close()
    (store.folder / day.path).write_bytes(bytes(day.bytes))
    with open_store(store.path) as again:
        assert "is damaged" in again.remarks[0] and "its samples are left out" in again.remarks[0]
        assert ask(again, "SELECT count(*) FROM samples_all") == [(len(before) - day.samples,)]


def test_a_sealed_day_that_breaks_under_a_running_service_costs_one_roll_up(store: Store) -> None:
    (day,) = store.seal_days(D0 + DAY_MS)
    (store.folder / day.path).unlink()
    at = D0 + 3 * DAY_MS
    with suppress(duckdb.Error):
        store.write_tick(tick(at, [sample(0, at)]))
    store.write_tick(tick(at + MINUTE_MS, [sample(0, at + MINUTE_MS)]))
    assert ask(store, "SELECT max(epoch_ms(complete_to)) FROM watermarks WHERE name = 'rollup_1m'") == [(at,)]


def test_the_folder_can_be_moved(store: Store, tmp_path: Path) -> None:
    before = ask(store, ALL)
    store.seal_days(D0 + 2 * DAY_MS)
    store.close()
    moved = tmp_path.parent / f"{tmp_path.name}-moved"
    tmp_path.rename(moved)
    with open_store(at_path(moved)) as again:
        assert ask(again, ALL) == before


def test_what_sealing_took_is_given_back_by_a_thread_of_the_engine(store: Store) -> None:
    assert ask(store, "SELECT current_setting('allocator_background_threads')") == [(True,)]

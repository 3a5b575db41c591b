"""Readers have their own snapshot and never hold up a tick; ticks go on while days are sealed."""

import threading
from pathlib import Path

import pytest

from collector.store import database
from tests.collector.store.store_parts import T0, TICK_MS, ask, at_path, history, sample, tick
from tests.stores import open_store

DAY_MS = 86_400_000
COUNT = "SELECT count(*) FROM samples_all"


@pytest.mark.slow
def test_a_reader_sees_whole_ticks_only(tmp_path: Path) -> None:
    odd: list[int] = []
    with open_store(at_path(tmp_path)) as store:
        stop = threading.Event()

        def look() -> None:
            with store.reader() as reader:
                while not stop.is_set():
                    (found,) = reader.execute(COUNT).fetchall()
                    odd.extend(n for n in found if n % 4)

        watcher = threading.Thread(target=look)
        watcher.start()
        for n in range(1, 30):
            at = T0 + n * TICK_MS
            store.write_tick(tick(at, [sample(k, at) for k in range(4)]))
        stop.set()
        watcher.join()
        assert odd == [] and ask(store, COUNT) == [(116,)]


def test_ticks_go_on_in_the_middle_of_a_long_read(tmp_path: Path) -> None:
    with open_store(at_path(tmp_path)) as store, store.reader() as reader:
        store.write_tick(tick(T0, [sample(0, T0)]))
        reader.execute("BEGIN")
        before = reader.execute(COUNT).fetchall()
        endless = reader.execute("SELECT a.range + b.range FROM range(1000000) a, range(1000000) b")
        assert endless.fetchone() is not None
        for n in range(1, 15):
            at = T0 + n * TICK_MS
            store.write_tick(tick(at, [sample(0, at)]))
        assert store.checkpoint().file_bytes > 0
        assert ask(store, COUNT) == [(15,)]
        assert reader.execute(COUNT).fetchall() == before
        reader.execute("ROLLBACK")
        assert reader.execute(COUNT).fetchall() == [(15,)]


def test_ticks_go_on_while_a_day_is_sealed(tmp_path: Path) -> None:
    first = T0 // DAY_MS * DAY_MS
    past = [sample(k, first + n * 60_000, width_ms=60_000) for n in range(1, 1440) for k in range(8)]
    with open_store(at_path(tmp_path)) as store:
        store.write_history(history(past))
        sealer = threading.Thread(target=store.seal_days, args=(first + DAY_MS,))
        sealer.start()
        written = 0
        while sealer.is_alive() or written < 3:
            written += 1
            at = first + DAY_MS + written * TICK_MS
            store.write_tick(tick(at, [sample(0, at)]))
        sealer.join()
        assert ask(store, COUNT) == [(len(past) + written,)]
        assert ask(store, "SELECT count(*) FROM sealed") == [(1,)]


def test_what_the_engine_keeps_at_hand_is_dropped_while_nobody_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "KEPT_AT_HAND", "2MiB")
    blocks = "SELECT sum(memory_usage_bytes) FROM duckdb_memory() WHERE tag = 'BASE_TABLE'"
    with open_store(at_path(tmp_path)) as store, store.writing("making something large") as connection:
        connection.execute("CREATE TABLE large AS SELECT random() AS number FROM range(1000000)")
    with open_store(at_path(tmp_path)) as store:
        asked = "SELECT sum((number * 1000)::BIGINT) FROM large"
        before = ask(store, asked)
        ((kept,),) = ask(store, blocks)
        with store.reader():
            assert not store.shed()
            assert ask(store, blocks) >= [(kept,)]
        assert store.shed()
        ((left,),) = ask(store, blocks)
        assert left < kept / 2
        assert ask(store, asked) == before
        ((limit,),) = ask(store, "SELECT current_setting('memory_limit')")
        assert limit == ask(store, "SELECT format_bytes(1000000000)")[0][0]


def test_a_closed_store_keeps_nothing_at_hand(tmp_path: Path) -> None:
    with open_store(at_path(tmp_path)) as store:
        pass
    assert not store.shed()

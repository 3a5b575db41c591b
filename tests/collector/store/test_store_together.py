"""Changes that come at the same time share a transaction, each is durable before its caller goes on, and one
that fails takes nobody with it."""

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from collector.store.database import Store
from tests.stores import open_store

CROWD = 20
PATIENCE_S = 30


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(tmp_path / "fallow.duckdb") as made:
        with made.writing("making a table") as connection:
            connection.execute("CREATE TABLE said (number INTEGER PRIMARY KEY, transaction BIGINT)")
        yield made


def said(store: Store) -> dict[int, int]:
    with store.reader() as connection:
        return dict(connection.execute("FROM said ORDER BY number").fetchall())


def saying(number: int) -> Callable[[Any], int]:
    def work(connection: Any) -> int:
        connection.execute("INSERT INTO said VALUES ($n, txid_current())", {"n": number})
        return number * 10

    return work


class Crowd:
    """Threads that each do one change, while the store is held and afterwards."""

    def __init__(self, store: Store, works: list[Callable[[Any], Any]]) -> None:
        self.found: dict[int, Any] = {}
        self._store = store
        self._threads = [
            threading.Thread(target=self._do, args=(n, work), daemon=True) for n, work in enumerate(works)
        ]

    def come(self) -> None:
        """All wait for the store."""
        for thread in self._threads:
            thread.start()
        limit = time.monotonic() + PATIENCE_S
        while self._store.crowd < len(self._threads):
            assert time.monotonic() < limit, "they never came"
            time.sleep(0.001)

    def leave(self) -> None:
        for thread in self._threads:
            thread.join(PATIENCE_S)
            assert not thread.is_alive(), "somebody waits for ever"

    def _do(self, n: int, work: Callable[[Any], Any]) -> None:
        try:
            self.found[n] = self._store.together(f"change {n}", work)
        except Exception as error:
            self.found[n] = error


def test_a_crowd_that_waits_shares_one_transaction(store: Store) -> None:
    crowd = Crowd(store, [saying(n) for n in range(CROWD)])
    with store.writing("holding everybody up"):
        crowd.come()
    crowd.leave()
    assert crowd.found == {n: n * 10 for n in range(CROWD)}
    kept = said(store)
    assert list(kept) == list(range(CROWD)) and len(set(kept.values())) == 1
    assert store.crowd == 0


def test_one_that_fails_is_told_so_and_takes_nobody_with_it(store: Store) -> None:
    with store.writing("taking a number") as connection:
        connection.execute("INSERT INTO said VALUES (7, 0)")
    crowd = Crowd(store, [saying(n) for n in range(CROWD)])
    with store.writing("holding everybody up"):
        crowd.come()
    crowd.leave()
    refused = crowd.found.pop(7)
    assert isinstance(refused, Exception) and "7" in str(refused)
    assert crowd.found == {n: n * 10 for n in range(CROWD) if n != 7}
    kept = said(store)
    assert list(kept) == list(range(CROWD)) and kept[7] == 0
    assert len({transaction for n, transaction in kept.items() if n != 7}) == CROWD - 1, "each by itself"


def test_what_a_change_raises_is_raised_to_its_own_caller(store: Store) -> None:
    class Unwilling(RuntimeError):
        pass

    def work(connection: Any) -> None:
        saying(1)(connection)
        raise Unwilling("no")

    with pytest.raises(Unwilling):
        store.together("refusing", work)
    assert said(store) == {}
    assert store.together("going on", saying(2)) == 20
    assert list(said(store)) == [2]


def test_what_was_done_together_is_there_after_the_store_is_opened_again(tmp_path: Path) -> None:
    path = tmp_path / "fallow.duckdb"
    with open_store(path) as store:
        with store.writing("making a table") as connection:
            connection.execute("CREATE TABLE said (number INTEGER PRIMARY KEY, transaction BIGINT)")
        crowd = Crowd(store, [saying(n) for n in range(3)])
        with store.writing("holding everybody up"):
            crowd.come()
        crowd.leave()
    with open_store(path) as store:
        assert list(said(store)) == [0, 1, 2]

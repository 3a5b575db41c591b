"""The query desk: a bounded pool, a bounded queue, and a limit after which DuckDB is interrupted."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from collector.store.database import Store
from service.api.queries import QueryLimits, QueryRunner
from service.errors import QueryTooSlow, ServiceBusy
from tests.stores import open_store

ENDLESS = "SELECT count(*) FROM range(1000000000) AS a, range(1000000000) AS b WHERE a.range * b.range = 7"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(tmp_path / "fallow.duckdb") as made:
        yield made


def test_query_past_its_limit_is_interrupted_and_its_thread_is_free_again(store: Store) -> None:
    ended = threading.Event()

    def endless(connection: Any) -> bytes:
        try:
            connection.execute(ENDLESS)
        finally:
            ended.set()
        return b"never"

    async def ask() -> bytes:
        with pytest.raises(QueryTooSlow, match=r"stopped after 0\.2 s"):
            await desk.ask(endless)
        while True:  # on a busy machine even this may take longer than the limit
            with suppress(QueryTooSlow):
                return await desk.ask(lambda reader: str(reader.execute("SELECT 42").fetchone()).encode())

    desk = QueryRunner(reader=store.reader, limits=QueryLimits(threads=1, queue=4, timeout_s=0.2))
    desk_answer = asyncio.run(ask())
    assert ended.wait(5), "DuckDB went on"
    assert desk_answer == b"(42,)"


def test_full_queue_refuses_at_once_and_recovers(store: Store) -> None:
    let_go = threading.Event()

    def waiting(_: Any) -> bytes:
        let_go.wait(10)
        return b"done"

    async def ask() -> tuple[list[bytes], bytes]:
        crowd = [asyncio.ensure_future(desk.ask(waiting)) for _ in range(3)]
        await asyncio.sleep(0)
        with pytest.raises(ServiceBusy):
            await desk.ask(waiting)
        let_go.set()
        return await asyncio.gather(*crowd), await desk.ask(lambda _: b"again")

    desk = QueryRunner(reader=store.reader, limits=QueryLimits(threads=2, queue=1, timeout_s=20))
    assert asyncio.run(ask()) == ([b"done"] * 3, b"again")


def test_question_that_waited_past_its_limit_is_never_begun(store: Store) -> None:
    let_go = threading.Event()
    begun: list[str] = []

    def first(_: Any) -> bytes:
        let_go.wait(10)
        return b""

    def second(_: Any) -> bytes:
        begun.append("second")
        return b""

    async def ask() -> None:
        ahead = asyncio.ensure_future(desk.ask(first))
        await asyncio.sleep(0)
        behind = asyncio.ensure_future(desk.ask(second))
        results = await asyncio.gather(ahead, behind, return_exceptions=True)
        assert all(isinstance(result, QueryTooSlow) for result in results)
        let_go.set()
        assert await desk.ask(lambda _: b"fine") == b"fine"

    desk = QueryRunner(reader=store.reader, limits=QueryLimits(threads=1, queue=5, timeout_s=0.3))
    asyncio.run(ask())
    assert begun == []

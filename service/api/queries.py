"""Runs readers' queries beside the sampling loop without ever standing in its way.

A bounded pool of threads, a bounded queue before it, and a time limit after which DuckDB is interrupted:
whatever readers ask, what they can take from the machine has an end.
"""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Protocol

from analytics.query import Connection
from service.errors import QueryTooSlow, ServiceBusy


class Reader(Connection, Protocol):
    """A connection of a question's own, which another thread may interrupt; a store's ``reader`` makes it."""

    def interrupt(self) -> None:
        """Have what it executes now fail."""

    def close(self) -> None:
        """Let go of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryLimits:
    """What readers may take together: threads, waiting questions, seconds for one question."""

    threads: int
    queue: int
    timeout_s: float


class QueryRunner:
    """Takes a question from the event loop, answers it on a thread of its own pool."""

    def __init__(self, *, reader: Callable[[], Reader], limits: QueryLimits) -> None:
        self._reader = reader
        self._limits = limits
        self._waiting = 0
        self._asked: set[_Job] = set()
        self._pool = ThreadPoolExecutor(max_workers=limits.threads, thread_name_prefix="query")

    async def ask(self, question: Callable[[Reader], bytes]) -> bytes:
        """The bytes that ``question`` makes of a connection. Runs on the event loop, blocks nothing.

        Raises ``ServiceBusy`` when the queue is full, ``QueryTooSlow`` past the limit, and what ``question``
        raises.
        """
        if self._waiting >= self._limits.threads + self._limits.queue:
            raise ServiceBusy(f"{self._waiting} queries wait already; ask again in a moment")
        job = _Job(self._reader, question)
        self._waiting += 1
        self._asked.add(job)
        try:
            future = asyncio.wrap_future(self._pool.submit(job.run))
            done, _ = await asyncio.wait({future}, timeout=self._limits.timeout_s)
            if not done:
                future.cancel()
                job.stop()
                raise QueryTooSlow(
                    f"stopped after {self._limits.timeout_s:g} s; ask for a shorter window or longer steps, "
                    "or raise api.query_timeout_s"
                )
            return await future
        finally:
            self._asked.discard(job)
            self._waiting -= 1

    def hurry(self) -> None:
        """The end is near: what is being answered is cut short, and what waits is not begun."""
        for job in tuple(self._asked):
            job.stop()

    def close(self) -> None:
        """Take no more questions; those that run are left to end by their limit."""
        self._pool.shutdown(wait=False, cancel_futures=True)


class _Job:
    """One question on one connection, which another thread may interrupt."""

    def __init__(self, reader: Callable[[], Reader], question: Callable[[Reader], bytes]) -> None:
        self._reader = reader
        self._question = question
        self._guard = threading.Lock()
        self._connection: Reader | None = None
        self._stopped = False

    def run(self) -> bytes:
        with self._guard:
            if self._stopped:
                raise QueryTooSlow("stopped before it began")
            connection = self._connection = self._reader()
        try:
            return self._question(connection)
        finally:
            with self._guard:
                self._connection = None
            connection.close()

    def stop(self) -> None:
        with self._guard:
            self._stopped = True
            if self._connection is not None:
                self._connection.interrupt()

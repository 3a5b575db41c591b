"""Changes that share a commit: whoever comes first writes for all who joined, and the others wait.

What becomes of the one commit becomes of every change in it. How it is written is the register's.
"""

import threading
from collections.abc import Callable

from advisor.jobs.repository import Change
from collector.model import JobId


class Batch:
    """Changes on their way; ``led`` once somebody writes them, ``done`` when they are kept or undone."""

    __slots__ = ("changes", "done", "error", "jobs", "led")

    def __init__(self) -> None:
        self.changes: list[Change] = []
        self.jobs: set[JobId] = set()
        self.led = False
        self.done = threading.Event()
        self.error: BaseException | None = None

    def add(self, change: Change) -> None:
        """One more change; the caller has the register's guard."""
        self.changes.append(change)
        self.jobs.add(change.after.id)

    def settle(self, error: BaseException | None = None) -> None:
        """It is kept, or is not because of ``error``; the caller has the register's guard."""
        self.error = error
        self.done.set()


class Commits:
    """Has batches written one after the other, each by one thread; ``guard`` is the register's."""

    def __init__(self, guard: threading.Lock, write: Callable[[Batch], None]) -> None:
        self._guard, self._write = guard, write
        self._disk = threading.Lock()

    def commit(self, batch: Batch) -> None:
        """Have the batch committed; blocks until it is. Raises what writing it raised."""
        with self._guard:
            leads, batch.led = not batch.led, True
        if leads:
            self._lead(batch)
        else:
            batch.done.wait()
        if batch.error is not None:
            raise batch.error

    def _lead(self, batch: Batch) -> None:
        try:
            with self._disk:
                if not batch.done.is_set():
                    self._write(batch)
        except BaseException:
            if not batch.done.is_set():  # interrupted while it waited, and nobody else would write it
                with self._disk:
                    self._write(batch)
            raise

"""Small changes that come at the same time share a transaction: one commit for a crowd costs what one costs.

Each waits until its own change is durable, as if it were alone. Where the shared transaction fails, it is
undone and each change is made by itself, so that nobody suffers for somebody else's.
"""

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, TypeVar

import duckdb

T = TypeVar("T")
Work = Callable[[duckdb.DuckDBPyConnection], T]
Writing = Callable[[str], AbstractContextManager[duckdb.DuckDBPyConnection]]
"""One transaction for the thread that enters it, durable when the block ends."""

CROWD = "writing what several asked for at once"


class GroupCommit:
    """Changes of one store. Safe from any thread that is not in a transaction."""

    def __init__(self, writing: Writing) -> None:
        self._writing = writing
        self._guard = threading.Lock()
        self._crowd: list[_Change] = []

    @property
    def waiting(self) -> int:
        """How many changes wait for the transaction that comes next."""
        return len(self._crowd)

    def do(self, doing: str, work: Work[T]) -> T:
        """What ``work`` returns, once it is durable. Raises what ``work`` raises, and what ``writing`` does.

        ``work`` may run on another thread, and a second time after the first was undone.
        """
        change = _Change(doing, work)
        with self._guard:
            leads = not self._crowd
            self._crowd.append(change)
        if leads:
            self._lead()
        else:
            change.settled.wait()
        if change.error is not None:
            raise change.error
        found: T = change.found
        return found

    def _lead(self) -> None:
        """Make the changes of all who have come by the time that the store is free."""
        crowd: list[_Change] = []
        try:
            with self._writing(CROWD) as connection:
                crowd = self._gathered()
                found = [each.work(connection) for each in crowd]
            for each, value in zip(crowd, found, strict=True):
                each.settle(found=value)
        except Exception:
            for each in crowd or self._gathered():
                self._alone(each)
        except BaseException as error:  # the leader is interrupted: the others must not wait for ever
            for each in crowd or self._gathered():
                each.settle(error=error)

    def _gathered(self) -> "list[_Change]":
        with self._guard:
            crowd, self._crowd = self._crowd, []
        return crowd

    def _alone(self, change: "_Change") -> None:
        try:
            with self._writing(change.doing) as connection:
                found = change.work(connection)
        except BaseException as error:
            change.settle(error=error)
        else:
            change.settle(found=found)


class _Change:
    """One change, what came of it, and whether that is known."""

    __slots__ = ("doing", "error", "found", "settled", "work")

    def __init__(self, doing: str, work: Work[Any]) -> None:
        self.doing, self.work = doing, work
        self.found: Any = None
        self.error: BaseException | None = None
        self.settled = threading.Event()

    def settle(self, found: Any = None, error: BaseException | None = None) -> None:
        """This is what came of it; the first word holds."""
        if not self.settled.is_set():
            self.found, self.error = found, error
            self.settled.set()

"""Keeps what owners allow with their own jobs; what their words mean is said in
``advisor.planner.consent``.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from advisor.planner.consent import Kind, OwnerReply, words_of
from advisor.statements import statement
from analytics.query import run
from collector.clock import Clock
from collector.model import JobId

if TYPE_CHECKING:
    from collector.store.database import Store


class ConsentStore:
    """The table consents. Every call blocks for the store; raises StoreError."""

    def __init__(self, store: "Store", clock: Clock) -> None:
        self._store, self._clock = store, clock

    def words(self) -> tuple[OwnerReply, ...]:
        """The words that hold now, of all owners, in the order in which they were said."""
        with self._store.reader() as connection:
            return words_of(run(connection, "consents", {"as_of": self._clock.now_ms()}).to_pylist())

    def say(
        self, user: str, job: JobId | None, replies: Sequence[tuple[Kind, bool | None]], hold_ms: int | None
    ) -> int | None:
        """Note an owner's words about one job, or all of theirs, in one commit; ``None`` takes back.

        They hold for ``hold_ms`` from now; ``None``: until something else is said. Returns the end, UTC ms.
        """
        at_ms = self._clock.now_ms()
        until_ms = None if hold_ms is None else at_ms + hold_ms
        with self._store.writing("noting what an owner allows") as connection:
            for kind, allowed in replies:
                values = {"user_name": user, "job": job, "kind": kind.value, "allowed": allowed}
                connection.execute(statement("add_consent"), values | {"at_ms": at_ms, "until_ms": until_ms})
        return until_ms

"""Keeps what was learnt of jobs on one GPU; what the rows mean is said in ``slowdown_watchdog``."""

from typing import TYPE_CHECKING

from advisor.jobs.slowdown_watchdog import Pair, pairs_of
from advisor.statements import statement
from analytics.query import run
from collector.clock import Clock

if TYPE_CHECKING:
    from collector.store.database import Store


class SlowdownStore:
    """The table pairs. Every call blocks for the store; raises StoreError."""

    def __init__(self, store: "Store", clock: Clock) -> None:
        self._store, self._clock = store, clock

    def pairs(self) -> tuple[Pair, ...]:
        """All that is known, the latest first."""
        with self._store.reader() as connection:
            return pairs_of(run(connection, "pairs", {"from_ts": 0}).to_pylist())

    def open(self, pair: Pair) -> None:
        """Note two jobs on one GPU; what was noted before stays."""
        values = {
            "host": pair.host,
            "guest": pair.guest,
            "gpu_model": pair.gpu_model,
            "host_profile": pair.host_profile,
            "guest_profile": pair.guest_profile,
            "at_ms": self._clock.now_ms(),
            "host_alone": pair.alone[0],
            "guest_alone": pair.alone[1],
            "gain_expected": pair.expected_gain,
        }
        with self._store.writing("noting two jobs on one GPU") as connection:
            connection.execute(statement("add_pair"), values)

    def settle(self, pair: Pair) -> None:
        """Note what came of it."""
        first, second = pair.speeds or (None, None)
        values = {
            "host": pair.host,
            "guest": pair.guest,
            "host_speed": first,
            "guest_speed": second,
            "windows": pair.windows,
            "undone": pair.undone,
        }
        with self._store.writing("noting how two jobs fare on one GPU") as connection:
            connection.execute(statement("settle_pair"), values)

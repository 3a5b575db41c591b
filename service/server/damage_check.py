"""A question that fails because a sealed day is damaged has all of them looked through at once."""

import logging
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from analytics.query import Connection
from collector.store.errors import ArchiveAway
from service.errors import QueryFailed

if TYPE_CHECKING:
    import pyarrow as pa


log = logging.getLogger(__name__)

REST_S = 3_600.0
"""Looking through every sealed day takes the disk minutes, which nobody may cause again and again."""
DAMAGE_SIGNS = (
    "parquet",
    "zstd",
    "corrupt",
    "delta_binary_packed",
    "bitpacked",
    "tprotocolexception",
    "out of buffer",
    "don't know what type",
    "could not read enough bytes",
)
"""Words of DuckDB 2.0.0 about files that aren't what was written; a wrong question has none."""
STORE_SIGN = "Corrupt database file"

Answer = Callable[[Connection, str, Mapping[str, object]], "pa.Table"]


class Mending:
    """Answers as ``answer`` does; a failure that may be a damaged sealed day has all of them looked through,
    once an hour at most, on a thread of its own. ``now_s`` is a steady clock."""

    def __init__(self, answer: Answer, mend: Callable[[], object], now_s: Callable[[], float]) -> None:
        self._answer, self._mend, self._now_s = answer, mend, now_s
        self._lock = threading.Lock()
        self._next_s = 0.0
        self.thread: threading.Thread | None = None
        """The newest look; for who waits for its end."""

    def answer(self, connection: Connection, name: str, params: Mapping[str, object]) -> "pa.Table":
        """The rows of a named query. Raises ``ClientError``."""
        try:
            return self._answer(connection, name, params)
        except QueryFailed as error:
            # A bucket that is away is no damage, whatever the words of its error.
            if isinstance(error.__cause__, ArchiveAway) or not may_be_damage(str(error)):
                raise
            if STORE_SIGN in str(error):
                raise QueryFailed(
                    f"{error}. The store is damaged: stop the service, and `fallow store check` says where"
                ) from error
            self._begin()
            raise QueryFailed(
                f"{error}. A sealed day may be damaged: all are looked through, once an hour at most, and "
                "what can be read of a damaged one is used after that; ask again in a few minutes"
            ) from error

    def _begin(self) -> None:
        with self._lock:
            if self._now_s() < self._next_s:
                return
            self._next_s = self._now_s() + REST_S
        self.thread = threading.Thread(target=self._look, name="mending", daemon=True)
        self.thread.start()

    def _look(self) -> None:
        try:
            self._mend()
        except Exception as error:
            log.error("looking through the sealed days failed: %s", error)


def may_be_damage(message: str) -> bool:
    """Whether DuckDB's words tell of a file that isn't what was written. Pure."""
    return any(sign in message.lower() for sign in DAMAGE_SIGNS)

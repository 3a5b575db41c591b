"""The simulated cluster at its live end: a ``collector.source.Source``."""

from collections.abc import Callable

from collector.model import Unavailable
from collector.reading import Reading

USUAL_WIDTH_MS = 10_000
LONGEST_WIDTH_MS = 300_000

View = Callable[[str, int | None, int, int], Reading | Unavailable]
"""(source name, when something was last seen, now, width) to what is seen."""


class SimulatedSource:
    """Reads the cluster at whatever time it is told; only the times of its last looks are remembered."""

    def __init__(self, view: View, name: str) -> None:
        self._view = view
        self._name = name
        self._last_ms: int | None = None
        self._seen_ms: int | None = None

    @property
    def name(self) -> str:
        """Stable and unique among the configured sources."""
        return self._name

    def read(self, now_ms: int) -> Reading | Unavailable:
        """What the cluster shows now. Samples are as wide as the time since the last look, when that is
        short; after a long absence, and at first, they are ten seconds wide. Never blocks on anything.
        """
        since = now_ms - self._last_ms if self._last_ms is not None else 0
        width = since if 0 < since <= LONGEST_WIDTH_MS else USUAL_WIDTH_MS
        self._last_ms = now_ms
        outcome = self._view(self._name, self._seen_ms, now_ms, width)
        if isinstance(outcome, Reading):
            self._seen_ms = now_ms
        return outcome

    def close(self) -> None:
        """Nothing is held."""

"""The port to whatever can be read each tick: a driver, an exporter, a recording, a simulation.

A new source is a file in ``collector/sources/`` with a class that has these three members, and an entry in
the contract suite ``tests/collector/test_source_contract.py``. How a configuration names it is in
``service/sources/specs.py``, and ``service/sources/making.py`` makes it.
"""

from typing import Protocol

from collector.model import Unavailable
from collector.reading import Reading


class Source(Protocol):
    """Something that can be read once a tick. ``read`` never raises for what the outside world did."""

    @property
    def name(self) -> str:
        """Stable and unique among the configured sources; it is stored beside gaps and ticks."""
        ...

    def read(self, now_ms: int) -> Reading | Unavailable:
        """Everything measured since the last call; may block up to the source's own timeout."""
        ...

    def close(self) -> None:
        """Release what the source holds; safe to call twice."""
        ...

"""Gives the simulated cluster a past at the first start, so that every screen is full at once.

The last day comes first, in fine steps, and the first page can be drawn; what is older comes in coarse steps,
while the service ticks already. A past that was cut short is begun again at the next start; what is stored
already stays as it is.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collector.arrow import History
    from collector.sources.simulated.cluster import SimulatedCluster
    from collector.store.database import Store

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS
DAYS_AT_ONCE = 4
ORIGIN = "simulated://past"
"""Names the past among those that were imported: an address, as theirs are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """A stretch of the past ``(from_ms, to_ms]`` and the step that it is sampled at."""

    from_ms: int
    to_ms: int
    step_ms: int


def layers(days: int, now_ms: int) -> tuple[Layer, ...]:
    """The past of so many days, oldest first; every border lies on a multiple of the steps it parts.

    The first layer, all but the last day, is empty when there is only one day.
    """
    coarse, fine, finest, live = 5 * MINUTE_MS, MINUTE_MS, 30_000, 10_000
    borders = (
        _floor(now_ms - days * DAY_MS, coarse),
        _floor(now_ms - DAY_MS, coarse),
        _floor(now_ms - 3 * HOUR_MS, coarse),
        _floor(now_ms - 10 * MINUTE_MS, coarse),
        _floor(now_ms, live),
    )
    steps = (coarse, fine, finest, live)
    return tuple(
        Layer(from_ms=start, to_ms=end, step_ms=step)
        for start, end, step in zip(borders, borders[1:], steps, strict=False)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Backfill:
    """The past of one cluster for one store. ``mark`` is a file that stands while the past is unfinished."""

    cluster: "SimulatedCluster"
    store: "Store"
    mark: Path
    days: int

    def is_due(self) -> bool:
        """Whether the store is new, or an earlier start was cut short."""
        return self.mark.exists() or self._is_empty()

    def run_recent(self, now_ms: int, stopped: Callable[[], bool], tell: Callable[[str], None]) -> None:
        """Store the newest day: enough for the first look. Ends early once ``stopped``."""
        self.mark.touch()
        tell("filling in the last day")
        for layer in layers(self.days, now_ms)[1:]:
            for some in self._pieces(layer):
                if stopped():
                    return
                self.store.write_history(some)
        recent = layers(self.days, now_ms)[1:]
        self._note(recent[0].from_ms, recent[-1].to_ms)

    def run_older(self, now_ms: int, stopped: Callable[[], bool], tell: Callable[[str], None]) -> None:
        """Store what lies before that, beside the first ticks; once ``stopped``, the next start begins again.

        The cluster is the backfill's own: it is not for two threads at once.
        """
        done = 1
        older = layers(self.days, now_ms)[:1]
        for layer in older:
            for some in self._pieces(layer):
                tell(f"filling in the past: {min(done, self.days)} of {self.days} days")
                if stopped():
                    return
                self.store.write_history(some)
                done += DAYS_AT_ONCE
        self._note(older[0].from_ms, older[0].to_ms)
        self.mark.unlink(missing_ok=True)

    def _note(self, from_ms: int, to_ms: int) -> None:
        """Have those who had ended in it judged, as an import's are; a past that is begun again, anew."""
        if from_ms < to_ms:
            self.store.note_import(ORIGIN, from_ms, to_ms, 0)

    def _pieces(self, layer: Layer) -> "Iterator[History]":
        days = iter(self.cluster.history(layer.from_ms, layer.to_ms, layer.step_ms))
        while some := tuple(islice(days, DAYS_AT_ONCE)):
            yield until(joined(some), layer.to_ms)

    def _is_empty(self) -> bool:
        connection = self.store.reader()
        try:
            return connection.execute("SELECT count(*) FROM gpus").fetchone() == (0,)
        finally:
            connection.close()


def until(history: "History", end_ms: int) -> "History":
    """The history, what still lasts ended at ``end_ms``: the next layer or the first tick goes on there.

    Left open, an allocation that ends within the next layer would never end in the store.
    """
    intervals = tuple(
        each if each.to_ms is not None else replace(each, to_ms=end_ms) for each in history.held
    )
    intruded = tuple(
        each if each.to_ms is not None else replace(each, to_ms=end_ms) for each in history.intruded
    )
    return replace(history, held=intervals, intruded=intruded)


def joined(days: "Sequence[History]") -> "History":
    """Days on end as one history: the store rolls up four at once in less time than one by one."""
    import pyarrow as pa

    return replace(
        days[0],
        samples=pa.concat_tables([day.samples for day in days]),
        held=tuple(each for day in days for each in day.held),
        processes=tuple(each for day in days for each in day.processes),
        process_samples=tuple(each for day in days for each in day.process_samples),
        events=tuple(each for day in days for each in day.events),
        gaps=tuple(each for day in days for each in day.gaps),
        intruded=tuple(each for day in days for each in day.intruded),
    )


def _floor(at_ms: int, step_ms: int) -> int:
    return at_ms // step_ms * step_ms

"""Pages of ``/metrics`` as time series: the labels of a line are read once, its value at each tick."""

from collections.abc import Iterator, Mapping
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from service.remote_write.wire import STALE, TimeSeries

NAME = "__name__"


class SeriesPages:
    """The series of each page in turn, and the end of those that are on it no more."""

    def __init__(self, labels: Mapping[str, str]) -> None:
        """``labels`` are added to every series that has no such label."""
        self._labels = dict(labels)
        self._known: dict[str, Any] = {}

    def of(self, page: bytes, at_ms: int) -> list[Any]:
        """The series of a page of the tick at ``at_ms`` (UTC), then those that ended with it.

        The messages are used again at the next page: write them out before.
        """
        now = dict(self._read(page, at_ms))
        ended = [series for head, series in self._known.items() if head not in now]
        for series in ended:
            series.samples[0].value, series.samples[0].timestamp = STALE, at_ms
        self._known = now
        return [*now.values(), *ended]

    def _read(self, page: bytes, at_ms: int) -> Iterator[tuple[str, Any]]:
        for line in page.decode().splitlines():
            if not line or line.startswith("#"):
                continue
            head, _, value = line.rpartition(" ")
            series = self._known.get(head) or self._labelled(line)
            series.samples[0].value, series.samples[0].timestamp = float(value), at_ms
            yield head, series

    def _labelled(self, line: str) -> Any:
        """A new series of the line; labels are sorted by name, as the protocol asks."""
        sample = next(iter(text_string_to_metric_families(f"{line}\n"))).samples[0]
        labels = {**self._labels, **sample.labels, NAME: sample.name}
        pairs = [{"name": name, "value": value} for name, value in sorted(labels.items()) if value]
        return TimeSeries(labels=pairs, samples=[{}])

"""A Source over any number of HTTP endpoints: asks them together, and lets none spoil another's tick.

What an answer means is handed in (``Hear``): dcgm-exporters and other Fallows are read by the same hands.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from time import monotonic
from urllib.parse import urlsplit

from collector.dcgm.endpoint import Endpoint, News, missed
from collector.dcgm.fetch import MOST_GPUS, Body, Failure, Fetcher, Limits, Request, place
from collector.dcgm.text import MalformedText
from collector.model import (
    Allocation,
    Gpu,
    GpuSample,
    GpuUuid,
    HolderSample,
    Unavailable,
)
from collector.reading import Reading

Hear = Callable[[Endpoint, bytes, int], tuple[Endpoint, News]]
"""Endpoint as remembered, its answer, now: the endpoint after it, and what is new. Raises MalformedText."""
METRICS_PATH = "/metrics"


class UnusableUrl(ValueError):
    """A configured endpoint is not an HTTP URL."""


class ScrapedSource:
    """A ``collector.source.Source``; nothing is opened before the first read."""

    def __init__(
        self,
        *,
        name: str,
        endpoints: Iterable[Endpoint],
        limits: Limits,
        hear: Hear,
        headers: Callable[[str], Mapping[str, str]],
    ) -> None:
        self._name = name
        self._endpoints = list(endpoints)
        self._fetcher = Fetcher(limits)
        self._hear = hear
        self._headers = headers

    @property
    def name(self) -> str:
        """The configured name."""
        return self._name

    def read(self, now_ms: int) -> Reading | Unavailable:
        """Scrape every endpoint; blocks up to the timeout. Unavailable when not one of them answered."""
        started = monotonic()
        urls = [endpoint.url for endpoint in self._endpoints]
        outcomes = self._fetcher.fetch([Request(url=url, headers=self._headers(url)) for url in urls])
        news, failures = [], []
        for i, (endpoint, outcome) in enumerate(zip(self._endpoints, outcomes, strict=True)):
            self._endpoints[i], part, failure = self._advance(endpoint, outcome, now_ms)
            news.append(part)
            failures += [failure] if failure else []
        took_ms = (monotonic() - started) * 1e3
        if len(failures) == len(self._endpoints) and not any(part.allocations for part in news):
            reason = "; ".join(failures) or f"no endpoint is configured: give {self.name}=URL"
            return Unavailable(source=self.name, at_ms=now_ms, reason=reason, duration_ms=took_ms)
        return _reading(self.name, now_ms, news, took_ms)

    def close(self) -> None:
        """Close the connections; safe to call twice."""
        self._fetcher.close()

    def _advance(
        self, endpoint: Endpoint, outcome: Body | Failure, now_ms: int
    ) -> tuple[Endpoint, News, str | None]:
        if isinstance(outcome, Failure):
            return *missed(endpoint, self.name, outcome.reason, now_ms), outcome.reason
        try:
            return *self._hear(endpoint, outcome.content, now_ms), None
        except MalformedText as error:
            reason = f"{place(endpoint.url)} answered, but {error}"
            return *missed(endpoint, self.name, reason, now_ms), reason


def endpoints(urls: Iterable[str], interval_ms: int, most_gpus: int = MOST_GPUS) -> tuple[Endpoint, ...]:
    """An endpoint for each URL, once; each may name so many GPUs. Raises UnusableUrl."""
    full = dict.fromkeys(metrics_url(url) for url in urls)
    return tuple(
        Endpoint(
            url=url,
            fallback_node=urlsplit(url).hostname or url,
            interval_ms=interval_ms,
            most_gpus=most_gpus,
        )
        for url in full
    )


def metrics_url(url: str) -> str:
    """The URL as given, with http:// and /metrics where a person left them out. Raises UnusableUrl."""
    full = url if "://" in url else f"http://{url}"
    try:
        parts = urlsplit(full)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.port == 0:
            raise ValueError("no host, or not http")
    except ValueError as error:
        raise UnusableUrl(f"{url!r} is no URL to scrape ({error}): give one like http://HOST:9400") from error
    return full if parts.path.strip("/") else full.rstrip("/") + METRICS_PATH


def _reading(source: str, now_ms: int, news: Sequence[News], took_ms: float) -> Reading:
    gpus: dict[GpuUuid, Gpu] = {}
    samples: dict[GpuUuid, GpuSample] = {}
    of_holders: list[HolderSample] = []
    for part in news:
        mine = [gpu for gpu in part.gpus if gpu.uuid not in gpus]
        uuids = {gpu.uuid for gpu in mine}
        gpus.update((gpu.uuid, gpu) for gpu in mine)
        samples.update((sample.uuid, sample) for sample in part.samples if sample.uuid in uuids)
        of_holders += (sample for sample in part.holder_samples if sample.uuid in uuids)
    return Reading(
        source=source,
        at_ms=now_ms,
        gpus=tuple(gpus.values()),
        samples=tuple(samples.values()),
        allocations=_allocations(news),
        events=tuple({event: None for part in news for event in part.events}),
        gaps=tuple(gap for part in news for gap in part.gaps),
        withheld=tuple(each for part in news for each in part.withheld),
        holder_samples=tuple(of_holders),
        duration_ms=took_ms,
    )


def _allocations(news: Iterable[News]) -> tuple[Allocation, ...] | None:
    """All that the endpoints know of holders, each word once; ``None`` when none of them knows any."""
    looked = [part.allocations for part in news if part.allocations is not None]
    if not looked:
        return None
    return tuple({allocation: None for result in looked for allocation in result})

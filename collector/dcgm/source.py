"""The Source over any number of dcgm-exporters: scrapes them together, and lets none spoil another's tick."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from time import monotonic
from urllib.parse import urlsplit

from collector.dcgm.endpoint import Endpoint, News, heard, missed
from collector.dcgm.fetch import Body, Failure, Fetcher, Limits, place
from collector.dcgm.text import MalformedText
from collector.model import Allocation, Gpu, GpuSample, GpuUuid, Reading, Unavailable

INTERVAL_MS = 30_000
"""dcgm-exporter's own ``--collect-interval``, unless told otherwise."""
METRICS_PATH = "/metrics"


class UnusableUrl(ValueError):
    """A configured endpoint is not an HTTP URL."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DcgmSettings:
    """Where the exporters are and how patient to be; ``headers`` go with each request."""

    urls: tuple[str, ...]
    interval_ms: int = INTERVAL_MS
    limits: Limits = field(default_factory=Limits)
    headers: Mapping[str, str] | None = None
    name: str = "dcgm"


class DcgmSource:
    """A ``collector.source.Source``; nothing is opened before the first read."""

    def __init__(self, settings: DcgmSettings) -> None:
        self._settings = settings
        self._fetcher = Fetcher(settings.limits, settings.headers)
        self._endpoints = [_endpoint(url, settings.interval_ms) for url in dict.fromkeys(settings.urls)]

    @property
    def name(self) -> str:
        """The configured name."""
        return self._settings.name

    def read(self, now_ms: int) -> Reading | Unavailable:
        """Scrape every endpoint; blocks up to the timeout. Unavailable when not one of them answered."""
        started = monotonic()
        outcomes = self._fetcher.fetch([endpoint.url for endpoint in self._endpoints])
        news, failures = [], []
        for place_, (endpoint, outcome) in enumerate(zip(self._endpoints, outcomes, strict=True)):
            self._endpoints[place_], part, failure = _advance(endpoint, outcome, self.name, now_ms)
            news.append(part)
            failures += [failure] if failure else []
        took_ms = (monotonic() - started) * 1e3
        if len(failures) == len(self._endpoints) and not any(part.allocations for part in news):
            reason = "; ".join(failures) or "no endpoint is configured: give dcgm=URL"
            return Unavailable(source=self.name, at_ms=now_ms, reason=reason, duration_ms=took_ms)
        return _reading(self.name, now_ms, news, took_ms)

    def close(self) -> None:
        """Close the connections; safe to call twice."""
        self._fetcher.close()


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


def _endpoint(url: str, interval_ms: int) -> Endpoint:
    full = metrics_url(url)
    return Endpoint(url=full, fallback_node=urlsplit(full).hostname or full, interval_ms=interval_ms)


def _advance(
    endpoint: Endpoint, outcome: Body | Failure, source: str, now_ms: int
) -> tuple[Endpoint, News, str | None]:
    if isinstance(outcome, Failure):
        return *missed(endpoint, source, outcome.reason, now_ms), outcome.reason
    try:
        return *heard(endpoint, outcome.content, now_ms), None
    except MalformedText as error:
        reason = f"{place(endpoint.url)} answered, but {error}"
        return *missed(endpoint, source, reason, now_ms), reason


def _reading(source: str, now_ms: int, news: Sequence[News], took_ms: float) -> Reading:
    gpus: dict[GpuUuid, Gpu] = {}
    samples: dict[GpuUuid, GpuSample] = {}
    for part in news:
        mine = [gpu for gpu in part.gpus if gpu.uuid not in gpus]
        uuids = {gpu.uuid for gpu in mine}
        gpus.update((gpu.uuid, gpu) for gpu in mine)
        samples.update((sample.uuid, sample) for sample in part.samples if sample.uuid in uuids)
    return Reading(
        source=source,
        at_ms=now_ms,
        gpus=tuple(gpus.values()),
        samples=tuple(samples.values()),
        allocations=_allocations(news),
        events=tuple({event: None for part in news for event in part.events}),
        gaps=tuple(gap for part in news for gap in part.gaps),
        duration_ms=took_ms,
    )


def _allocations(news: Iterable[News]) -> tuple[Allocation, ...] | None:
    """All that the exporters know of holders, each word once; ``None`` when none of them knows any."""
    looked = [part.allocations for part in news if part.allocations is not None]
    if not looked:
        return None
    return tuple({allocation: None for found in looked for allocation in found})

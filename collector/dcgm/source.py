"""The Source over dcgm-exporters: where they are, how patient to be, and that is all."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from collector.dcgm.endpoint import heard
from collector.dcgm.fetch import Limits
from collector.dcgm.scrape import ScrapedSource, endpoints

INTERVAL_MS = 30_000
"""dcgm-exporter's own ``--collect-interval``, unless told otherwise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DcgmSettings:
    """Where the exporters are and how patient to be; ``headers`` go with each request."""

    urls: tuple[str, ...]
    interval_ms: int = INTERVAL_MS
    limits: Limits = field(default_factory=Limits)
    headers: Mapping[str, str] = field(default_factory=dict)
    name: str = "dcgm"


def dcgm_source(settings: DcgmSettings) -> ScrapedSource:
    """The source; opens nothing yet. Raises UnusableUrl."""
    return ScrapedSource(
        name=settings.name,
        endpoints=endpoints(settings.urls, settings.interval_ms, settings.limits.gpus),
        limits=settings.limits,
        hear=lambda endpoint, content, now_ms: heard(endpoint, content, now_ms, settings.name),
        headers=lambda _: settings.headers,
    )

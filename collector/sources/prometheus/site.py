"""What a Prometheus knows of its exporters before their samples are read: how many series and how often
scraped, which pods are exporters themselves, how many clusters, and GPUs that no UUID tells apart. Blocks.
"""

import json
from dataclasses import dataclass

import numpy as np

from collector.dcgm.labels import CLUSTER, EXPORTED_POD, NODE, UUID
from collector.dcgm.own_pods import UP, exporters
from collector.sources.prometheus.series import Site, target_of, usual_step_ms
from collector.sources.prometheus.server import PrometheusServer

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
DCGM = '__name__=~"(?i:dcgm)_.+"'
_USUAL_STEP_MS = 30_000
_USUAL_SERIES = 100
_MOST_CLUSTERS = 20
"""Of so many at most the nodes are asked for, five questions each: a company has a handful."""
_COARSE, _FINE = 60, 500
"""Looks at each metric in the window; so many where the first find none: GPUs that were there briefly."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scrapes:
    """How much there is: the most series of a metric at a time, and the times between two scrapes.

    ``fastest_ms`` and ``slowest_ms`` are of targets in the window's last hour with samples.
    """

    series: int
    fastest_ms: int
    slowest_ms: int
    site: Site


def selector(*matchers: str) -> str:
    """The matchers that are not empty, in braces."""
    return "{" + ",".join(matcher for matcher in matchers if matcher) + "}"


def look_at(
    server: PrometheusServer,
    metrics: tuple[str, ...],
    window: tuple[int, int],
    match: str,
    known: frozenset[str] = frozenset(),
) -> Scrapes:
    """What is known of the site; ``known`` are clusters beside those in the window. Raises ImportFailed."""
    name, series, last_ms = _largest(server, metrics, window, match)
    of_name = f'__name__="{name}"'
    steps: dict[tuple[str, ...], int] = {}
    for each in server.samples(selector(of_name, match), last_ms - HOUR_MS, last_ms):
        if (step_ms := usual_step_ms(each.at_ms)) is not None:
            target = target_of(each.labels)
            steps[target] = min(step_ms, steps.get(target, step_ms))
    steps_ms = sorted(steps.values()) or [_USUAL_STEP_MS]
    exported = server.labels(selector(of_name, match, f'{EXPORTED_POD[0]}!=""'), *window)
    clusters = {
        value
        for label in CLUSTER
        for value in server.label_values(label, selector(DCGM, match), *window)
        if value
    }
    return Scrapes(
        series=series,
        fastest_ms=steps_ms[0],
        slowest_ms=steps_ms[-1],
        site=Site(
            step_ms=int(np.median(steps_ms)),
            steps=steps,
            exporters=exporters(_up(server, window, match), exported),
            several_clusters=bool(clusters) and len(clusters | known) > 1,
        ),
    )


def without_uuid(server: PrometheusServer, window: tuple[int, int], match: str) -> tuple[str, ...]:
    """The GPUs that no UUID names, by their target and number (``node1:9400 gpu 0``). Raises ImportFailed."""
    nameless = [f'{label}=""' for label in UUID]
    labels = server.labels(selector(DCGM, match, *nameless, 'gpu!=""'), *window)
    return tuple(sorted({f"{each.get('instance', '')} gpu {each['gpu']}".strip() for each in labels}))


def shared_nodes(server: PrometheusServer, window: tuple[int, int], match: str) -> tuple[str, ...]:
    """The names that nodes of more than one cluster have, with their clusters (``gpu-1 (east, west)``).

    In the store each bears its cluster (``collector.clusters``). Raises ImportFailed.
    """
    clusters = [
        (label, value)
        for label in CLUSTER
        for value in server.label_values(label, selector(DCGM, match), *window)
        if value
    ]
    if len({value for _, value in clusters}) < 2:
        return ()
    found: dict[str, set[str]] = {}
    for label, cluster in clusters[:_MOST_CLUSTERS]:
        of_cluster = selector(DCGM, match, f"{label}={json.dumps(cluster)}")
        for name in NODE:
            for node in server.label_values(name, of_cluster, *window):
                found.setdefault(node, set()).add(cluster)
    return tuple(
        f"{node} ({', '.join(sorted(found[node]))})"
        for node in sorted(found)
        if node and len(found[node]) > 1
    )


def _largest(
    server: PrometheusServer, metrics: tuple[str, ...], window: tuple[int, int], match: str
) -> tuple[str, int, int]:
    """The metric with the most series at a time, that number, and when it had samples last."""
    for looks in (_COARSE, _FINE):
        grid = max((window[1] - window[0]) // looks, MINUTE_MS)
        values = []
        for name in metrics:
            of_name = f'__name__="{name}"'
            counts = server.counts(f"count({selector(of_name, match)})", *window, grid)
            if counts:
                values.append((int(max(count for _, count in counts)), name, counts[-1][0]))
        if values:
            series, name, last_ms = max(values)
            return name, series, last_ms
    return metrics[0], _USUAL_SERIES, window[1]


def _up(server: PrometheusServer, window: tuple[int, int], match: str) -> tuple[dict[str, str], ...]:
    """The labels of each target of the jobs that scrape GPUs, as Prometheus itself has them."""
    jobs = server.label_values("job", selector(DCGM, match), *window)
    return tuple(
        dict(labels)
        for job in jobs
        for labels in server.labels(selector(f'__name__="{UP}"', f"job={json.dumps(job)}"), *window)
    )

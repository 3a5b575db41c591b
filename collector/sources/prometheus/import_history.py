"""Months of dcgm-exporter's history out of a Prometheus server, into whatever takes a ``History``.

Read in pieces, newest settled last, each noted when it is stored: an import that is interrupted anywhere and
run again goes on where it was, and one that is repeated adds nothing. Blocks.

Which stretches of time an import has yet to read. Pure; ranges are half-open ``(from_ms, to_ms)``.
"""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Protocol

from collector.arrow import History
from collector.dcgm.fetch import place
from collector.dcgm.vocabulary import is_known
from collector.sources.prometheus.convert import history_of
from collector.sources.prometheus.series import Site, devices
from collector.sources.prometheus.server import Access, ImportFailed, PrometheusServer, Series
from collector.sources.prometheus.site import (
    DCGM,
    HOUR_MS,
    MINUTE_MS,
    look_at,
    selector,
    shared_nodes,
    without_uuid,
)

Range = tuple[int, int]


def remaining(window: Range, done: Iterable[Range]) -> tuple[Range, ...]:
    """The parts of the window that no done range covers, in order."""
    spans, at = [], window[0]
    for start, end in sorted(done):
        if start >= window[1]:
            break
        if start > at:
            spans.append((at, start))
        at = max(at, end)
    return (*spans, (at, window[1])) if at < window[1] else tuple(spans)


def cut(ranges: Iterable[Range], longest_ms: int) -> Iterator[Range]:
    """The ranges in order, cut into pieces of at most ``longest_ms``."""
    for start, end in ranges:
        for at in range(start, end, longest_ms):
            yield at, min(at + longest_ms, end)


def total_ms(ranges: Iterable[Range]) -> int:
    """How much time the ranges hold."""
    return sum(end - start for start, end in ranges)


SETTLED_MS = 5 * MINUTE_MS
"""The newest minutes are read but not noted as done: a late scrape or remote write may still fill them."""
POINTS = 11_000
"""The most points of one series that Prometheus gives at once (web/api/v1: maximum resolution)."""
_LEAD_STEPS = 5
"""Scrapes before a piece that are read with it: enough for the step of its first."""


class NoDcgmMetrics(ImportFailed):
    """The server has nothing of dcgm-exporter's in the window."""


class ImportStore(Protocol):
    """Where an import goes, and what remembers how far it got: ``collector.store``'s Store is one."""

    def write_history(self, history: History) -> int:
        """Store a piece; the samples that were not there before."""
        ...

    def imported_ranges(self, origin: str) -> tuple[Range, ...]:
        """The stretches of an origin that need not be read again."""
        ...

    def note_import(self, origin: str, from_ms: int, to_ms: int, rows_added: int) -> None:
        """Remember a stretch, after all of it has been stored."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far an import is; times are lengths of history."""

    done_ms: int
    total_ms: int
    rows_added: int
    samples_read: int
    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportSummary:
    """What an import did; ``skipped_ms`` had been imported before.

    Of ``partial_ms`` the server gave only a part, and said why in ``remark``: another import reads it again.
    ``unnamed`` are GPUs without a UUID, which were not read; ``shared_nodes`` names that nodes of several
    clusters have.
    """

    origin: str
    step_ms: int
    metrics: tuple[str, ...]
    gpus: int
    nodes: int
    rows_added: int
    samples_read: int
    pieces: int
    read_ms: int
    skipped_ms: int
    partial_ms: int = 0
    remark: str = ""
    unnamed: tuple[str, ...] = ()
    shared_nodes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportSettings:
    """What to read: ``match`` are label matchers without braces; ``rows`` bounds one piece's samples.

    ``clusters`` are those that are known beside what is read: jobs are told apart from theirs too.
    """

    match: str = ""
    source: str = "prometheus"
    rows: int = 120_000
    threads: int = 4
    clusters: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """What a server has in a window: the metrics Fallow can use, the most series that one of them has.

    ``step_ms`` and ``slowest_ms`` are the shortest and the longest time between two scrapes of a target.
    ``unnamed`` are GPUs without a UUID, which are not read; ``shared_nodes`` names that nodes of several
    clusters have. ``todo`` is what was not imported before.
    """

    origin: str
    metrics: tuple[str, ...]
    step_ms: int
    slowest_ms: int
    series: int
    site: Site
    unnamed: tuple[str, ...]
    shared_nodes: tuple[str, ...]
    todo: tuple[Range, ...]


@dataclass(slots=True)
class _Tally:
    """What has been counted so far."""

    rows_added: int = 0
    samples_read: int = 0
    pieces: int = 0
    read_ms: int = 0
    partial_ms: int = 0
    gpus: set[str] = field(default_factory=set)
    nodes: set[tuple[str, str | None]] = field(default_factory=set)


def survey(
    access: Access, window: Range, *, store: ImportStore, settings: ImportSettings | None = None
) -> Survey:
    """What an import would read, without reading it. Raises ImportFailed."""
    with PrometheusServer(access) as server:
        return _survey(server, access, window, store, settings or ImportSettings())


def dcgm_metrics(server: PrometheusServer, from_ms: int, to_ms: int) -> tuple[str, ...]:
    """The names of what Fallow can read of dcgm-exporter in a window. Raises NoDcgmMetrics, ImportFailed."""
    metrics = tuple(sorted(name for name in server.names(selector(DCGM), from_ms, to_ms) if is_known(name)))
    if not metrics:
        raise NoDcgmMetrics("there is nothing of dcgm-exporter")
    return metrics


def import_history(
    access: Access,
    window: Range,
    *,
    store: ImportStore,
    progress: Callable[[Progress], None] = lambda _: None,
    settings: ImportSettings | None = None,
) -> ImportSummary:
    """Read what the window holds and was not read before, piece by piece, oldest first.

    Raises ImportFailed; what was stored stays. Whatever ``store`` or ``progress`` raises ends it as cleanly.
    """
    settings = settings or ImportSettings()
    tally = _Tally()
    with PrometheusServer(access) as server, ThreadPoolExecutor(settings.threads) as pool:
        found = _survey(server, access, window, store, settings)
        total = total_ms(found.todo)
        for piece in cut(found.todo, _piece_ms(found, settings.rows)):
            messages_before = len(server.partial)
            history = _read(server, pool, plan=found, settings=settings, piece=piece, tally=tally)
            added = store.write_history(history) if len(history.samples) else 0
            settled = min(piece[1], window[1] - SETTLED_MS)
            if len(server.partial) > messages_before:
                tally.partial_ms += piece[1] - piece[0]
            elif settled > piece[0]:
                store.note_import(found.origin, piece[0], settled, added)
            tally.rows_added += added
            tally.read_ms += piece[1] - piece[0]
            progress(_progress(tally, total, piece[1]))
    return ImportSummary(
        origin=found.origin,
        step_ms=found.step_ms,
        metrics=found.metrics,
        gpus=len(tally.gpus),
        nodes=len(tally.nodes),
        rows_added=tally.rows_added,
        samples_read=tally.samples_read,
        pieces=tally.pieces,
        read_ms=total,
        skipped_ms=window[1] - window[0] - total,
        partial_ms=tally.partial_ms,
        remark=next(iter(server.partial), ""),
        unnamed=found.unnamed,
        shared_nodes=found.shared_nodes,
    )


def _survey(
    server: PrometheusServer, access: Access, window: Range, store: ImportStore, settings: ImportSettings
) -> Survey:
    origin = _origin(access, settings.match)
    every = server.names(selector(DCGM, settings.match), *window)
    metrics = tuple(sorted(name for name in every if is_known(name)))
    if not metrics:
        raise NoDcgmMetrics(_nothing(server, origin, window))
    scrapes = look_at(server, metrics, window, settings.match, settings.clusters)
    return Survey(
        origin=origin,
        metrics=metrics,
        step_ms=scrapes.fastest_ms,
        slowest_ms=scrapes.slowest_ms,
        series=scrapes.series,
        site=scrapes.site,
        unnamed=without_uuid(server, window, settings.match),
        shared_nodes=shared_nodes(server, window, settings.match),
        todo=remaining(window, store.imported_ranges(origin)),
    )


def _origin(access: Access, match: str) -> str:
    """What was read, by name: another tenant or another selector is another origin."""
    headers = [f"{name}: {value}" for name, value in sorted(access.headers.items())]
    return " ".join([place(access.url), *([selector(match)] if match else []), *headers])


def _nothing(server: PrometheusServer, origin: str, window: Range) -> str:
    """What is there instead, so that a person sees whether it is the wrong server or the wrong window."""
    others = server.names('{__name__!=""}', *window)
    families = sorted({name.partition("_")[0] for name in others})
    there = f"{len(others)} other metrics ({', '.join(families[:12])})" if others else "nothing at all"
    return (
        f"{origin} has no metrics of dcgm-exporter in the window; it has {there}. Is it the right "
        "server, does --since reach back far enough, and do the label matchers fit?"
    )


def _piece_ms(plan: Survey, rows: int) -> int:
    """As long as Prometheus and memory allow, in whole hours where it is longer than one."""
    points = min(POINTS, max(rows // plan.series, 10))
    longest = points * plan.step_ms
    return longest // HOUR_MS * HOUR_MS if longest > HOUR_MS else longest


def _read(
    server: PrometheusServer,
    pool: ThreadPoolExecutor,
    *,
    plan: Survey,
    settings: ImportSettings,
    piece: Range,
    tally: _Tally,
) -> History:
    """All metrics of one piece; a few steps more at its beginning tell how wide the first samples are."""
    lead_ms = _LEAD_STEPS * plan.slowest_ms

    def read(name: str) -> list[Series]:
        return server.samples(selector(f'__name__="{name}"', settings.match), piece[0] - lead_ms, piece[1])

    series = [each for many in pool.map(read, plan.metrics) for each in many]
    history = history_of(
        devices(series, plan.site),
        source=settings.source,
        from_ms=piece[0],
    )
    tally.pieces += 1
    tally.samples_read += sum(len(each.at_ms) for each in series)
    tally.gpus |= {gpu.uuid for gpu in history.gpus}
    tally.nodes |= {(gpu.node, gpu.cluster) for gpu in history.gpus}
    return history


def _progress(tally: _Tally, whole_ms: int, at_ms: int) -> Progress:
    return Progress(
        done_ms=tally.read_ms,
        total_ms=whole_ms,
        rows_added=tally.rows_added,
        samples_read=tally.samples_read,
        at_ms=at_ms,
    )

"""Makes a report of a kind from a client: who it is about is checked, and a missing name is said.

What takes longest is begun first: the replay of a cluster's week is mostly the engine's work, and runs beside
the rest. The kinds of report bring the charts' libraries with them, so they are imported meanwhile.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, tzinfo

from service.client import Client
from service.errors import FallowError
from service.reports.model import Chart, Report, ReportKind, Span
from service.reports.source import Source
from service.usecases.advised import replayed

SIMULATED = "The GPUs, people and jobs of this report are invented: it shows a simulated cluster."


class BadReport(FallowError):
    """A report cannot be made as it was asked for; the message says what is missing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What to make: the kind, the time, and whom it is about (``user`` and ``project`` are filters too)."""

    kind: ReportKind
    span: Span
    zone: tzinfo = UTC
    user: str | None = None
    project: str | None = None


Maker = Callable[[Source, tzinfo, datetime], Report]


def make(
    client: Client, request: Wanted, made_at: datetime, begin: Callable[[Chart], None] = lambda chart: None
) -> Report:
    """The report. Blocks while it asks. Raises ``BadReport`` and ``ClientError``.

    ``begin`` is told of charts that can be drawn already, while the rest of the report is asked for.
    """
    if request.kind is ReportKind.PROJECT_WEEK and not request.project:
        raise BadReport("a project-week is about one project: name it with --project")
    if request.kind is ReportKind.MY_WEEK and not request.user:
        raise BadReport("a my-week is about one person: name them with --user")
    filters = {name: value for name in ("user", "project") if (value := getattr(request, name))}
    source = Source(client=client, span=request.span, filters=filters, begin=begin)
    with _begun(request.kind, source) as ahead:
        report = _maker(request.kind)(ahead, request.zone, made_at)
    return marked(report) if client.is_simulated() else report


def marked(report: Report) -> Report:
    """The report as one of invented data: its title and its first note say so. Pure."""
    return replace(
        report, title=f"Simulated: {report.title}", notes=(SIMULATED, *report.notes), simulated=True
    )


@contextmanager
def _begun(kind: ReportKind, source: Source) -> Iterator[Source]:
    """The source with its replay begun, where the kind wants one; it has ended when the block has."""
    if kind is not ReportKind.CLUSTER_WEEK or source.about:
        yield source
        return
    import advisor.whatif.replay  # noqa: F401  here, not by both threads at once
    import service.usecases.advice  # noqa: F401

    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="fallow-replay") as beside:
        future = beside.submit(replayed, source.client, source.span.start, source.span.end, {})
        yield replace(source, replayed=future.result)


def _maker(kind: ReportKind) -> Maker:
    match kind:
        case ReportKind.CLUSTER_WEEK:
            from service.reports.cluster_week import cluster_week as maker
        case ReportKind.PROJECT_WEEK:
            from service.reports.project_week import project_week as maker
        case ReportKind.MY_WEEK:
            from service.reports.my_week import my_week as maker
        case ReportKind.RIGHT_SIZING:
            from service.reports.right_sizing import right_sizing as maker
        case ReportKind.CHARGEBACK:
            from service.reports.chargeback import chargeback as maker
        case ReportKind.WAITED:
            from service.reports.waited import waited as maker
    return maker

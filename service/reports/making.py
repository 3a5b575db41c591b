"""Makes a report of a kind from a client: who it is about is checked, and a missing name is said."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo

from service.client import Client
from service.reports.asking import Source
from service.reports.chargeback import chargeback
from service.reports.cluster_week import cluster_week
from service.reports.model import Report, ReportKind, Span
from service.reports.my_week import my_week
from service.reports.project_week import project_week
from service.reports.right_sizing import right_sizing
from service.trouble import Trouble


class BadReport(Trouble):
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
MAKERS: Mapping[ReportKind, Maker] = {
    ReportKind.CLUSTER_WEEK: cluster_week,
    ReportKind.PROJECT_WEEK: project_week,
    ReportKind.MY_WEEK: my_week,
    ReportKind.RIGHT_SIZING: right_sizing,
    ReportKind.CHARGEBACK: chargeback,
}
SAYS: Mapping[ReportKind, str] = {
    ReportKind.CLUSTER_WEEK: "the whole cluster: given against used, states, money, the largest wastes",
    ReportKind.PROJECT_WEEK: "one project: its people and jobs (--project)",
    ReportKind.MY_WEEK: "one person's own jobs and what to change (--user, else you)",
    ReportKind.RIGHT_SIZING: "running jobs for which a smaller share, MIG profile or model would have done",
    ReportKind.CHARGEBACK: "GPU-hours held and used with their price, by project and person",
}


def make(client: Client, wanted: Wanted, made_at: datetime) -> Report:
    """The report. Blocks while it asks. Raises ``BadReport`` and ``ClientError``."""
    if wanted.kind is ReportKind.PROJECT_WEEK and not wanted.project:
        raise BadReport("a project-week is about one project: name it with --project")
    if wanted.kind is ReportKind.MY_WEEK and not wanted.user:
        raise BadReport("a my-week is about one person: name them with --user")
    filters = {name: value for name in ("user", "project") if (value := getattr(wanted, name))}
    source = Source(client=client, span=wanted.span, filters=filters)
    return MAKERS[wanted.kind](source, wanted.zone, made_at)

"""The report for whoever runs the machines, and whoever pays: what was given, used, wasted and given back."""

from datetime import datetime, tzinfo

from service.client.advising import replayed
from service.pages import wording
from service.pages.chart_ranks import most_wasted
from service.pages.naming import named
from service.reports.asking import Source
from service.reports.model import Column, Measure, Report, ReportKind, Section, Table
from service.reports.shared import (
    HELD_COLUMNS,
    JOB_COLUMNS,
    TOP,
    best_jobs,
    head_figures,
    head_of,
    priced,
    state_section,
    use_section,
    waste_chart,
    worst_jobs,
)

PROJECT_COLUMNS = (
    Column(key="project", title="Project"),
    Column(key="people", title="People", measure=Measure.COUNT),
    Column(key="jobs", title="Jobs", measure=Measure.COUNT),
    *HELD_COLUMNS,
)
GIVEN_COLUMNS = (
    Column(key="action", title="Action"),
    Column(key="how", title="How"),
    Column(key="gpu_hours", title="Would have given back", measure=Measure.HOURS),
    Column(key="low", title="At least", measure=Measure.HOURS),
    Column(key="high", title="At most", measure=Measure.HOURS),
    Column(key="money", title="Worth", measure=Measure.MONEY),
    Column(key="times", title="Times", measure=Measure.COUNT),
    Column(key="disturbed", title="Somebody waited", measure=Measure.COUNT),
)


def cluster_week(source: Source, zone: tzinfo, made_at: datetime) -> Report:
    """The whole report. Blocks while it asks. Raises ``ClientError``."""
    head, usage, ledger = head_of(source)
    jobs = source.rows("jobs")
    return Report(
        kind=ReportKind.CLUSTER_WEEK,
        title="The cluster's GPUs: given, used, wasted",
        opening=_opening(head.installed_gpus, head.allocated_gpus, head.used_gpus),
        span=source.span,
        zone=zone,
        subject=None,
        figures=head_figures(head),
        sections=(
            use_section(source, usage, head),
            state_section(ledger),
            _projects(source),
            _people(source),
            Section(
                heading="The ten largest wastes",
                table=Table(
                    name="wastes",
                    columns=priced(JOB_COLUMNS, jobs),
                    rows=worst_jobs(jobs),
                    empty="No job wasted anything.",
                ),
            ),
            Section(
                heading="The ten best uses",
                table=Table(
                    name="best",
                    columns=priced(JOB_COLUMNS, jobs),
                    rows=best_jobs(jobs),
                    empty="No job held a GPU for an hour.",
                ),
            ),
            _given_back(source),
        ),
        currency=head.currency,
        made_at=made_at,
    )


def _opening(installed: float | None, allocated: float | None, used: float | None) -> str:
    if not installed or used is None:
        return "Nothing was measured in this time."
    fallow = max(0.0, (allocated or 0.0) - used)
    return (
        f"Of {wording.gpus(installed)} GPUs, {wording.gpus(allocated)} were handed out and "
        f"{wording.gpus(used)} worked: {wording.gpus(fallow)} lay fallow."
    )


def _projects(source: Source) -> Section:
    rows = [{**row, "project": row["project"] or "unknown"} for row in source.rows("projects")]
    return Section(
        heading="Projects", table=Table(name="projects", columns=priced(PROJECT_COLUMNS, rows), rows=rows)
    )


def _people(source: Source) -> Section:
    people = named(source.frame("people"), "people")
    return Section(
        heading="People by wasted GPU-hours",
        chart=waste_chart(most_wasted(people, top=TOP), "people-by-waste"),
        sentences=("Who wasted most is often who holds most: look at the shares as well.",),
    )


def _given_back(source: Source) -> Section:
    found = replayed(source.client, source.span.start, source.span.end, {})
    rows = [{**row, "currency": found.currency} for row in found.given]
    return Section(
        heading="What advice would have given back",
        sentences=(
            "The recorded time gone through again under today's rules, had everybody consented. Rows "
            "overlap: the same hour is in as many as could have given it back.",
        ),
        table=Table(name="given_back", columns=priced(GIVEN_COLUMNS, rows), rows=rows),
    )

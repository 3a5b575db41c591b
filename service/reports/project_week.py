"""One project's week, for the head of a group: its people, its jobs, its waste."""

from datetime import datetime, tzinfo

from analytics import text
from service.charts.bars import most_wasted
from service.reports.accounted import accounted_section
from service.reports.model import Column, Measure, Report, ReportKind, Section, Table
from service.reports.sections import (
    HELD_COLUMNS,
    JOB_COLUMNS,
    NONE_GOOD,
    TOP,
    best_jobs,
    head_figures,
    head_of,
    notes_on_use,
    opening_of,
    priced,
    state_section,
    use_section,
    waste_chart,
    wastes_section,
)
from service.reports.source import Source
from service.summaries.holders import named

PEOPLE = (
    Column(key="user_name", title="Who"),
    Column(key="jobs", title="Jobs", measure=Measure.COUNT),
    *HELD_COLUMNS,
)


def project_week(source: Source, zone: tzinfo, now: datetime) -> Report:
    """The report of the project in the source's filters. Blocks while it asks. Raises ``ClientError``."""
    project = source.filters["project"]
    head, usage, ledger = head_of(source)
    jobs, people = source.rows("jobs"), source.rows("people")
    total = sum(row["gpu_hours"] or 0.0 for row in people)
    wasted = sum(row["wasted_gpu_hours"] or 0.0 for row in people)
    frame = named(source.frame("people"), "people")
    persons = len({row["user_name"] for row in people if row["user_name"] is not None})
    unnamed = any(row["user_name"] is None for row in people)
    who = text.many(persons, "person", "people") + (" and some unknown" if unnamed else "")
    return Report(
        kind=ReportKind.PROJECT_WEEK,
        title=f"The GPUs of {project}",
        opening=opening_of(
            source,
            f"{who} of {project} held {text.gpu_hours(total)}; {text.gpu_hours(wasted)} of them did nothing."
            if people
            else f"{project} held no GPU in this time.",
            now,
            nobody_held=not people,
        ),
        span=source.span,
        zone=zone,
        subject=project,
        figures=head_figures(head),
        sections=(
            use_section(source, usage, head),
            state_section(ledger),
            Section(
                heading="People",
                chart=waste_chart(most_wasted(frame, top=TOP), "people-by-waste"),
                table=Table(name="people", columns=priced(PEOPLE, people), rows=people),
            ),
            wastes_section(jobs, "The largest wastes"),
            Section(
                heading="The best uses",
                table=Table(
                    name="best",
                    columns=priced(JOB_COLUMNS, jobs),
                    rows=best_jobs(jobs),
                    empty=NONE_GOOD,
                ),
            ),
            *accounted_section(source, "user"),
        ),
        currency=head.currency,
        made_at=now,
        notes=notes_on_use(jobs),
    )

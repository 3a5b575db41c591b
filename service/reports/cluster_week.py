"""The report for whoever runs the machines, and whoever pays: what was given, used, wasted and given back."""

from dataclasses import asdict
from datetime import datetime, tzinfo

from service.charts.bars import most_wasted
from service.reports.accounted import accounted_section
from service.reports.model import Column, Figure, Measure, Report, ReportKind, Section, Table
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
from service.reports.waited import waited_section
from service.summaries.headline import sentence
from service.summaries.holders import named
from service.summaries.savings import Savings, told_class, told_total
from service.usecases.advised import Replayed, given_back
from service.usecases.recurring import recurred

PROJECT_COLUMNS = (
    Column(key="project", title="Project"),
    Column(key="people", title="People", measure=Measure.COUNT),
    Column(key="jobs", title="Jobs", measure=Measure.COUNT),
    *HELD_COLUMNS,
)
HABIT_COLUMNS = (
    Column(key="user", title="Whose, or which job"),
    Column(key="kind", title="Kind"),
    Column(key="times", title="Times", measure=Measure.COUNT),
    Column(key="days", title="Days", measure=Measure.COUNT),
    Column(key="idle_gpu_hours", title="Idle", measure=Measure.HOURS),
    Column(key="limit_h", title="Limit, h", measure=Measure.COUNT),
    Column(key="gives_back_gpu_hours", title="Would have given back", measure=Measure.HOURS),
    Column(key="ended_jobs", title="Jobs ended that worked again", measure=Measure.COUNT),
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
DID_COLUMNS = (
    Column(key="what", title="What was done"),
    Column(key="worked_gpu_hours", title="Gave back", measure=Measure.HOURS),
    Column(key="held_gpu_hours", title="Others held", measure=Measure.HOURS),
    Column(key="freed_gpu_hours", title="Freed", measure=Measure.HOURS),
    Column(key="money", title="Worth", measure=Measure.MONEY),
    Column(key="times", title="Times", measure=Measure.COUNT),
    Column(key="jobs", title="Jobs", measure=Measure.COUNT),
    Column(key="coverage_ratio", title="Measured", measure=Measure.RATIO),
)


def cluster_week(source: Source, zone: tzinfo, now: datetime) -> Report:
    """The report, of a part where the source is narrowed. Blocks while it asks. Raises ``ClientError``.

    What advice would have given back, and what actions did, is worked out for the whole cluster alone.
    """
    head, usage, ledger = head_of(source)
    jobs, part = source.rows("jobs"), source.about
    did = None if part else given_back(source.client, source.span.start, source.span.end)
    drawn = (use_section(source, usage, head), state_section(ledger), _projects(source), _people(source))
    for section in drawn:
        if section.chart is not None:
            source.begin(section.chart)
    return Report(
        kind=ReportKind.CLUSTER_WEEK,
        title=f"The GPUs of {part}: given, used, wasted"
        if part
        else "The cluster's GPUs: given, used, wasted",
        opening=opening_of(source, f"{sentence(head, part)}.", now),
        span=source.span,
        zone=zone,
        subject=part,
        figures=(*head_figures(head), *(() if did is None else (_figure(did),))),
        sections=(
            *drawn,
            wastes_section(jobs, "The ten largest wastes"),
            Section(
                heading="The ten best uses",
                table=Table(
                    name="best",
                    columns=priced(JOB_COLUMNS, jobs),
                    rows=best_jobs(jobs),
                    empty=NONE_GOOD,
                ),
            ),
            *waited_section(source),
            *accounted_section(source, "user"),
            *(() if part else (_recurs(source),)),
            *(() if source.replayed is None else (_given_back(source.replayed()),)),
            *(() if did is None else (_did_give_back(did),)),
        ),
        currency=head.currency,
        made_at=now,
        notes=notes_on_use(jobs),
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


def _recurs(source: Source) -> Section:
    """The idle times of the window that come again and again, and what a limit would have given back."""
    habits = recurred(source.client, source.span.start, source.span.end).habits
    rows = [
        {
            **each,
            "user": each["user"] or f"unknown: {each['job']}",
            "kind": each["kind"] or "unknown",
            "limit_h": each["limit_s"] / 3600,
        }
        for each in habits
    ]
    return Section(
        heading="What recurs",
        sentences=(
            "Idle times of one person's, or of one job of an unknown owner, that came three times or more on "
            "two days or more; a limit is on the "
            "idle time after which a job goes back to its queue. What it would have given back is of times "
            "after which the job did not work again. They overlap with what advice would have given back.",
        ),
        table=Table(name="recurs", columns=HABIT_COLUMNS, rows=rows, empty="Nothing recurs."),
    )


def _given_back(replay: Replayed) -> Section:
    rows = [{**row, "currency": replay.currency} for row in replay.given]
    return Section(
        heading="What advice would have given back",
        sentences=(
            "The recorded time gone through again under today's rules, had everybody consented. Rows "
            "overlap: the same hour is in as many as could have given it back.",
        ),
        table=Table(name="given_back", columns=priced(GIVEN_COLUMNS, rows), rows=rows),
    )


def _figure(did: Savings) -> Figure:
    return Figure(
        key="given_back_gpu_hours",
        label="Given back by actions",
        value=did.total.worked_gpu_hours,
        measure=Measure.HOURS,
        help="actions took it from one job, and another worked in it",
    )


def _did_give_back(did: Savings) -> Section:
    rows = [{**asdict(each), "what": told_class(each.action)} for each in did.classes]
    return Section(
        heading="What the actions did give back",
        sentences=(
            told_total(did.total),
            "Counted in the ledger: time on a GPU that an action took from a job, in which a job that came "
            "after it held that GPU and computed. Freed is the time that its job was off it, whoever came.",
        ),
        table=Table(
            name="did_give_back",
            columns=priced(DID_COLUMNS, rows),
            rows=rows,
            empty="No action was done in this time.",
        ),
    )

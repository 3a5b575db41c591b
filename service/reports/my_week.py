"""One person's own week, kindly: what they held and used, and which setting would change what."""

from collections.abc import Sequence
from datetime import datetime, tzinfo
from typing import TYPE_CHECKING

from service.client import ClientError
from service.reports.accounted import accounted_rows, accounted_section
from service.reports.model import Column, Figure, Measure, Report, ReportKind, Section, Table
from service.reports.sections import (
    HELD_COLUMNS,
    energy_figures,
    head_of,
    job_rows,
    notes_on_use,
    opening_of,
    priced,
    use_section,
)
from service.reports.source import Source
from service.schemas.advice import AdviceRow
from service.summaries import accounted
from service.summaries.headline import USED
from service.summaries.recommendations import Held, changes, held_of, measured_of, told_held
from service.usecases.advised import advised
from service.usecases.recurring import recurred, told_to_owner

if TYPE_CHECKING:
    from service.reports.sections import ReportedJob


JOBS = (
    Column(key="name", title="Job"),
    Column(key="job", title="Id"),
    Column(key="gpus", title="GPUs", measure=Measure.COUNT),
    *HELD_COLUMNS,
    Column(key="verdict", title="Verdict"),
    Column(key="kinds", title="Found"),
)
SHOWN = 20
CHANGE = "What to change"
NOT_MEASURED = "Nobody measured what you made of your GPUs, so nothing is advised."


def my_week(source: Source, zone: tzinfo, now: datetime) -> Report:
    """The report of the user in the source's filters. Blocks while it asks. Raises ``ClientError``."""
    user = source.filters["user"]
    head, usage, _ = head_of(source)
    jobs = job_rows(source.rows("jobs"))
    holdings = held_of(jobs, utilization=head.utilization_ratio, measured=head.measured_ratio)
    sentence = told_held(holdings, None)
    empty = "" if jobs else accounted.instead(accounted_rows(source, "user"), sentence)
    is_measured = bool(jobs) or empty == sentence
    shown = sorted(jobs, key=lambda row: -(row["gpu_hours"] or 0.0))[:SHOWN]
    return Report(
        kind=ReportKind.MY_WEEK,
        title=f"Your GPUs, {user}",
        opening=opening_of(source, sentence, now, nobody_held=not jobs),
        span=source.span,
        zone=zone,
        subject=user,
        figures=_figures(holdings) if is_measured else (),
        sections=(
            *((use_section(source, usage, head, you=True),) if jobs else ()),
            _changes(source, jobs) if is_measured else Section(heading=CHANGE, sentences=(NOT_MEASURED,)),
            Section(
                heading="Your jobs",
                table=Table(name="jobs", columns=priced(JOBS, jobs), rows=shown, empty=empty),
                sentences=(f"The {SHOWN} largest of {len(jobs)}.",) if len(jobs) > SHOWN else (),
            ),
            *accounted_section(source, "user"),
        ),
        currency=head.currency,
        made_at=now,
        notes=(
            "Only you and whoever runs the machines get these numbers from this report.",
            *notes_on_use(jobs),
        ),
    )


def _figures(holdings: Held) -> tuple[Figure, ...]:
    return (
        Figure(key="held_gpu_hours", label="Held", value=holdings.held_gpu_hours, measure=Measure.HOURS),
        Figure(
            key="used_gpu_hours",
            label="Used",
            value=holdings.used_gpu_hours,
            measure=Measure.HOURS,
            mark=holdings.mark,
        ),
        Figure(
            key="wasted_gpu_hours",
            label="Did nothing",
            value=holdings.wasted_gpu_hours,
            measure=Measure.HOURS,
        ),
        Figure(
            key="utilization_ratio",
            label=USED,
            value=holdings.utilization_ratio,
            measure=Measure.RATIO,
            mark=holdings.mark,
        ),
        *energy_figures(holdings.energy, holdings.wasted_energy),
        Figure(
            key="measured_ratio",
            label="Measured, of held time",
            value=holdings.measured_ratio,
            measure=Measure.RATIO,
        ),
    )


def _changes(source: Source, jobs: "Sequence[ReportedJob]") -> Section:
    """What to change, with the exact setting where there is one; what could not be advised is said."""
    unsaid: tuple[str, ...] = ()
    advice: Sequence[AdviceRow] = ()
    try:
        advice = advised(source.client).advice
    except ClientError as error:
        unsaid = (f"Nothing could be advised about what runs now: {error}",)
    recurs = recurred(source.client, source.span.start, source.span.end).habits
    habits = [told_to_owner(each) for each in recurs if each["user"] == source.filters["user"]]
    measured = measured_of(source.rows("ledger_by_job"))
    recommendations = changes(jobs, advice, source.rows("findings"), measured, name=None, habits=habits)
    return Section(
        heading=CHANGE,
        sentences=(*unsaid, *recommendations.sentences),
        commands=recommendations.commands,
    )

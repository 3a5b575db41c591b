"""Which jobs asked for more GPU than they used, and what would have done: a share, a MIG profile, a model."""

from datetime import datetime, tzinfo
from typing import TYPE_CHECKING

from analytics import text
from analytics.vocabulary.actions import ActionClass
from service.reports.model import Column, Figure, Measure, Report, ReportKind, Section, Table
from service.reports.sections import currency_of, job_rows
from service.reports.source import Source
from service.schemas.advice import AdviceRow
from service.usecases.advised import advised
from service.usecases.recurring import GAIN_UNKNOWN, known_gain

if TYPE_CHECKING:
    from service.reports.sections import ReportedJob


CLASSES = (ActionClass.RIGHT_SIZE, ActionClass.PACK, ActionClass.CAP_MEMORY)
COLUMNS = (
    Column(key="job", title="Job"),
    Column(key="user_name", title="Whose"),
    Column(key="class", title="Kind"),
    Column(key="what", title="What"),
    Column(key="why", title="Why"),
    Column(key="gain_gpu_hours", title="Would bring", measure=Measure.HOURS),
    Column(key="gain_money", title="Worth", measure=Measure.MONEY),
    Column(key="risk", title="Risk"),
    Column(key="verdict", title="Verdict"),
    Column(key="kinds", title="Found"),
)


def right_sizing(source: Source, zone: tzinfo, made_at: datetime) -> Report:
    """The report, as of the newest sample; jobs of the window alone. Raises ``ClientError``."""
    jobs = {row["job"]: row for row in job_rows(source.rows("jobs"))}
    found = advised(source.client)
    advice = [row for row in found.advice if row["class"] in CLASSES and row["job"] in jobs]
    advice.sort(key=lambda row: -(row["gain_gpu_hours"] or 0.0))
    rows = [_row(each, jobs[str(each["job"])]) for each in advice]
    gain, unknown = known_gain(advice)
    money = [row["gain_money"] for row in advice if row["gain_gpu_hours"] is not None]
    prices = [each for each in money if each is not None]
    worth = sum(prices) if money and len(prices) == len(money) else None
    brings = f"{text.many(len(rows), 'suggestion')} for running jobs would bring {text.gpu_hours(gain)}"
    of = f"; of {unknown} {GAIN_UNKNOWN}" if unknown else ""
    if rows and unknown == len(rows):
        brings, of = (
            f"{text.many(unknown, 'suggestion')} for running jobs",
            f"; {GAIN_UNKNOWN} they would bring",
        )
    return Report(
        kind=ReportKind.RIGHT_SIZING,
        title="Smaller would have done",
        opening=(
            f"{brings}{of}."
            if rows
            else "Nothing that runs now asks for more than it uses, as far as was measured."
        ),
        span=source.span,
        zone=zone,
        subject=source.filters.get("project") or source.filters.get("user"),
        figures=(
            Figure(key="suggestions", label="Suggestions", value=len(rows), measure=Measure.COUNT),
            Figure(
                key="gain_gpu_hours",
                label="Would bring",
                value=None if unknown == len(rows) and rows else gain,
                measure=Measure.HOURS,
            ),
            Figure(key="gain_money", label="Worth", value=worth, measure=Measure.MONEY),
        ),
        sections=(
            Section(
                heading="Suggestions",
                table=Table(
                    name="suggestions",
                    columns=tuple(c for c in COLUMNS if c.key != "gain_money" or any(money)),
                    rows=rows,
                    empty="Nothing to suggest.",
                ),
            ),
        ),
        currency=currency_of(rows),
        made_at=made_at,
        notes=("How a job would run on another model of GPU was not measured: try it for an hour first.",),
    )


def _row(advice: AdviceRow, job: "ReportedJob") -> dict[str, object]:
    told = {"user_name": job["user_name"], "verdict": job["verdict"], "kinds": job["kinds"]}
    return {**advice, **told, "gpus": len(advice["gpus"])}

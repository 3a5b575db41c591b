"""Which jobs asked for more GPU than they used, and what would have done: a share, a MIG profile, a model."""

from collections.abc import Sequence
from datetime import datetime, tzinfo
from typing import TYPE_CHECKING

from analytics import text
from analytics.vocabulary.actions import ActionClass
from service.reports.model import Column, Figure, Measure, Report, ReportKind, Section, Table
from service.reports.sections import currency_of, job_rows
from service.reports.source import Source
from service.schemas.advice import AdviceRow
from service.usecases.advised import advised
from service.usecases.recurring import known_gain, told_gain

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
    Column(key="past_gain_gpu_hours", title="Would have left", measure=Measure.HOURS),
    Column(key="gain_money", title="Worth", measure=Measure.MONEY),
    Column(key="risk", title="Risk"),
    Column(key="verdict", title="Verdict"),
    Column(key="kinds", title="Found"),
)


def right_sizing(source: Source, zone: tzinfo, now: datetime) -> Report:
    """The report, as of the newest sample; jobs of the window alone. Raises ``ClientError``."""
    jobs = {row["job"]: row for row in job_rows(source.rows("jobs"))}
    answer = advised(source.client)
    advice = [row for row in answer.advice if row["class"] in CLASSES and row["job"] in jobs]
    advice.sort(key=lambda row: -(row["gain_gpu_hours"] or 0.0))
    rows = [_row(each, jobs[str(each["job"])]) for each in advice]
    gain = known_gain(advice)
    empty = {key for key in ("gain_money", "past_gain_gpu_hours") if not any(row[key] for row in rows)}
    return Report(
        kind=ReportKind.RIGHT_SIZING,
        title="Smaller would have done",
        opening=_opening(advice),
        span=source.span,
        zone=zone,
        subject=source.filters.get("project") or source.filters.get("user"),
        figures=(
            Figure(key="suggestions", label="Suggestions", value=len(rows), measure=Measure.COUNT),
            Figure(
                key="gain_gpu_hours",
                label="Would bring, coming hours",
                value=gain.coming_gpu_hours,
                measure=Measure.HOURS,
            ),
            Figure(
                key="past_gain_gpu_hours",
                label="Would have left, past hours",
                value=gain.past_gpu_hours,
                measure=Measure.HOURS,
            ),
            Figure(
                key="gain_money",
                label="Worth, coming hours",
                value=gain.coming_money,
                measure=Measure.MONEY,
            ),
            Figure(
                key="past_gain_money", label="Worth, past hours", value=gain.past_money, measure=Measure.MONEY
            ),
        ),
        sections=(
            Section(
                heading="Suggestions",
                table=Table(
                    name="suggestions",
                    columns=tuple(c for c in COLUMNS if c.key not in empty),
                    rows=rows,
                    empty="Nothing to suggest.",
                ),
            ),
        ),
        currency=currency_of(rows),
        made_at=now,
        notes=("How a job would run on another model of GPU was not measured: try it for an hour first.",),
    )


def _opening(advice: Sequence[AdviceRow]) -> str:
    """How much is suggested, and what it brings: coming hours and past ones apart."""
    if not advice:
        return "Nothing that runs now asks for more than it uses, as far as was measured."
    count = f"{text.many(len(advice), 'suggestion')} for running jobs"
    return f"{count}: {told_gain(advice)}."


def _row(advice: AdviceRow, job: "ReportedJob") -> dict[str, object]:
    fields_shown = {"user_name": job["user_name"], "verdict": job["verdict"], "kinds": job["kinds"]}
    gain = advice["gain_gpu_hours"]
    hours = {
        "gain_gpu_hours": None if advice["gain_is_past"] else gain,
        "past_gain_gpu_hours": gain if advice["gain_is_past"] else None,
    }
    return {**advice, **fields_shown, **hours, "gpus": len(advice["gpus"])}

"""One person's own week, kindly: what they held and used, and which setting would change what."""

from collections.abc import Mapping, Sequence
from datetime import datetime, tzinfo
from typing import Any

from service.client import ClientError
from service.client.advising import advised
from service.pages import wording
from service.reports.asking import Source
from service.reports.model import Column, Figure, Measure, Report, ReportKind, Section, Table
from service.reports.shared import HELD_COLUMNS, head_of, job_rows, priced, use_section

JOBS = (
    Column(key="name", title="Job"),
    Column(key="job", title="Id"),
    Column(key="gpus", title="GPUs", measure=Measure.COUNT),
    *HELD_COLUMNS,
)
SHOWN = 20
SMALL_WASTE = 0.05
MOST_SENTENCES = 5
WORTH_TELLING_GPU_HOURS = 1.0
WHY_IDLE = (
    "Did it wait for data, for itself to start, or for you? Asking for GPUs later, or ending a job when it "
    "is done, gives them back."
)


def my_week(source: Source, zone: tzinfo, made_at: datetime) -> Report:
    """The report of the user in the source's filters. Blocks while it asks. Raises ``ClientError``."""
    user = source.filters["user"]
    head, usage, _ = head_of(source)
    jobs = job_rows(source.rows("jobs"))
    held = sum(row["gpu_hours"] or 0.0 for row in jobs)
    used = sum(row["used_gpu_hours"] or 0.0 for row in jobs)
    wasted = sum(row["wasted_gpu_hours"] or 0.0 for row in jobs)
    shown = sorted(jobs, key=lambda row: -(row["gpu_hours"] or 0.0))[:SHOWN]
    return Report(
        kind=ReportKind.MY_WEEK,
        title=f"Your GPUs, {user}",
        opening=_opening(len(jobs), held, used, wasted),
        span=source.span,
        zone=zone,
        subject=user,
        figures=_figures(held, used, wasted, head.utilization_ratio),
        sections=(
            *((use_section(source, usage, head),) if jobs else ()),
            _changes(source, jobs),
            Section(
                heading="Your jobs",
                table=Table(
                    name="jobs", columns=priced(JOBS, jobs), rows=shown, empty="You held no GPU in this time."
                ),
                sentences=(f"The {SHOWN} largest of {len(jobs)}.",) if len(jobs) > SHOWN else (),
            ),
        ),
        currency=head.currency,
        made_at=made_at,
        notes=("Only you and whoever runs the machines get these numbers from this report.",),
    )


def _opening(jobs: int, held: float, used: float, wasted: float) -> str:
    if not jobs:
        return "You held no GPU in this time."
    many = "One job" if jobs == 1 else f"{jobs} jobs"
    said = f"{many} of yours held {wording.hours(held)} and used {wording.hours(used)} of them."
    if held and wasted / held <= SMALL_WASTE:
        return f"{said} Next to nothing was wasted: thank you."
    return f"{said} {wording.hours(wasted)} did nothing at all."


def _figures(held: float, used: float, wasted: float, utilization: float | None) -> tuple[Figure, ...]:
    return (
        Figure(key="held_gpu_hours", label="Held", value=held, measure=Measure.HOURS),
        Figure(key="used_gpu_hours", label="Used", value=used, measure=Measure.HOURS),
        Figure(key="wasted_gpu_hours", label="Did nothing", value=wasted, measure=Measure.HOURS),
        Figure(key="utilization_ratio", label="Utilization", value=utilization, measure=Measure.RATIO),
    )


def _changes(source: Source, jobs: Sequence[Mapping[str, Any]]) -> Section:
    """What to change, with the exact setting where there is one: advice, findings, else plain numbers."""
    ids = {row["job"] for row in jobs}
    said: list[dict[str, Any]] = []
    unsaid: tuple[str, ...] = ()
    try:
        said = [row for row in advised(source.client).advice if row["job"] in ids]
    except ClientError as error:
        unsaid = (f"Nothing could be advised about what runs now: {error}",)
    found = tuple(row["sentence"] for row in source.rows("findings"))[:MOST_SENTENCES]
    sentences = (*unsaid, *(f"{row['what']} {row['why']}" for row in said), *found)
    return Section(
        heading="What to change",
        sentences=sentences or _by_numbers(jobs) or ("Nothing: nothing was found to complain about.",),
        commands=tuple(setting for row in said for setting in _settings(row)),
    )


def _by_numbers(jobs: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """Where most was wasted, when nothing else is known of it."""
    told = []
    for row in sorted(jobs, key=lambda each: -(each["wasted_gpu_hours"] or 0.0))[:3]:
        wasted, held = row["wasted_gpu_hours"] or 0.0, row["gpu_hours"] or 0.0
        if held and wasted >= WORTH_TELLING_GPU_HOURS:
            told.append(
                f"{row['name']} ({row['job']}) held {wording.hours(held)} on {row['gpus']} GPUs; "
                f"{wording.percent(wasted / held)} of that did nothing."
            )
    return (*told, WHY_IDLE) if told else ()


def _settings(row: dict[str, Any]) -> list[str]:
    """The settings that an advice's steps name, as a shell takes them."""
    return [f"export {name}={value}" for step in row["steps"] for name, value in (step.get("settings") or [])]

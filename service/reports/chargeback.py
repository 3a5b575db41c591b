"""Who pays what: GPU-hours held and used, and their price, a row a project and person."""

from datetime import datetime, tzinfo

from analytics import text
from service import energy, wording
from service.reports.accounted import accounted_rows, accounted_section
from service.reports.model import Column, Figure, Measure, Report, ReportKind, Section, Table
from service.reports.sections import currency_of, energy_figures, notes_on_use, opening_of, wastes_section
from service.reports.source import Source
from service.summaries.recommendations import any_upper_bound

COLUMNS = (
    Column(key="project", title="Project"),
    Column(key="user_name", title="Who"),
    Column(key="jobs", title="Jobs", measure=Measure.COUNT),
    Column(key="gpu_hours", title="Held", measure=Measure.HOURS),
    Column(key="used_gpu_hours", title="Used", measure=Measure.HOURS, bound="bound_used_gpu_hours"),
    Column(key="wasted_gpu_hours", title="Wasted", measure=Measure.HOURS),
    Column(key="energy_kwh", title="Energy", measure=Measure.ENERGY),
    Column(key="wasted_energy_kwh", title="Energy wasted", measure=Measure.ENERGY),
    Column(key="cost", title="Price", measure=Measure.MONEY),
    Column(key="currency", title="Currency"),
)


def chargeback(source: Source, zone: tzinfo, now: datetime) -> Report:
    """The report; prices are those of the configuration, by GPU model. Raises ``ClientError``."""
    rows = sorted(
        source.rows("people"),
        key=lambda row: (row["project"] or "", -(row["gpu_hours"] or 0.0), row["user_name"] or ""),
    )
    gpu_hours = sum(row["gpu_hours"] or 0.0 for row in rows)
    used = sum(row["used_gpu_hours"] or 0.0 for row in rows)
    costs = [cost for row in rows if (cost := row["cost"]) is not None]
    cost = sum(costs) if rows and len(costs) == len(rows) else None
    jobs = source.rows("jobs")
    empty = "Nobody held a GPU in this time."
    is_measured = bool(rows) or not accounted_rows(source, "user")
    most, mark = ("at most ", wording.AT_MOST) if any_upper_bound(jobs) else ("", "")
    return Report(
        kind=ReportKind.CHARGEBACK,
        title="GPU-hours and their price",
        opening=opening_of(
            source,
            f"{text.many(len(rows), 'holder')} held {text.gpu_hours(gpu_hours)} and used {most}"
            f"{text.gpu_hours(used)}."
            if rows
            else empty,
            now,
            nobody_held=not rows,
        ),
        span=source.span,
        zone=zone,
        subject=source.filters.get("project"),
        figures=(
            Figure(
                key="gpu_hours", label="Held", value=gpu_hours if is_measured else None, measure=Measure.HOURS
            ),
            _used(used if is_measured else None, mark),
            *(energy_figures(energy.used(rows), energy.wasted(rows)) if is_measured else ()),
            Figure(key="cost", label="Price", value=cost, measure=Measure.MONEY),
        ),
        sections=(
            Section(
                heading="By project and person", table=Table(name="chargeback", columns=COLUMNS, rows=rows)
            ),
            *accounted_section(source, "project"),
            *accounted_section(source, "user"),
            *((wastes_section(jobs, "The ten largest wastes"),) if is_measured else ()),
        ),
        currency=currency_of(rows),
        made_at=now,
        notes=(
            *(
                ()
                if not rows or cost is not None
                else ("Some hours have no price: see [prices] in the configuration.",)
            ),
            *notes_on_use(jobs),
        ),
    )


def _used(hours: float | None, mark: str) -> Figure:
    return Figure(key="used_gpu_hours", label="Used", value=hours, measure=Measure.HOURS, mark=mark)

"""How a report's values are written: the dashboard's own wording, chosen by measure. Pure."""

from collections.abc import Mapping
from datetime import datetime, tzinfo

from analytics import text
from service import wording
from service.reports.model import Column, Figure, Measure, Report


def written(value: object, measure: Measure, currency: str | None = None) -> str:
    """The value as people read it, with its unit; a dash where there is none."""
    if text.missing(value):
        return text.NOTHING
    number = float(value) if isinstance(value, int | float) else 0.0
    match measure:
        case Measure.TEXT:
            return str(value)
        case Measure.COUNT:
            return text.count(number)
        case Measure.GPUS:
            return text.gpus(number)
        case Measure.HOURS:
            return text.gpu_hours(number)
        case Measure.RATIO:
            return text.percent(number)
        case Measure.COVERAGE:
            return text.coverage(number)
        case Measure.MONEY:
            return text.money(number, currency)
        case Measure.ENERGY:
            return text.energy(number)
        case Measure.BYTES:
            return text.size(number)


def figure_text(figure: Figure, currency: str | None) -> str:
    """A figure as people read it, marked where it is a bound."""
    return marked(written(figure.value, figure.measure, currency), figure.mark)


def cell_text(row: Mapping[str, object], column: Column, currency: str | None) -> str:
    """A table's cell as people read it, marked where it is a bound."""
    return marked(written(row[column.key], column.measure, currency), mark_of(row, column))


def marked(value: str, mark: str) -> str:
    """What is written, with its mark; a dash is no bound of anything."""
    return value if value == text.NOTHING else f"{mark}{value}"


def mark_of(row: Mapping[str, object], column: Column) -> str:
    """What stands before a row's value in this column: a sign where it is a bound."""
    hours = row.get(column.bound)
    is_marked = isinstance(hours, int | float) and wording.is_bound(hours)
    return wording.AT_MOST if is_marked else ""


def period(report: Report) -> str:
    """The report's time, in its zone: "14 Nov 00:00 to 21 Nov 00:00, Europe/Berlin"."""
    return f"{day(report.span.start, report.zone)} to {day(report.span.end, report.zone)}, {report.zone}"


def day(at: datetime, zone: tzinfo) -> str:
    """A point of time with its year."""
    return text.whole(at).astimezone(zone).strftime("%d %b %Y %H:%M").lstrip("0")

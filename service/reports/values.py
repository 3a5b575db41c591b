"""How a report's values are written: the dashboard's own wording, chosen by measure. Pure."""

from datetime import datetime, tzinfo

from analytics import text
from service.reports.model import Measure, Report


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


def period(report: Report) -> str:
    """The report's time, in its zone: "14 Nov 00:00 to 21 Nov 00:00, Europe/Berlin"."""
    return f"{day(report.span.start, report.zone)} to {day(report.span.end, report.zone)}, {report.zone}"


def day(at: datetime, zone: tzinfo) -> str:
    """A point of time with its year."""
    return text.whole(at).astimezone(zone).strftime("%d %b %Y %H:%M").lstrip("0")

"""A report as HTML, Markdown, CSV or JSON. Templates are files; a site's own come before ours.

The HTML stands on its own: no network, no script, charts inside it. Mail programs drop drawings (SVG); for
them ``Pictures.PNG`` puts PNGs inside, and ``Pictures.ATTACHED`` names attachments (``cid:NAME``).
"""

import csv
import io
import json
import re
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from analytics import text
from service import wording
from service.errors import FallowError
from service.printable import on_a_line, unlinked
from service.reports import charts
from service.reports.model import Chart, Format, Measure, Report, Table
from service.reports.values import cell_text, day, figure_text, period, written

if TYPE_CHECKING:
    from markupsafe import Markup


OURS = Path(__file__).parent / "templates"
NUMBERS = frozenset(Measure) - {Measure.TEXT}
BOUNDS = {wording.AT_MOST: "at most", wording.AT_LEAST: "at least"}
"""How a figure's mark is written where a program reads it."""


class Pictures(StrEnum):
    """How the HTML carries its charts."""

    SVG = "svg"
    PNG = "png"
    ATTACHED = "attached"


class BadTemplate(FallowError):
    """A template, most likely the site's own, cannot be used; the message says where and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Style:
    """How reports of a site are written. ``templates`` is its folder of own templates."""

    templates: Path | None = None
    pictures: Pictures = Pictures.SVG


def render(
    report: Report, format: Format, style: Style | None = None, drawings: charts.Drawings | None = None
) -> str:
    """The report as text; ``drawings`` may be begun. Raises ``BadTemplate``, ``charts.CannotDraw``."""
    style, drawings = style or Style(), drawings or charts.Drawings()
    match format:
        case Format.HTML:
            return _templated("report.html.j2", report, style, drawings)
        case Format.MARKDOWN:
            return _templated("report.md.j2", report, style, drawings)
        case Format.CSV:
            return _csv(report)
        case Format.JSON:
            return json.dumps(plain(report), indent=1, allow_nan=False, ensure_ascii=False) + "\n"


def plain(report: Report) -> dict[str, object]:
    """The report as JSON-ready values: bare numbers, units in the names."""
    return {
        "kind": report.kind.value,
        "title": report.title,
        "opening": report.opening,
        "subject": report.subject,
        "simulated": report.simulated,
        "from": report.span.start.isoformat(),
        "to": report.span.end.isoformat(),
        "made_at": report.made_at.isoformat(),
        "currency": report.currency,
        "figures": {figure.key: _bare(figure.value) for figure in report.figures},
        "bounds": {
            figure.key: BOUNDS[figure.mark]
            for figure in report.figures
            if figure.mark and figure.value is not None
        },
        "tables": {table.name: _records(table) for table in report.tables},
        "charts": {s.chart.name: s.chart.says for s in report.sections if s.chart is not None},
        "advice": [
            {"heading": s.heading, "sentences": list(s.sentences), "commands": list(s.commands)}
            for s in report.sections
            if s.sentences or s.commands
        ],
        "notes": list(report.notes),
    }


def attachments(report: Report) -> dict[str, bytes]:
    """The charts as PNGs by name, for a mail whose HTML was made with ``Pictures.ATTACHED``."""
    drawn = (section.chart for section in report.sections)
    return {chart.name: charts.png(chart.drawing) for chart in drawn if chart is not None}


def _csv(report: Report) -> str:
    """The first table of the report, its most important one: bare numbers, columns named with their units."""
    if not report.tables:
        return ""
    table = report.tables[0]
    out = io.StringIO()
    lines = csv.DictWriter(out, _keys(table), lineterminator="\n")
    lines.writeheader()
    lines.writerows(
        {key: wording.in_a_spreadsheet(value) for key, value in record.items()} for record in _records(table)
    )
    return out.getvalue()


def _templated(name: str, report: Report, style: Style, drawings: charts.Drawings) -> str:
    from jinja2 import TemplateError
    from markupsafe import Markup

    from service.reports.sandbox import environment

    template_environment = environment(style.templates, OURS, html=name.endswith(".html.j2"))
    template_environment.filters |= {
        "written": lambda value, measure: written(value, measure, report.currency),
        "figure": lambda figure: figure_text(figure, report.currency),
        "of_row": lambda column, row: cell_text(row, column, report.currency),
        "day": lambda at: day(at, report.zone),
        "told": lambda sentence: wording.localized(sentence, report.zone),
        "cell": lambda text: Markup(_as_typed(text)),  # what it made visible is not made so once more
    }
    try:
        template = template_environment.get_template(name)
        return template.render(
            report=report,
            period=period(report),
            numbers=NUMBERS,
            picture=lambda chart: _picture(chart, style.pictures, drawings),
            dash=text.NOTHING,
        )
    except TemplateError as error:
        where = getattr(error, "filename", None) or name
        line = getattr(error, "lineno", None)
        raise BadTemplate(f"the template {where}{f', line {line}' if line else ''}: {error}") from error


def _picture(chart: Chart, pictures: Pictures, drawings: charts.Drawings) -> "Markup":
    """The chart as HTML that carries it."""
    from jinja2 import TemplateRuntimeError
    from markupsafe import Markup, escape

    if not isinstance(chart, Chart):
        raise TemplateRuntimeError("picture() draws a section's chart, and nothing else")
    says = on_a_line(chart.says)
    if pictures is Pictures.SVG:
        drawn = drawings.text(chart, charts.Form.SVG)
        labelled = drawn.replace("<svg ", f'<svg role="img" aria-label="{escape(says)}" ', 1)
        return Markup(labelled)
    attached = pictures is Pictures.ATTACHED
    address = f"cid:{chart.name}" if attached else charts.data_address(drawings.text(chart, charts.Form.PNG))
    return Markup('<img src="{}" alt="{}" width="{}">').format(address, says, charts.WIDTH)


def _as_typed(text: str) -> str:
    """One line that Markdown shows as it stands, in a table too; entities where readers know no backslash."""
    plain_text = re.sub(r"&(?=#?\w+;)", "&amp;", unlinked(on_a_line(text)))
    marked = re.sub(r"([\\`*_\[\]~$|])", r"\\\1", plain_text)
    return marked.replace("<", "&lt;").replace(">", "&gt;")


def _records(table: Table) -> list[dict[str, object]]:
    return [{key: _bare(row.get(key)) for key in _keys(table)} for row in table.rows]


def _keys(table: Table) -> list[str]:
    """What a program reads of a row: the columns' keys, and at the end of how many hours they are bounds."""
    bounds = [column.bound for column in table.columns if column.bound]
    return list(dict.fromkeys([*(column.key for column in table.columns), *bounds]))


def _bare(value: object) -> object:
    if text.missing(value):
        return None
    return value.item() if hasattr(value, "item") else value

"""A report on a screen: its figures, charts and tables in the page's own colours. Effects: it draws.

The same values, written by the same words, as in the files that are sent; nothing is worked out here.

A written report as a page shows it: sealed, so that nothing in it runs or asks anybody anything. Pure.

A report of ours holds no script, but a site's own template, or whoever can write into the folder of reports,
may put one there; inside a page it would act as the page.
"""

import re
from collections.abc import Callable, Sequence

import pandas as pd
import streamlit as st
from pandas.io.formats.style import Styler

from analytics import text
from service import wording
from service.charts.theme import Theme
from service.pages.parts.charted import charted, grid
from service.pages.parts.widgets import Figure, figures, keys, plain, swatch
from service.reports.on_request import (
    Chart,
    Column,
    Measure,
    Report,
    Section,
    Table,
    figure_text,
    mark_of,
    marked,
    written,
)

MOST_ROWS = 18
SCROLLED_PX = 620
"""A longer table scrolls in itself."""


def draw_report(report: Report, colours: Theme) -> None:
    """Draw everything under its title and opening."""
    figures(
        [
            Figure(
                label=figure.label,
                much=figure_text(figure, report.currency),
                told=f"{figure.help[:1].upper()}{figure.help[1:]}." if figure.help else "",
            )
            for figure in report.figures
        ]
    )
    for section in report.sections:
        _section(section, report, colours)
    for note in report.notes:
        st.caption(plain(note))
    st.caption(
        f"Made {wording.moment(report.made_at, report.zone)}. A GPU-hour is in exactly one state; what was "
        "not measured is unknown, never idle."
    )


def styled_table(table: Table, currency: str | None) -> Styler:
    """The table as a pandas Styler: cells read as in the files, and are sorted by what they are worth."""
    frame = pd.DataFrame(
        {column.title: [_cell(row.get(column.key), column) for row in table.rows] for column in table.columns}
    )
    writers: dict[str, str | Callable[[object], str] | None] = {
        column.title: _writer(column.measure, currency)
        for column in table.columns
        if column.measure is not Measure.TEXT
    }
    styled = frame.style.format(writers, na_rep=text.NOTHING)
    for column in table.columns:
        bounds = [place for place, row in enumerate(table.rows) if mark_of(row, column)]
        if bounds:
            writer = _writer(column.measure, currency, wording.AT_MOST)
            styled = styled.format(writer, subset=(bounds, [column.title]), na_rep=text.NOTHING)
    return styled


def _cell(value: object, column: Column) -> object:
    if text.missing(value):
        return None
    return wording.in_a_spreadsheet(str(value)) if column.measure is Measure.TEXT else text.known(value)


def _writer(measure: Measure, currency: str | None, mark: str = "") -> Callable[[object], str]:
    return lambda value: marked(written(value, measure, currency), mark)


def _section(section: Section, report: Report, colours: Theme) -> None:
    st.subheader(plain(section.heading), anchor=False)
    for sentence in section.sentences:
        st.markdown(plain(wording.localized(sentence, report.zone)))
    if section.commands:
        st.code("\n".join(section.commands), language="shell")
    if section.chart is not None:
        _chart(section.chart, colours, utc=str(report.zone) == "UTC")
    if section.table is not None:
        _table(section.table, section.heading, report.currency)


def _chart(chart: Chart, colours: Theme, *, utc: bool) -> None:
    named: Sequence[tuple[str, str]] = chart.key(colours)
    if named:
        keys([(swatch(colour), label, None) for colour, label in named])
    charted(chart.draw(colours, utc), chart.says, chart.numbers, f"report-{chart.name}", numbers=chart.says)
    st.caption(plain(chart.says))


def _table(table: Table, heading: str, currency: str | None) -> None:
    if not table.rows:
        st.caption(plain(table.empty))
        return
    grid(
        styled_table(table, currency),
        hide_index=True,
        height="content" if len(table.rows) <= MOST_ROWS else SCROLLED_PX,
        placeholder=text.NOTHING,
        key=f"report-table-{table.name}",
        alt=f"{heading}: {', '.join(column.title for column in table.columns)}",
    )


POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; font-src data:; form-action 'none'; "
    "base-uri 'none'"
)
_TAG = f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'


def sealed(html: str) -> str:
    """The page with a policy before everything else in it: it draws, and does nothing more.

    The policy stands before the document's own head: a parser opens a head for it, and no tag, attribute or
    comment of the document can come earlier.
    """
    return f"<!DOCTYPE html>{_TAG}{_DOCTYPE.sub('', html, count=1)}"


_DOCTYPE = re.compile(r"\A\s*<!doctype[^>]*>", re.IGNORECASE)

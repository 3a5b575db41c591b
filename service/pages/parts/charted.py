"""The only place that draws a chart or a table: a chart comes with its table and download. Effects: it draws.

Whoever cannot see a chart, or wants its numbers, finds them below it; a test holds every page to it. Nothing
of a table is sent before it is opened.
"""

import re
from functools import partial
from typing import Any

import altair as alt
import pandas as pd
import streamlit as st
from pandas.api.types import is_datetime64_any_dtype, is_numeric_dtype
from pandas.io.formats.style import Styler

from analytics import text
from service import wording
from service.charts.cache import Filled
from service.charts.drawing import Drawing
from service.charts.frame import Layered
from service.printable import LONGEST, on_a_line, shown_rows

_on_a_line = partial(on_a_line, most=10 * LONGEST)
"""A specification has expressions of its own that are long, and none may be cut; names in it are shorter."""


Altairs = alt.Chart | Layered


class _Tested:
    """A chart whose specification is not held against Vega-Lite's schema again each time that it is drawn.

    Tests hold every chart to it; at each drawing it is over half of what a page costs (0.66 of 1.13 s of the
    overview's, measured 2026-11-21).
    """

    def __init__(self, chart: Drawing) -> None:
        self._chart = chart

    def to_dict(self) -> dict[str, object]:
        """The specification; the only thing that Streamlit asks a chart for.

        Every text in it and in its rows is one line that can be seen, rows and the lists that order or colour
        them alike.
        """
        if isinstance(self._chart, Filled):
            rows = {name: visible(frame) for name, frame in self._chart.rows.items()}
            return {**shown_rows(self._chart.spec(), _on_a_line), "datasets": rows}
        chart = _visible_chart(self._chart) if isinstance(self._chart, Altairs) else self._chart
        spec = chart.to_dict(validate=False)
        return shown_rows(spec, _on_a_line)


def charted(
    chart: Drawing, title: str, frame: pd.DataFrame, name: str, *, numbers: str, **options: Any
) -> Any:
    """Draw the chart, which ``title`` describes to whoever cannot see it, and ``frame`` as its table.

    ``numbers`` says what the table holds; ``name`` is unique on its page and names the file. ``options`` go
    to the chart (``key``, ``on_select``, ``selection_mode``); what was picked in it comes back.
    """
    tested: Any = _Tested(chart)
    picked = st.altair_chart(tested, theme=None, width="stretch", alt=on_a_line(title), **options)
    tabled(frame, name, numbers)
    return picked


def tabled(frame: pd.DataFrame, name: str, title: str) -> None:
    """The numbers of a chart as a table and as a CSV file; ``title`` says what they are."""
    box = st.expander(
        "The numbers", icon=":material/table:", key=f"numbers-{name}", type="compact", on_change="rerun"
    )
    if not box.open:
        return
    with box:
        grid(frame, hide_index=True, placeholder=text.NOTHING, alt=title)
        st.download_button(
            "Download as CSV",
            lambda: csv_of(frame),
            file_name=f"fallow-{_for_a_file(name)}.csv",
            mime="text/csv",
            icon=":material/download:",
            key=f"download-{name}",
            on_click="ignore",
        )


def grid(frame: pd.DataFrame | Styler, **options: Any) -> Any:
    """Draw a table whose rows can be searched, copied and downloaded; ``options`` are ``st.dataframe``'s.

    Streamlit's own download and copy write cells as they are, so what a spreadsheet would run is marked here;
    who makes a ``Styler`` marks its frame.
    """
    return st.dataframe(marked(visible(frame)) if isinstance(frame, pd.DataFrame) else frame, **options)


def visible(frame: pd.DataFrame) -> pd.DataFrame:
    """The frame with every text in it on one line that can be seen: people choose the names in it."""
    copied = frame.copy(deep=False)
    for name, values in frame.items():
        if not (is_numeric_dtype(values) or is_datetime64_any_dtype(values) or _is_plain(values)):
            copied[name] = values.map(lambda value: on_a_line(value) if isinstance(value, str) else value)
    return copied


def _is_plain(values: "pd.Series[Any]") -> bool:
    """Whether no text needs a change, by its different values: rows of a chart have few and are many."""
    try:
        different = values.unique()
    except TypeError:  # lists, which are no names of a column's own
        return False
    return all(on_a_line(value) == value for value in different if isinstance(value, str))


def _visible_chart(chart: Altairs) -> Altairs:
    """The chart with its frames made visible, those of its layers and parts as well."""
    copied = chart.copy(deep=False)
    if isinstance(data := getattr(copied, "data", None), pd.DataFrame):
        copied.data = visible(data)
    for name in ("layer", "hconcat", "vconcat", "concat"):
        parts = getattr(copied, name, None)
        if isinstance(parts, list):
            setattr(copied, name, [_visible_chart(part) for part in parts])
    return copied


def csv_of(frame: pd.DataFrame) -> str:
    """The rows as CSV: names that people chose are text in it, whatever a spreadsheet makes of them."""
    return marked(frame).rename(columns=wording.in_a_spreadsheet).to_csv(index=False)


def marked(frame: pd.DataFrame) -> pd.DataFrame:
    """The frame with every text that a spreadsheet would run marked as text."""
    copied = frame.copy(deep=False)
    for name, values in frame.items():
        if not (is_numeric_dtype(values) or is_datetime64_any_dtype(values)):
            copied[name] = values.map(wording.in_a_spreadsheet)
    return copied


def _for_a_file(name: str) -> str:
    """The name without what a path or a shell would take for its own: ids of jobs hold slashes and colons."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.")

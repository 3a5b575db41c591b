"""The only place that draws a chart or a table: a chart comes with its table and download. Effects: it draws.

Whoever cannot see a chart, or wants its numbers, finds them below it; a test holds every page to it. Nothing
of a table is sent before it is opened.
"""

import re
from typing import Any

import pandas as pd
import streamlit as st
from pandas.api.types import is_datetime64_any_dtype, is_numeric_dtype
from pandas.io.formats.style import Styler

from service.client.printable import on_a_line
from service.pages import wording
from service.pages.chart_kept import Filled


class _Tested:
    """A chart whose specification is not held against Vega-Lite's schema again each time that it is drawn.

    Tests hold every chart to it; at each drawing it is over half of what a page costs (0.66 of 1.13 s of the
    overview's, measured 2026-11-21).
    """

    def __init__(self, chart: Any) -> None:
        self._chart = chart

    def to_dict(self) -> dict[str, Any]:
        """The specification; the only thing that Streamlit asks a chart for."""
        if isinstance(self._chart, Filled):
            return self._chart.sent()
        spec: dict[str, Any] = self._chart.to_dict(validate=False)
        return spec


def charted(chart: Any, told: str, frame: pd.DataFrame, name: str, *, numbers: str, **options: Any) -> Any:
    """Draw the chart, which ``told`` describes to whoever cannot see it, and ``frame`` as its table.

    ``numbers`` says what the table holds; ``name`` is unique on its page and names the file. ``options`` go
    to the chart (``key``, ``on_select``, ``selection_mode``); what was picked in it comes back.
    """
    tested: Any = _Tested(chart)
    picked = st.altair_chart(tested, theme=None, width="stretch", alt=told, **options)
    tabled(frame, name, numbers)
    return picked


def tabled(frame: pd.DataFrame, name: str, told: str) -> None:
    """The numbers of a chart as a table and as a CSV file; ``told`` says what they are."""
    box = st.expander(
        "The numbers", icon=":material/table:", key=f"numbers-{name}", type="compact", on_change="rerun"
    )
    if not box.open:
        return
    with box:
        grid(frame, hide_index=True, placeholder=wording.DASH, alt=told)
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
    made = frame.copy(deep=False)
    for name, values in frame.items():
        if not (is_numeric_dtype(values) or is_datetime64_any_dtype(values)):
            made[name] = values.map(lambda value: on_a_line(value) if isinstance(value, str) else value)
    return made


def csv_of(frame: pd.DataFrame) -> str:
    """The rows as CSV: names that people chose are text in it, whatever a spreadsheet makes of them."""
    return marked(frame).rename(columns=wording.in_a_spreadsheet).to_csv(index=False)


def marked(frame: pd.DataFrame) -> pd.DataFrame:
    """The frame with every text that a spreadsheet would run marked as text."""
    made = frame.copy(deep=False)
    for name, values in frame.items():
        if not (is_numeric_dtype(values) or is_datetime64_any_dtype(values)):
            made[name] = values.map(wording.in_a_spreadsheet)
    return made


def _for_a_file(name: str) -> str:
    """The name without what a path or a shell would take for its own: ids of jobs hold slashes and colons."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.")

"""Every chart of the dashboard has a table behind it, with a download: nothing draws one in another way."""

import ast
from pathlib import Path

import pandas as pd
import pytest

from service.pages.tabled import csv_of

PAGES = Path(__file__).parents[2] / "service" / "pages"
CHARTS = {
    "altair_chart",
    "area_chart",
    "bar_chart",
    "bokeh_chart",
    "graphviz_chart",
    "line_chart",
    "map",
    "plotly_chart",
    "pydeck_chart",
    "pyplot",
    "scatter_chart",
    "vega_lite_chart",
}
"""What of Streamlit draws a chart."""

OWNER = "tabled.py"
WALL = "kiosk_panels.py"
"""Nobody sits at the wall to open a table: each panel's chart stands on its page, with its numbers."""


def drawn_in(text: str) -> list[str]:
    """What draws a chart in a module: the names of Streamlit's calls, with their lines."""
    calls = [node.func for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)]
    return [
        f"{call.lineno} {call.attr}"
        for call in calls
        if isinstance(call, ast.Attribute) and call.attr in CHARTS and is_streamlit(call.value)
    ]


def is_streamlit(node: ast.expr) -> bool:
    """``st``, or a column or box of it; a frame's or a module's own ``map`` is none."""
    return isinstance(node, ast.Name) and node.id in {"st", "left", "right", "column", "box", "place"}


@pytest.mark.parametrize("path", sorted(PAGES.glob("*.py")), ids=lambda path: str(path.stem))
def test_a_chart_is_drawn_where_its_table_is(path: Path) -> None:
    found = drawn_in(path.read_text())
    if path.name in (OWNER, WALL):
        assert len(found) == 1, "one place each"
    else:
        assert found == [], "draw it with service.pages.tabled.charted, which puts its table behind it"


def test_the_rule_sees_a_chart_without_a_table() -> None:
    assert drawn_in("st.altair_chart(chart)\nleft.bar_chart(frame)\nframe.map(str)") == [
        "1 altair_chart",
        "2 bar_chart",
    ]


def test_no_name_becomes_a_formula_in_a_downloaded_table() -> None:
    frame = pd.DataFrame(
        {
            "name": ["=1+1", "ann", None],
            "hours": [-1.5, None, 2.0],
            "at": pd.to_datetime(["2026-11-21"] * 3, utc=True),
        }
    )
    lines = csv_of(frame).splitlines()
    assert lines[1:] == [
        "'=1+1,-1.5,2026-11-21 00:00:00+00:00",
        "ann,,2026-11-21 00:00:00+00:00",
        ",2.0,2026-11-21 00:00:00+00:00",
    ]

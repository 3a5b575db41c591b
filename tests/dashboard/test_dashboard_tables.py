"""Every chart of the dashboard has a table behind it, with a download: nothing draws one in another way."""

import ast
from pathlib import Path

import pandas as pd
import pytest

from service.pages.parts.charted import csv_of, marked

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

OWNER = "charted.py"
WALL = "panels.py"
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


@pytest.mark.parametrize(
    "path", sorted(PAGES.rglob("*.py")), ids=lambda path: path.relative_to(PAGES).as_posix()
)
def test_a_table_is_drawn_where_its_cells_are_marked(path: Path) -> None:
    calls = [node.func for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
    drawn = [
        each.lineno
        for each in calls
        if isinstance(each, ast.Attribute) and each.attr in ("dataframe", "data_editor", "table")
        if is_streamlit(each.value)
    ]
    expected = 1 if path.name == OWNER else 0
    assert len(drawn) == expected, f"{path.name}:{drawn}: draw it with service.pages.parts.charted.grid"


@pytest.mark.parametrize(
    "path", sorted(PAGES.rglob("*.py")), ids=lambda path: path.relative_to(PAGES).as_posix()
)
def test_a_chart_is_drawn_where_its_table_is(path: Path) -> None:
    found = drawn_in(path.read_text())
    if path.name in (OWNER, WALL):
        assert len(found) == 1, "one place each"
    else:
        assert found == [], "draw it with service.pages.parts.charted.charted, which puts its table behind it"


def test_the_rule_sees_a_chart_without_a_table() -> None:
    assert drawn_in("st.altair_chart(chart)\nleft.bar_chart(frame)\nframe.map(str)") == [
        "1 altair_chart",
        "2 bar_chart",
    ]


def test_no_heading_becomes_a_formula_in_a_downloaded_table() -> None:
    assert csv_of(pd.DataFrame({"=1+1": [1]})).splitlines() == ["'=1+1", "1"]


def test_streamlits_own_download_and_copy_have_no_formulas_either() -> None:
    frame = pd.DataFrame({"name": ["=1+1", "ann", None], "change": ["+3 %", "-5", "-2+3"], "n": [1, 2, 3]})
    shown = marked(frame)
    assert shown["name"].tolist()[:2] == ["'=1+1", "ann"]
    assert shown["change"].tolist() == ["+3 %", "-5", "'-2+3"], "a number with its sign stays one"
    assert shown["n"].tolist() == [1, 2, 3]


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

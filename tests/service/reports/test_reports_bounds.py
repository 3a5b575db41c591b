"""Use that rests on GPU utilization alone stands in a report as a bound, in each format, and on a page."""

import csv
import io
import json
from datetime import UTC, datetime, timedelta

import pytest

from analytics.text import NOTHING
from service.pages.parts.report_view import styled_table
from service.reports.model import Column, Figure, Format, Measure, Report, ReportKind, Section, Span, Table
from service.reports.render import render
from service.reports.sections import HELD_COLUMNS
from service.wording import AT_LEAST, AT_MOST

NOON = datetime(2026, 11, 27, 12, tzinfo=UTC)
SURE = {"who": "ada", "used_gpu_hours": 9.0, "utilization_ratio": 0.3, "bound_used_gpu_hours": 0.0}
BOUND = {"who": "eli", "used_gpu_hours": 27.0, "utilization_ratio": 0.9, "bound_used_gpu_hours": 27.0}
SMALL = {"who": "fay", "used_gpu_hours": 8.0, "utilization_ratio": 0.8, "bound_used_gpu_hours": 0.04}
NONE = {"who": "gus", "used_gpu_hours": None, "utilization_ratio": None, "bound_used_gpu_hours": 1.0}
TABLE = Table(
    name="people",
    columns=(
        Column(key="who", title="Who"),
        *(each for each in HELD_COLUMNS if each.key in ("used_gpu_hours", "utilization_ratio")),
    ),
    rows=[SURE, BOUND, SMALL, NONE],
)
REPORT = Report(
    kind=ReportKind.CHARGEBACK,
    title="A week",
    opening="They used at most 44.0 GPU-hours.",
    span=Span(start=NOON - timedelta(days=7), end=NOON),
    zone=UTC,
    subject=None,
    figures=(
        Figure(key="gpu_hours", label="Held", value=90.0, measure=Measure.HOURS),
        Figure(key="used_gpu_hours", label="Used", value=44.0, measure=Measure.HOURS, mark=AT_MOST),
        Figure(key="fallow_gpu_hours", label="Lay fallow", value=46.0, measure=Measure.HOURS, mark=AT_LEAST),
        Figure(key="cost", label="Price", value=None, measure=Measure.MONEY, mark=AT_MOST),
    ),
    sections=(Section(heading="People", table=TABLE),),
    currency=None,
    made_at=NOON,
)


def test_markdown_marks_figures_and_cells_that_are_bounds_and_no_others() -> None:
    lines = render(REPORT, Format.MARKDOWN).splitlines()
    assert [line for line in lines if line.startswith("- ")] == [
        "- Held: **90.0 GPU-hours**",
        "- Used: **≤44.0 GPU-hours**",
        "- Lay fallow: **≥46.0 GPU-hours**",
        f"- Price: **{NOTHING}**",
    ]
    assert [line for line in lines if line.startswith("| ")][2:] == [
        "| ada | 9.0 GPU-hours | 30% |",
        "| eli | ≤27.0 GPU-hours | ≤90% |",
        "| fay | 8.0 GPU-hours | 80% |",
        f"| gus | {NOTHING} | {NOTHING} |",
    ]


def test_html_marks_the_same() -> None:
    page = render(REPORT, Format.HTML)
    for told in ("≤44.0 GPU-hours", "≥46.0 GPU-hours", "≤27.0 GPU-hours", "≤90%"):
        assert f">{told}<" in page
    assert page.count("≤") == 3


def test_numbers_for_programs_stay_numbers_with_how_much_of_them_is_a_bound() -> None:
    told = json.loads(render(REPORT, Format.JSON))
    assert told["bounds"] == {"used_gpu_hours": "at most", "fallow_gpu_hours": "at least"}
    assert told["tables"]["people"][1] == BOUND
    rows = list(csv.DictReader(io.StringIO(render(REPORT, Format.CSV))))
    assert [row["bound_used_gpu_hours"] for row in rows] == ["0.0", "27.0", "0.04", "1.0"]
    assert rows[1]["used_gpu_hours"] == "27.0"


@pytest.mark.parametrize("told", ["≤27.0 GPU-hours", "≤90%"])
def test_a_page_marks_the_same_cells(told: str) -> None:
    drawn = styled_table(TABLE, None).to_html()
    assert drawn.count(told) == 1
    assert drawn.count("≤") == 2

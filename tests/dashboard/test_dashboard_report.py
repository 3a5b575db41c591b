"""A report and the dashboard say the same numbers of the same time, to the digit."""

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from service.client import connect
from service.reports.build import Wanted, make
from service.reports.model import ReportKind, Span
from service.reports.values import written
from service.summaries.headline import USED

pytestmark = pytest.mark.browser


@pytest.mark.parametrize("days", [1, 6])
def test_a_report_has_the_figures_of_the_overview(
    simulated: Path, dashboard: str, look: Callable, days: int
) -> None:
    end = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) - timedelta(hours=1)
    span = Span(start=end - timedelta(days=days), end=end)
    with connect(simulated) as client:
        report = make(client, Wanted(kind=ReportKind.CLUSTER_WEEK, span=span), end)
    told = {
        f.label: _plain(written(f.value, f.measure, report.currency)) if f.value is not None else "no price"
        for f in report.figures
    }
    screen = look(dashboard).open(f"/?from={span.start:%Y-%m-%dT%H:%MZ}&to={span.end:%Y-%m-%dT%H:%MZ}&tz=utc")
    names = screen.page.locator(".figures dt").all_inner_texts()
    values = screen.page.locator(".figures dd:not(.beside)").all_inner_texts()
    shown = {name.removesuffix("?").strip(): _plain(value) for name, value in zip(names, values, strict=True)}
    both = told.keys() & shown.keys()
    assert {USED, "Lay fallow", "Wasted outright", "Cost of the waste"} <= both
    assert {name: shown[name] for name in both} == {name: told[name] for name in both}
    assert _plain(screen.headline) == _plain(report.opening).rstrip(".")


def _plain(text: str) -> str:
    return re.sub(r"\s", " ", text).strip()

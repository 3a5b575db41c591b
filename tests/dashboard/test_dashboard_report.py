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

pytestmark = pytest.mark.browser


@pytest.mark.parametrize("days", [1, 6])
def test_a_report_has_the_figures_of_the_overview(
    simulated: Path, dashboard: str, look: Callable, days: int
) -> None:
    end = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) - timedelta(hours=1)
    span = Span(start=end - timedelta(days=days), end=end)
    with connect(simulated) as client:
        report = make(client, Wanted(kind=ReportKind.CLUSTER_WEEK, span=span), end)
    told = [
        written(f.value, f.measure, report.currency) if f.value is not None else "no price"
        for f in report.figures[:6]
    ]
    screen = look(dashboard).open(f"/?from={span.start:%Y-%m-%dT%H:%MZ}&to={span.end:%Y-%m-%dT%H:%MZ}&tz=utc")
    shown = screen.page.locator(".figures:not(.leading) dd").all_inner_texts()
    shown[3:3] = screen.page.locator(".leading > div:last-child dd:first-of-type").all_inner_texts()
    assert [_plain(text) for text in shown[:6]] == [_plain(text) for text in told]
    assert _plain(screen.headline) == _plain(report.opening).rstrip(".")


def _plain(text: str) -> str:
    return re.sub(r"\s", " ", text).strip()

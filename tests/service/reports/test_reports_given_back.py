"""The week of a cluster on which an action really happened says what it gave back, in every format."""

import json
import threading
from datetime import timedelta
from pathlib import Path

import pytest

from advisor.actions import Pause
from advisor.state.model import ActionClass
from collector.model import JobId
from service.client import BadParameter, connect
from service.reports.build import Wanted, make
from service.reports.model import Format, Report, ReportKind, Span
from service.reports.render import render
from tests.analytics.given_world import END, A, B, deed, past
from tests.analytics.world import NOON

OWN, NEXT = JobId("fallow:1"), JobId("fallow:2")
HELD = [(A, OWN, 0, 10), (A, NEXT, 15, 45), (B, OWN, 50, None)]
"""Paused at 10, and another job has its GPU from 15 to 45; it goes on at 50 on another."""

SPAN = Span(start=NOON, end=NOON + timedelta(minutes=END))


def week(folder: Path, *, dark: int = 0, acted: bool = True) -> Report:
    with past(folder, HELD, [(A, 15, 35)], [(A, 10, 10 + dark)]) as store:
        if acted:
            deed(store, 10, Pause(job=OWN, action=ActionClass.RECLAIM), [A])
    with connect(folder) as client:
        return make(client, Wanted(kind=ReportKind.CLUSTER_WEEK, span=SPAN), SPAN.end)


def told(report: Report) -> str:
    (section,) = (each for each in report.sections if each.heading == "What the actions did give back")
    return section.sentences[0]


@pytest.mark.slow
def test_it_stands_beside_what_advice_would_have_given_back(tmp_path: Path) -> None:
    report = week(tmp_path)
    headings = [each.heading for each in report.sections]
    at = headings.index("What advice would have given back")
    assert headings[at + 1] == "What the actions did give back"
    written = json.loads(render(report, Format.JSON))
    (row,) = written["tables"]["did_give_back"]
    hours = (row["freed_gpu_hours"], row["held_gpu_hours"], row["worked_gpu_hours"])
    assert hours == pytest.approx((40 / 60, 30 / 60, 20 / 60))
    assert (row["money"], row["times"], row["coverage_ratio"]) == (pytest.approx(20 / 60 * 4), 1, 1.0)
    assert written["figures"]["given_back_gpu_hours"] == pytest.approx(20 / 60)
    for format in (Format.HTML, Format.MARKDOWN):
        text = render(report, format)
        assert "What the actions did give back" in text and "Idle jobs paused" in text


@pytest.mark.slow
def test_nothing_done_is_zero_and_not_unknown(tmp_path: Path) -> None:
    report = week(tmp_path, acted=False, dark=30)
    assert told(report) == "Nothing was done: no action gave anything back."
    assert json.loads(render(report, Format.JSON))["figures"]["given_back_gpu_hours"] == 0.0


@pytest.mark.slow
def test_too_little_measured_is_unknown_and_not_zero(tmp_path: Path) -> None:
    report = week(tmp_path, dark=3)
    assert told(report).endswith("is unknown: only 92% of that time was measured.")
    assert json.loads(render(report, Format.JSON))["figures"]["given_back_gpu_hours"] is None


@pytest.mark.slow
def test_a_week_of_a_part_says_nothing_of_it(tmp_path: Path) -> None:
    week(tmp_path)
    with connect(tmp_path) as client:
        wanted = Wanted(kind=ReportKind.CLUSTER_WEEK, span=SPAN, project="vision")
        part = make(client, wanted, SPAN.end)
    assert "What the actions did give back" not in [each.heading for each in part.sections]


@pytest.mark.slow
def test_the_replay_runs_beside_what_else_is_to_be_done_and_its_failure_is_the_reports(
    tmp_path: Path,
) -> None:
    week(tmp_path)
    done: list[str] = []
    wanted = Wanted(kind=ReportKind.CLUSTER_WEEK, span=SPAN)
    with connect(tmp_path) as client:
        report = make(client, wanted, SPAN.end, lambda chart: done.append(chart.name))
        assert "What advice would have given back" in [each.heading for each in report.sections]
        assert done == [each.chart.name for each in report.sections if each.chart is not None] != []
        (tmp_path / "fallow.toml").write_text("[advice]\npack_p95 = 7\n")
        with pytest.raises(BadParameter, match="pack_p95"):
            make(client, wanted, SPAN.end)
    assert not [each for each in threading.enumerate() if each.name.startswith("fallow-replay")]

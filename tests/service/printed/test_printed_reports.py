"""Reports, metrics and logs over hostile names: text in HTML and Markdown, labels, whole lines."""

import json
import logging
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from prometheus_client.parser import text_string_to_metric_families

from collector.metrics_endpoint import exposition
from collector.model import Allocation
from collector.snapshot import Snapshot
from service.client import connect
from service.logs import JsonFormatter, TextFormatter
from service.reports.build import Wanted, make
from service.reports.model import Format, ReportKind, Span
from service.reports.render import render
from tests.service.printed.hostile import EVIL, HOSTILE, MARKER, NEAR, PLAIN, fill, gpus, holder, idle
from tests.service.printed.test_printed_pages import Tags

pytestmark = pytest.mark.slow
READER = MarkdownIt("commonmark").enable(["table", "strikethrough"])


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("hostile")
    fill(folder)
    yield folder


def report(data: Path, kind: ReportKind, format: Format) -> str:
    now = datetime.now(UTC).replace(second=0, microsecond=0)
    wanted = Wanted(
        kind=kind,
        span=Span(start=now - timedelta(hours=2), end=now),
        zone=UTC,
        user=HOSTILE if kind is ReportKind.MY_WEEK else None,
        project=HOSTILE if kind is ReportKind.PROJECT_WEEK else None,
    )
    with connect(data) as client:
        return render(make(client, wanted, now), format)


@pytest.mark.parametrize("kind", ReportKind)
def test_names_are_text_in_html(data: Path, kind: ReportKind) -> None:
    html = report(data, kind, Format.HTML)
    for tag, attributes in Tags(html).found:
        assert tag not in ("script", "iframe", "a", "object", "embed", "form")
        assert not any(name.startswith("on") for name in attributes)
        assert tag != "img" or str(attributes["src"]).startswith("data:")
    assert "\x1b" not in html and "\u202e" not in html
    assert not re.search(rf"^\s*{MARKER}", html, re.MULTILINE)


@pytest.mark.parametrize("kind", ReportKind)
def test_names_are_text_in_markdown(data: Path, kind: ReportKind) -> None:
    text = report(data, kind, Format.MARKDOWN)
    assert not re.search(rf"^\s*{MARKER}", text, re.MULTILINE)
    assert all(
        line.replace("\u2060", "").replace("\u202f", "").replace("\u00a0", "").isprintable()
        for line in text.split("\n")
    )
    for token in READER.parse(text):
        assert token.type != "html_block"
        for inner in token.children or ():
            assert inner.type not in ("image", "html_inline", "link_open")
            assert "http://evil" not in inner.content


def test_ordinary_names_stay_readable_in_a_report(data: Path) -> None:
    assert PLAIN in report(data, ReportKind.CLUSTER_WEEK, Format.HTML)


def test_metrics_hold_the_very_names_as_labels_whatever_is_in_them() -> None:
    held = (Allocation(uuid=EVIL, holder=holder(HOSTILE, 1), share=1.0),)
    now_ms = 1_790_000_000_000
    seen = Snapshot(
        at_ms=now_ms, gpus=gpus(HOSTILE), samples=(idle(EVIL, now_ms), idle(NEAR, now_ms)), allocations=held
    )
    page = exposition(seen).decode()
    series = [each for family in text_string_to_metric_families(page) for each in family.samples]
    assert HOSTILE in {value for each in series for value in each.labels.values()}
    assert not any(line.startswith(MARKER) for line in page.split("\n"))


names = st.text(max_size=60) | st.just(HOSTILE)


@settings(max_examples=60)
@given(names, names)
def test_a_value_in_the_log_is_one_line_and_no_other_field(name: str, event: str) -> None:
    record = logging.makeLogRecord({"name": "service", "msg": "%s", "args": (name,), "levelname": "INFO"})
    record.event, record.fields = "job-started", {"job": name, "user": event}
    for formatter in (TextFormatter(), JsonFormatter()):
        line = formatter.format(record)
        assert line.isprintable()
    assert (
        len(re.findall(r" (?:job|user)=", re.sub(r'"(?:[^"\\]|\\.)*"', '""', TextFormatter().format(record))))
        == 2
    )
    assert json.loads(JsonFormatter().format(record))["job"] == name

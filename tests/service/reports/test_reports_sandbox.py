"""A template reads a report's values, whoever wrote it, and does nothing else."""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pytest

from service.reports.model import (
    Chart,
    Column,
    Figure,
    Format,
    Measure,
    Report,
    ReportKind,
    Section,
    Span,
    Table,
)
from service.reports.render import OURS, BadTemplate, Style, render

AT = datetime(2026, 11, 20, 8, tzinfo=UTC)


class Drawing:
    """As much of Altair's as a template could misuse."""

    def save(self, path: str) -> None:
        Path(path).touch()


@pytest.fixture
def report() -> Report:
    chart = Chart(
        name="use",
        says="All is used.",
        draw=lambda palette, paper: Drawing(),
        numbers=pd.DataFrame({"gpu": [1]}),
    )
    table = Table(
        name="jobs",
        columns=(Column(key="hours", title="GPU-hours", measure=Measure.HOURS),),
        rows=[{"hours": np.float64(6.5), "since": pd.Timestamp(AT)}],
    )
    return Report(
        kind=ReportKind.CLUSTER_WEEK,
        title="The week",
        opening="It was good.",
        span=Span(start=AT, end=AT),
        zone=ZoneInfo("Europe/Berlin"),
        subject=None,
        figures=(Figure(key="gpus", label="GPUs", value=8.0, measure=Measure.GPUS),),
        sections=(Section(heading="Use", chart=chart), Section(heading="Jobs", table=table)),
        currency="EUR",
        made_at=AT,
    )


@pytest.mark.parametrize(
    "body",
    [
        "{{ cycler.__init__.__globals__.os.popen('touch ' ~ 'OUT').read() }}",
        "{{ ''.__class__.__mro__ }}",
        "{{ '{0.__class__.__init__.__globals__}'.format(report) }}",
        "{{ report.sections[0].chart.numbers.to_csv('OUT') }}",
        "{{ report.sections[0].chart['numbers'].to_csv('OUT') }}",
        "{{ (report.sections[0].chart | attr('drawing')).save('OUT') }}",
        "{% for each in report.sections | map(attribute='chart.draw') %}{{ each('OUT') }}{% endfor %}",
        "{% set draw = report.sections[0].chart.draw %}{{ draw(0, 0).save('OUT') }}",
        "{{ report.tables[0].rows[0].hours.tofile('OUT') }}",
        "{{ report.tables[0].rows[0].hours.dump('OUT') }}",
        "{{ written.__globals__ }}",
        "{{ picture('x') }}",
        "{% include '../../model.py' %}",
    ],
)
def test_what_is_no_value_of_the_report_is_refused(report: Report, tmp_path: Path, body: str) -> None:
    templates = tmp_path / "templates"
    templates.mkdir()
    (templates / "report.md.j2").write_text(body.replace("OUT", str(tmp_path / "out")))
    with pytest.raises(BadTemplate, match=r"report\.md\.j2|model\.py"):
        render(report, Format.MARKDOWN, Style(templates=templates))
    assert not (tmp_path / "out").exists()


def test_what_a_sites_own_templates_may_want_works(report: Report, tmp_path: Path) -> None:
    (tmp_path / "report.md.j2").write_text(
        "{% macro row(name, value) %}{{ name }}={{ value }};{% endmacro %}"
        "{% set found = namespace(n=0) %}"
        "{% for figure in report.figures %}"
        "{{ row(figure.label | upper, figure.value | written(figure.measure)) }}"
        "{% set found.n = found.n + loop.index %}{% endfor %}"
        "{{ found.n }} {{ report.kind.value }} {{ report.zone.key }} {{ report.made_at.strftime('%Y') }} "
        "{{ report.sections | selectattr('chart') | map(attribute='chart.says') | join }} "
        "{% for key, value in report.tables[0].rows[0].items() %}{{ key }} {% endfor %}"
        "{{ report.tables[0].rows[0].hours | written('gpu_hours') }} "
        "{{ report.tables[0].rows[0].since.strftime('%H') }} "
        "{{ 'a-b'.split('-') | last }} {{ range(3) | sum }}"
    )
    said = render(report, Format.MARKDOWN, Style(templates=tmp_path))
    assert said.replace("\N{NO-BREAK SPACE}", " ") == (
        "GPUS=8;1 cluster-week Europe/Berlin 2026 All is used. hours since 6.5 GPU-hours 08 b 3"
    )


def test_our_own_templates_are_no_exception(report: Report) -> None:
    drawn = replace(report, sections=report.sections[1:])
    assert "The week" in render(drawn, Format.HTML) and "# The week" in render(drawn, Format.MARKDOWN)
    assert (OURS / "report.html.j2").is_file()

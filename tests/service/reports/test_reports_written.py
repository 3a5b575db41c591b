"""Reports stand on their own, hold the ledger's numbers, and take what people called their jobs as text."""

import csv
import io
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from markdown_it import MarkdownIt

from analytics import text
from collector.clock import SystemClock
from service.charts.theme import LIGHT
from service.cli.asking import SIMULATED as SAID
from service.client import Client, connect
from service.config.model import Config
from service.reports.build import SIMULATED, BadReport, Wanted, make
from service.reports.model import Column, Format, Measure, Report, ReportKind, Section, Span, Table
from service.reports.render import BadTemplate, Pictures, Style, attachments, plain, render
from service.reports.sections import best_jobs
from service.server import assemble
from service.store.open import own_store
from tests.service.conftest import fallow, verb

pytestmark = pytest.mark.slow

DAYS = 8


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with eight days of a small simulated cluster, priced, and no service."""
    folder = tmp_path_factory.mktemp("reports") / "data"
    folder.mkdir()
    text = f'[simulated]\nnodes = 2\nbackfill_days = {DAYS}\n[prices]\nper_gpu_hour = {{ "*" = 2.0 }}\n'
    (folder / "fallow.toml").write_text(text)
    made = Config()
    config = replace(
        made,
        collect=replace(made.collect, sources=("simulated",)),
        simulated=replace(made.simulated, nodes=2, backfill_days=DAYS),
        prices=replace(made.prices, per_gpu_hour={"*": 2.0}),
    )
    with own_store(folder, config) as store:
        body = assemble.assemble(config, store, SystemClock())
        body.prepare(lambda: False, lambda said: None)
        assert body.beat is not None
        body.beat.work()
        body.complete(lambda: False, lambda said: None)
    return folder


@pytest.fixture(scope="module")
def client(data: Path) -> Iterator[Client]:
    with connect(data) as opened:
        yield opened


@pytest.fixture(scope="module")
def span(client: Client) -> Span:
    end = datetime.fromisoformat(client.rows("span")[0]["last_ts"]).replace(second=0, microsecond=0)
    end = end if end.tzinfo else end.replace(tzinfo=UTC)
    return Span(start=end - timedelta(days=7), end=end)


def made(client: Client, span: Span, kind: ReportKind, **about: str) -> Report:
    return make(client, Wanted(kind=kind, span=span, **about), span.end)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def cluster(client: Client, span: Span) -> Report:
    return made(client, span, ReportKind.CLUSTER_WEEK)


class Page(HTMLParser):
    """What a page fetches, runs and says."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.addresses: list[str] = []
        self.tags: list[str] = []
        self.unlabelled: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        given = dict(attributes)
        self.tags.append(tag)
        self.addresses += [
            given[name] or "" for name in ("src", "href", "xlink:href", "action") if name in given
        ]
        label = given.get("alt") or given.get("aria-label")
        if tag == "img" and not label:
            self.unlabelled.append(tag)
        if tag == "svg" and given.get("role") != "img":
            self.unlabelled.append(tag)


@pytest.mark.parametrize("pictures", list(Pictures))
def test_the_page_fetches_and_runs_nothing_and_says_what_each_chart_shows(
    cluster: Report, pictures: Pictures
) -> None:
    text = render(cluster, Format.HTML, Style(pictures=pictures))
    page = Page(text)
    assert "script" not in page.tags and "link" not in page.tags and "@import" not in text
    kinds = {"svg": "#", "png": "data:image/png", "attached": "cid:"}
    assert all(address.startswith(kinds[pictures]) for address in page.addresses)
    charts = [section.chart for section in cluster.sections if section.chart is not None]
    assert len(charts) == 3
    assert page.tags.count("svg" if pictures is Pictures.SVG else "img") == len(charts)
    assert page.unlabelled == []
    assert all(text.count(re.sub("&", "&amp;", chart.says)) >= 1 for chart in charts)


def test_a_chart_on_paper_says_in_which_zone_its_times_are(cluster: Report) -> None:
    axes = re.findall(r"<text[^>]*>UTC</text>", render(cluster, Format.HTML))
    assert len(axes) == 1
    (use, *_) = (section.chart for section in cluster.sections if section.chart is not None)
    assert use is not None
    assert '"utc"' not in json.dumps(use.draw(LIGHT, False).to_dict(), default=str)


def test_attached_pictures_are_those_that_the_page_names(cluster: Report) -> None:
    text = render(cluster, Format.HTML, Style(pictures=Pictures.ATTACHED))
    drawn = attachments(cluster)
    assert {f"cid:{name}" for name in drawn} == set(Page(text).addresses)
    assert all(picture.startswith(b"\x89PNG") for picture in drawn.values())


def test_states_add_up_to_the_hardware(cluster: Report, span: Span) -> None:
    (states,) = (table for table in cluster.tables if table.name == "states")
    hours = (span.end - span.start).total_seconds() / 3600
    assert sum(row["gpu_hours"] for row in states.rows) == pytest.approx(2 * 8 * hours)


def test_figures_are_the_ledgers(cluster: Report, client: Client, span: Span) -> None:
    ledger = client.rows("ledger_by_state", from_ts=span.start, to_ts=span.end)
    wasted = sum(row["gpu_hours"] for row in ledger if row["state"] in ("allocated-empty", "held-idle"))
    figures = plain(cluster)["figures"]
    assert figures["wasted_gpu_hours"] == pytest.approx(wasted)
    assert figures["wasted_cost"] == pytest.approx(2 * wasted)
    assert text.gpu_hours(wasted) in render(cluster, Format.HTML)
    assert text.gpu_hours(wasted) in render(cluster, Format.MARKDOWN)


def test_the_chargeback_adds_up_and_reads_back(client: Client, span: Span) -> None:
    report = made(client, span, ReportKind.CHARGEBACK)
    rows = list(csv.DictReader(io.StringIO(render(report, Format.CSV))))
    held = client.rows("ledger_by_user", from_ts=span.start, to_ts=span.end)
    assert sum(float(row["gpu_hours"]) for row in rows) == pytest.approx(
        sum(row["held_gpu_hours"] for row in held)
    )
    assert sum(float(row["cost"]) for row in rows) == pytest.approx(plain(report)["figures"]["cost"])
    assert {row["currency"] for row in rows} == {"USD"}


@pytest.mark.parametrize("kind", list(ReportKind))
def test_every_kind_can_be_written_in_every_format(client: Client, span: Span, kind: ReportKind) -> None:
    jobs = client.rows("jobs", from_ts=span.start, to_ts=span.end)
    about = {
        ReportKind.MY_WEEK: {"user": jobs[0]["user_name"]},
        ReportKind.PROJECT_WEEK: {"project": jobs[0]["project"]},
    }.get(kind, {})
    report = made(client, span, kind, **about)
    text = {format: render(report, format) for format in Format}
    assert {format for format in Format if not text[format] or "None" in text[format]} == set()
    assert {format for format in Format if "nan" in text[format].lower().split()} == set()
    assert json.loads(text[Format.JSON])["kind"] == kind.value


def test_a_person_without_gpus_gets_a_kind_sentence(client: Client, span: Span) -> None:
    report = made(client, span, ReportKind.MY_WEEK, user="nobody-here")
    assert report.opening == "You held no GPU in this time."
    assert "You held no GPU in this time." in render(report, Format.HTML)


def test_a_time_without_samples_is_said_to_be_one(client: Client, span: Span) -> None:
    early = Span(start=span.start - timedelta(days=900), end=span.end - timedelta(days=900))
    report = made(client, early, ReportKind.CLUSTER_WEEK)
    assert report.opening == "Nothing was measured in this time."
    render(report, Format.HTML)


def test_a_chargeback_of_nothing_misses_no_prices(client: Client, span: Span) -> None:
    early = Span(start=span.start - timedelta(days=900), end=span.end - timedelta(days=900))
    report = made(client, early, ReportKind.CHARGEBACK)
    assert (report.opening, report.notes) == ("Nobody held a GPU in this time.", (SIMULATED,))


def test_a_job_that_did_nothing_is_among_no_best_uses() -> None:
    def row(job: str, ratio: float | None) -> dict[str, object]:
        named = {"job": job, "job_name": None, "command": None}
        return {**named, "gpu_hours": 5.0, "utilization_ratio": ratio}

    rows = [row("idle", 0.0), row("low", 0.24), row("fair", 0.25), row("good", 0.9), row("dark", None)]
    assert [each["job"] for each in best_jobs(rows)] == ["good", "fair"]
    hours = {"used_gpu_hours": 1.0, "busy_gpu_hours": 1.0, "wasted_gpu_hours": 0.0, "unknown_gpu_hours": 4.0}
    dark = row("dark", 1.0) | hours | {"gpus": 1, "gpus_used": 1, "rung": 3, "found": None}
    assert [each["job"] for each in best_jobs([dark, *rows])] == ["good", "fair"], (
        "of one hour of five no praise"
    )
    hung = dark | {"job": "hung", "unknown_gpu_hours": 0.0, "found": "may-hang"}
    assert [each["job"] for each in best_jobs([hung, *rows])] == ["good", "fair"]
    bound = row("bound", 1.0) | {"rung": 1}
    assert [each["job"] for each in best_jobs([bound, *rows])] == ["good", "fair", "bound"], "no bound leads"


def test_reports_about_one_ask_for_the_name(client: Client, span: Span) -> None:
    with pytest.raises(BadReport, match="--project"):
        made(client, span, ReportKind.PROJECT_WEEK)
    with pytest.raises(BadReport, match="--user"):
        made(client, span, ReportKind.MY_WEEK)


HOSTILE = '<img src=x onerror=alert(1)>|"\n=HYPERLINK("http://evil")'


def hostile(cluster: Report) -> Report:
    table = Table(
        name="jobs",
        columns=(Column(key="name", title="Job"), Column(key="held", title="Held", measure=Measure.HOURS)),
        rows=[{"name": HOSTILE, "held": 1.0}, {"name": "=1+1", "held": None}],
    )
    section = Section(heading=HOSTILE, sentences=(HOSTILE,), table=table)
    return replace(cluster, title=HOSTILE, sections=(section,))


def test_names_are_text_in_every_format(cluster: Report) -> None:
    report = hostile(cluster)
    page = Page(render(report, Format.HTML))
    assert "img" not in page.tags
    marked = render(report, Format.MARKDOWN)
    row = next(line for line in marked.splitlines() if line.startswith("|") and "onerror" in line)
    assert row.count("|") - row.count("\\|") == 3 and "<img" not in row
    rows = list(csv.reader(io.StringIO(render(report, Format.CSV))))
    assert rows[1][0] == HOSTILE and rows[2] == ["'=1+1", ""]


MARKED = "a_b_c *d* [e](http://evil) `f` $g$ ~~h~~ | <i>j</i> &lt; \\_k <!channel>"


def test_markdown_shows_names_as_they_were_typed(cluster: Report) -> None:
    """Read by a Markdown reader, with tables: nothing is a mark, a link or a tag."""
    report = replace(hostile(cluster), title=MARKED, opening=MARKED, notes=(MARKED,), figures=())
    table = Table(name="t", columns=(Column(key="n", title=MARKED),), rows=[{"n": MARKED}])
    section = Section(heading=MARKED, sentences=(MARKED,), table=table)
    text = render(replace(report, sections=(section,)), Format.MARKDOWN)
    reader = MarkdownIt("commonmark").enable(["table", "strikethrough"])
    tokens = [inline for block in reader.parse(text) for inline in block.children or ()]
    assert {token.type for token in tokens} <= {"text", "text_special", "softbreak"}
    said = "".join(token.content for token in tokens)
    unlinked = MARKED.replace("http://", "http:\N{WORD JOINER}//")  # no reader makes a link of it
    assert said.count(unlinked) == 7
    assert "<!channel>" not in text and text.endswith("\n")


def test_instants_in_sentences_are_told_in_the_reports_zone(cluster: Report) -> None:
    section = Section(heading="x", sentences=("ann has held it since 2026-11-20 20:05 UTC, idle.",))
    report = replace(cluster, zone=ZoneInfo("Asia/Kolkata"), sections=(section,))
    for format in (Format.HTML, Format.MARKDOWN):
        assert "since 21 Nov 01:35, idle" in render(report, format)


def test_a_site_can_bring_its_own_template(cluster: Report, tmp_path: Path) -> None:
    (tmp_path / "report.html.j2").write_text("<h1>ACME: {{ report.title }}</h1>{{ report.figures[0].value }}")
    text = render(cluster, Format.HTML, Style(templates=tmp_path))
    assert text.startswith("<h1>ACME: ")
    (tmp_path / "report.css").write_text("body { color: teal }")
    (tmp_path / "report.html.j2").unlink()
    assert "color: teal" in render(cluster, Format.HTML, Style(templates=tmp_path))


@pytest.mark.parametrize(
    ("body", "says"), [("{% if %}", "line 2"), ("{{ report.titel }}", "titel"), ("{% include 'x' %}", "x")]
)
def test_a_broken_template_is_named_with_its_line(
    cluster: Report, tmp_path: Path, body: str, says: str
) -> None:
    (tmp_path / "report.html.j2").write_text(f"<p>\n{body}</p>")
    with pytest.raises(BadTemplate, match=says):
        render(cluster, Format.HTML, Style(templates=tmp_path))


def test_the_verb_writes_the_file_it_names(data: Path, tmp_path: Path) -> None:
    out = tmp_path / "deep" / "week.md"
    done = fallow("report", "cluster-week", "--since", "3d", "--out", str(out), data=data)
    assert (done.returncode, done.stderr) == (0, f"{SAID}\n")
    assert str(out.name) in done.stdout.replace("\n", "")
    assert out.read_text().startswith("# Simulated: The cluster's GPUs")


def test_a_terminal_without_the_letters_ends_nothing(data: Path, tmp_path: Path) -> None:
    narrow = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    out = tmp_path / "week.md"
    for target in ("-", str(out)):
        done = fallow("report", "chargeback", "--format", "md", "--out", target, data=data, env=narrow)
        assert (done.returncode, done.stderr) == (0, f"{SAID}\n")
    assert " GPU-hours" in out.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("report",), "which report?"),
        (("report", "cluster-weak"), "did you mean cluster-week?"),
        (("report", "project-week"), "--project"),
        (("report", "cluster-week", "--out", "x.pdf"), "what format is x.pdf?"),
        (("report", "cluster-week", "--zone", "Mars/Base"), "is no time zone"),
        (("report", "cluster-week", "--templates", "/nowhere"), "there is no folder /nowhere"),
        (("report", "cluster-week", "--out", "/proc/no/where.md"), "cannot write the report"),
    ],
)
def test_what_cannot_be_made_is_said(data: Path, words: tuple[str, ...], says: str) -> None:
    done = verb(*words, data=data)
    assert done.returncode != 0
    assert says in done.stderr.replace("\n", " ")
    assert "Traceback" not in done.stderr


def test_the_list_names_each_kind_in_order_and_the_table_that_schedules_one(data: Path) -> None:
    shown = verb("report", "--list", data=data).stdout
    assert [line.split()[0] for line in shown.splitlines()[2 : 2 + len(ReportKind)]] == [
        kind.value for kind in ReportKind
    ]
    assert "None is scheduled: see [reports.NAME] in docs/reports.md." in shown


def test_the_list_names_every_kind(data: Path) -> None:
    done = verb("report", "--list", "--json", data=data)
    assert [row["kind"] for row in json.loads(done.stdout)] == [kind.value for kind in ReportKind]


def test_a_preview_fits_a_terminal_and_writes_nothing(data: Path, tmp_path: Path) -> None:
    done = fallow("report", "chargeback", "--preview", data=data, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert list(tmp_path.iterdir()) == []
    assert max(len(line) for line in done.stdout.splitlines()) <= 120

"""The Reports page in a browser: read, downloaded, scheduled, and a person's own for that person alone."""

import csv
import io
import json
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path

import pytest

from service.client import connect
from service.config.file import load, parse
from service.reports.build import Wanted, make
from service.reports.model import Measure, Report, ReportKind, Span, Table
from service.reports.posting import Order, post
from service.reports.render import Format, render
from service.reports.values import written
from tests.dashboard.conftest import Screen, showing

pytestmark = pytest.mark.browser
CODE = "a-code-that-nobody-guesses-0123456789"
ABOUT = {ReportKind.PROJECT_WEEK: "project", ReportKind.MY_WEEK: "user"}


@cache
def week() -> Span:
    """Six days up to a full hour that is over, the same for all tests here."""
    end = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) - timedelta(hours=1)
    return Span(start=end - timedelta(days=6), end=end)


@pytest.fixture(scope="module")
def span() -> Span:
    return week()


@pytest.fixture(scope="module")
def holder(simulated: Path, span: Span) -> dict[str, str]:
    """The person who held most, and their project."""
    with connect(simulated) as client:
        rows = client.rows("people", from_ts=span.start, to_ts=span.end)
    most = max((row for row in rows if row["project"]), key=lambda row: row["gpu_hours"])
    return {"user": most["user_name"], "project": most["project"]}


@pytest.fixture(scope="module")
def papers(simulated: Path, span: Span, holder: dict[str, str]) -> list[Path]:
    """What two schedules would have written and put into the outbox at the end of the span."""
    config = load(simulated / "fallow.toml").config
    with connect(simulated) as client:
        for name in ("monday", "mine"):
            order = Order(name=name, due=span.end, report=config.reports[name], delivery=config.delivery)
            post(order, simulated, client, span.end)
    mine = simulated / "reports" / f"mine-{holder['user']}-{span.end:%Y-%m-%dT%H%M}.html"
    mine.write_text("<!doctype html><title>x</title><p>only for one</p><script>document.title='ran'</script>")
    return sorted((simulated / "reports").iterdir())


@pytest.fixture(scope="module")
def signed(simulated: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A dashboard of the same service to which visitors sign in."""
    folder = tmp_path_factory.mktemp("signed")
    with showing(folder / "log", FALLOW_DATA=str(simulated), FALLOW_DASHBOARD_CODE=CODE) as base:
        yield base


def window(span: Span) -> str:
    return f"from={span.start:%Y-%m-%dT%H:%MZ}&to={span.end:%Y-%m-%dT%H:%MZ}&tz=utc"


def made(data: Path, span: Span, kind: ReportKind, **about: str) -> Report:
    with connect(data) as client:
        return make(client, Wanted(kind=kind, span=span, **about), span.end)  # type: ignore[arg-type]


def plain(text: str) -> str:
    return re.sub(r"\s", " ", text).strip()


@pytest.mark.parametrize("kind", list(ReportKind))
def test_each_kind_reads_as_the_report_that_is_sent(
    dashboard: str,
    simulated: Path,
    look: Callable[..., Screen],
    holder: dict[str, str],
    kind: ReportKind,
) -> None:
    span = week()
    about = {ABOUT[kind]: holder[ABOUT[kind]]} if kind in ABOUT else {}
    sent = made(simulated, span, kind, **about)
    asked = "".join(f"&{name}={value}" for name, value in about.items())
    screen = look(dashboard).open(f"/reports?kind={kind}&{window(span)}{asked}")
    screen.until("() => document.querySelector('.st-key-report-files')")
    assert plain(screen.headline) == plain(sent.title)
    shown = plain(screen.text())
    assert plain(sent.opening) in shown
    figures = screen.page.locator(".figures dd").all_inner_texts()
    told = [written(f.value, f.measure, sent.currency) for f in sent.figures]
    assert [plain(text) for text in figures] == [plain(text) for text in told]
    headings = [section.heading for section in sent.sections]
    assert [plain(each) for each in screen.page.locator("h3").all_inner_texts()][: len(headings)] == headings
    assert screen.charts() == sum(section.chart is not None for section in sent.sections)
    for section in sent.sections:
        assert section.chart is None or plain(section.chart.says) in shown


def test_a_filter_narrows_a_report_and_it_says_so(
    dashboard: str, look: Callable[..., Screen], span: Span, holder: dict[str, str]
) -> None:
    screen = look(dashboard).open(f"/reports?{window(span)}&project={holder['project']}")
    assert screen.headline.startswith(f"Simulated: The GPUs of {holder['project']}")
    assert f"{holder['project']} held" in screen.text()
    assert "would have given back" not in screen.text()


def test_it_is_downloaded_in_four_formats(
    dashboard: str, simulated: Path, look: Callable[..., Screen], span: Span
) -> None:
    sent = made(simulated, span, ReportKind.CHARGEBACK)
    screen = look(dashboard).open(f"/reports?kind=chargeback&{window(span)}")
    files = {}
    for label in ("HTML", "Markdown", "CSV", "JSON"):
        button = screen.page.locator(".st-key-report-files").get_by_role("button", name=re.compile(label))
        button.wait_for()
        with screen.page.expect_download() as got:
            button.click()
        assert got.value.suggested_filename.startswith(f"fallow-chargeback-{span.end:%Y-%m-%d}.")
        files[label] = Path(got.value.path()).read_text()
    assert files["CSV"] == render(sent, Format.CSV)
    assert {**json.loads(files["JSON"]), "made_at": 0} == {
        **json.loads(render(sent, Format.JSON)),
        "made_at": 0,
    }
    assert sent.title in files["HTML"] and "<script" not in files["HTML"]
    assert files["Markdown"].startswith(f"# {sent.title}")
    assert len(list(csv.reader(io.StringIO(files["CSV"])))) == len(sent.tables[0].rows) + 1


def test_the_lines_to_add_are_a_schedule_of_what_is_on_the_screen(
    dashboard: str, look: Callable[..., Screen], holder: dict[str, str]
) -> None:
    screen = look(dashboard).open(f"/reports?kind=project-week&range=7d&project={holder['project']}")
    screen.page.get_by_text("Have it come by itself").click()
    shown = screen.page.locator(".st-key-report-schedule")
    shown.get_by_test_id("stCode").wait_for()
    (report,) = parse(shown.get_by_test_id("stCode").inner_text(), origin="x").config.reports.values()
    assert (report.kind, report.project, report.since) == ("project-week", holder["project"], "7d")
    assert (report.cron, report.zone) == ("0 8 * * mon", "Europe/Berlin")
    shown.get_by_role("radio", name="Every day").click()
    screen.until("() => document.body.innerText.includes('0 8 * * *')")


def test_what_comes_by_itself_says_when_and_what_became_of_it(
    dashboard: str, look: Callable[..., Screen], papers: list[Path]
) -> None:
    screen = look(dashboard).open("/reports?by=scheduled")
    assert re.search(r"2 reports come by themselves; (monday|mine) is next", screen.headline)
    assert "Written so far" in screen.text()
    table = screen.page.get_by_test_id("stDataFrame").first.bounding_box()
    screen.page.mouse.click(table["x"] + 18, table["y"] + 54)
    screen.until_address("report=")
    screen.until("() => document.querySelector('[data-testid=stIFrame], [data-testid=stCode]')")
    screen.page.get_by_role("button", name="All that was written").click()
    screen.until("() => !location.href.includes('report=')")


def test_an_opened_paper_is_drawn_and_runs_nothing(
    dashboard: str, look: Callable[..., Screen], papers: list[Path]
) -> None:
    monday = next(each for each in papers if each.name.startswith("monday-"))
    screen = look(dashboard).open(f"/reports?by=scheduled&report={monday.name}")
    frame = screen.page.frame_locator('[data-testid="stIFrame"]')
    frame.locator("h1").wait_for()
    assert frame.locator("svg").count() == 3
    screen.assert_well()
    mine = next(
        each for each in papers if each.name.startswith("mine-") and "only for one" in each.read_text()
    )
    screen.open(f"/reports?by=scheduled&report={mine.name}")
    frame.get_by_text("only for one").wait_for()
    ran = [said for said in screen.troubles if "script" in said]
    assert len(ran) == len(screen.troubles) == 1, "the policy says aloud that it stopped the script"
    assert frame.locator("title").text_content() == "x" if frame.locator("title").count() else True
    screen.troubles.clear()


@pytest.mark.parametrize(
    "name", ["../token", "..%2Ftoken", "%2Fetc%2Fpasswd", "no-such-2026-01-01T0000.html"]
)
def test_an_address_opens_nothing_but_written_reports(
    dashboard: str, look: Callable[..., Screen], name: str
) -> None:
    screen = look(dashboard).open(f"/reports?by=scheduled&report={name}")
    assert "is not here" in screen.text()
    assert screen.page.get_by_test_id("stIFrame").count() == 0


def test_a_personal_report_is_for_that_person_alone(
    signed: str, simulated: Path, look: Callable[..., Screen], papers: list[Path], holder: dict[str, str]
) -> None:
    mine = next(each for each in papers if each.name.startswith("mine-"))
    screen = look(signed).open(f"/reports?by=scheduled&report={mine.name}")
    assert "is not yours to read" in screen.text()
    assert "are personal and not shown here" in screen.text()
    screen.open(f"/reports?kind=my-week&range=7d&user={holder['user']}")
    assert "Sign in" in screen.page.locator(".st-key-notice").inner_text()
    screen.open(f"/reports?kind=my-week&range=7d&code={CODE}")
    assert screen.headline.startswith("Simulated: Your GPUs, ")


def test_a_table_on_the_screen_reads_as_in_the_files(simulated: Path, span: Span) -> None:
    from service.pages.parts.report_view import styled_table

    sent = made(simulated, span, ReportKind.CLUSTER_WEEK)
    for table in sent.tables:
        assert _cells(table, sent.currency, styled_table(table, sent.currency)) == []


def _cells(table: Table, currency: str | None, styled: object) -> list[tuple[str, str]]:
    """Cells that read otherwise than the report's own words."""
    drawn = styled._translate(False, False)["body"]  # type: ignore[attr-defined]  # what a page is sent
    wrong = []
    for row, cells in zip(table.rows, drawn, strict=True):
        shown = [cell["display_value"] for cell in cells if cell["type"] == "td"]
        for column, text in zip(table.columns, shown, strict=True):
            right = written(row.get(column.key), column.measure, currency)
            if str(text) != right and not (column.measure is Measure.TEXT and text is None):
                wrong.append((str(text), right))
    return wrong

"""Every page, in a real browser, on the simulated cluster: drawn, clicked through, sent to a colleague."""

import re
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from service.client import connect

pytestmark = pytest.mark.browser

PAGES = {
    "overview": ("/", r"GPUs, .* were handed out and .* worked", 4),
    "cluster": ("/cluster", r"of 32 GPUs are held now", 1),
    "people": ("/people", r"people held .* and wasted", 2),
    "jobs": ("/jobs", r"jobs held .* wasted outright", 0),
    "to do": ("/todo", r"to do something about|Nothing was found", 0),
}


def newest_job(data: Path) -> Any:
    """A job of the simulated cluster that held several GPUs, from the service itself."""
    with connect(data) as client:
        last = client.query("span").iloc[0]["complete_to"]
        jobs = client.query("jobs", from_ts=last - timedelta(days=7), to_ts=last)
    return jobs[jobs["gpus"] > 1].iloc[0]


def some_gpu(data: Path) -> Any:
    with connect(data) as client:
        gpus = client.query("gpus_now")
    return gpus[gpus["node"] == gpus["node"].iloc[0]].iloc[0]


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("name", list(PAGES))
def test_page_is_drawn_whole(dashboard: str, look: Callable, name: str, dark: bool) -> None:
    path, sentence, charts = PAGES[name]
    screen = look(dashboard, dark=dark).open(f"{path}?range=7d", charts=charts)
    assert re.search(sentence, screen.headline)
    assert screen.charts() == charts <= screen.tables()


@pytest.mark.parametrize("name", list(PAGES))
def test_page_fits_a_narrow_window(dashboard: str, look: Callable, name: str) -> None:
    screen = look(dashboard, width=900).open(f"{PAGES[name][0]}?range=7d", charts=PAGES[name][2])
    assert screen.page.evaluate("() => document.documentElement.scrollWidth") <= 900


def test_a_click_on_the_map_leads_to_that_gpu(dashboard: str, look: Callable) -> None:
    screen = look(dashboard).open("/cluster?range=24h", charts=1)
    canvas = screen.page.locator('[data-testid="stVegaLiteChart"] canvas').first
    box = canvas.bounding_box()
    canvas.click(position={"x": box["width"] * 0.6, "y": 30})
    screen.until_address("/gpu?").until("() => document.body.innerText.includes('Holders in this time')")
    assert "GPU" in screen.headline
    assert "range" not in urlsplit(screen.page.url).query
    assert parse_qs(urlsplit(screen.page.url).query)["gpu"][0].startswith("GPU-")
    screen.page.get_by_role("link", name="All GPUs").click()
    screen.until_address("/cluster")


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_a_gpu_shows_every_measure_on_one_axis(
    dashboard: str, simulated: Path, look: Callable, dark: bool
) -> None:
    gpu = some_gpu(simulated)
    screen = look(dashboard, dark=dark, height=1000).open(f"/gpu?gpu={gpu['uuid']}&range=24h", charts=1)
    shown = screen.text()
    assert gpu["node"] in screen.headline
    assert gpu["uuid"] in shown
    assert screen.charts() == 1 <= screen.tables()
    for title in ("Processes now", "Events", "Holders in this time"):
        assert title in shown


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_a_job_shows_its_gpus_and_measures(
    dashboard: str, simulated: Path, look: Callable, dark: bool
) -> None:
    job = newest_job(simulated)
    screen = look(dashboard, dark=dark, height=1100).open(f"/jobs?range=7d&job={job['job']}", charts=2)
    assert str(job["job_name"]) in screen.headline
    assert str(job["job"]) in screen.text()
    assert screen.charts() == 2 <= screen.tables()


def test_a_job_is_found_by_typing(dashboard: str, simulated: Path, look: Callable) -> None:
    job = newest_job(simulated)
    screen = look(dashboard).open("/jobs?range=7d")
    box = screen.page.get_by_role("combobox", name="Find a job")
    box.fill(str(job["job"]))
    screen.page.get_by_role("option").first.click()
    screen.until_address("job=")
    assert parse_qs(urlsplit(screen.page.url).query)["job"] == [str(job["job"])]
    screen.page.get_by_role("button", name="All jobs").click()
    screen.until("() => !location.href.includes('job=')")


def test_a_row_of_the_job_list_opens_the_job(dashboard: str, look: Callable) -> None:
    screen = look(dashboard).open("/jobs?range=7d")
    table = screen.page.get_by_test_id("stDataFrame").bounding_box()
    screen.page.mouse.click(table["x"] + 18, table["y"] + 54)
    screen.until_address("job=").settled(charts=2)


def test_choosing_a_range_changes_address_and_figures(dashboard: str, look: Callable) -> None:
    screen = look(dashboard).open("/")
    before = screen.headline
    screen.page.get_by_role("radio", name=re.compile("14")).click()
    screen.until_address("range=14d")
    screen.until(f"() => document.querySelector('h2').innerText !== {before!r}")


def test_filters_live_in_the_address_and_go_along(dashboard: str, look: Callable) -> None:
    screen = look(dashboard).open("/cluster?range=6h")
    screen.page.get_by_role("button", name="Filter").click()
    screen.page.get_by_role("combobox", name="Filter by node").click()
    screen.page.get_by_role("option").first.click()
    screen.until_address("node=").until("() => document.querySelector('h2').innerText.includes('of 8 GPUs')")
    screen.page.get_by_role("link", name="People and projects").click()
    screen.until_address("/people?")
    query = parse_qs(urlsplit(screen.page.url).query)
    assert query["range"] == ["6h"]
    assert "node" in query


def test_a_held_view_is_the_same_for_a_colleague(dashboard: str, look: Callable) -> None:
    mine = look(dashboard).open("/?range=24h&project=vision")
    mine.page.locator(".st-key-filters").get_by_test_id("stPopover").get_by_role("button").first.click()
    mine.page.get_by_role("button", name=re.compile("Hold this window")).click()
    mine.until_address("from=")
    theirs = look(dashboard).open(mine.page.url.removeprefix(dashboard))
    assert "project=vision" in theirs.page.url
    assert theirs.headline == mine.headline
    figures = [screen.page.locator(".figures dd").all_inner_texts() for screen in (mine, theirs)]
    assert figures[0] == figures[1]


def test_times_say_their_zone_and_can_be_utc(dashboard: str, look: Callable) -> None:
    screen = look(dashboard, zone="America/St_Johns").open("/?from=2026-01-01T00:00Z&to=2026-01-02T00:00Z")
    button = screen.page.locator(".st-key-filters").get_by_test_id("stPopover").get_by_role("button").first
    button.filter(has_text="20:30").wait_for()
    button.click()
    screen.page.get_by_text("Times are shown in America/St_Johns (UTC-0").wait_for()
    screen.page.get_by_text("UTC", exact=True).click()
    screen.until_address("tz=utc")
    screen.settled()
    button.filter(has_text="00:00").wait_for()
    button.click()
    screen.page.get_by_text("Times are shown in UTC.").wait_for()


def test_a_job_to_do_something_about_has_a_message_evidence_and_a_kind(
    dashboard: str, look: Callable
) -> None:
    """Through the address of the page that was: it leads here, says so, and keeps what was chosen."""
    screen = look(dashboard).open("/findings?range=14d")
    screen.until_address("/todo?range=14d").page.get_by_text("is part of this page now").wait_for()
    if not re.match(r"[1-9]", screen.headline):
        pytest.fail("the simulated cluster has findings, and the page shows none")
    screen.page.get_by_role("button", name="Message").first.click()
    screen.page.get_by_test_id("stPopoverBody").get_by_text("What would help:").wait_for()
    screen.page.keyboard.press("Escape")
    screen.page.get_by_text("Evidence", exact=True).first.click()
    screen.page.get_by_text("judged on").first.wait_for()
    screen.page.get_by_role("radiogroup", name="Kind of finding").get_by_role("radio").first.click()
    screen.until_address("kind=")


def test_projects_are_ranked_like_people(dashboard: str, look: Callable) -> None:
    screen = look(dashboard).open("/people?range=7d")
    screen.page.get_by_role("radio", name="Projects").click()
    screen.until_address("by=projects").until(
        "() => /projects held/.test(document.querySelector('h2').innerText)"
    )
    screen.settled(charts=2)


def test_live_figures_refresh_by_themselves(dashboard: str, look: Callable) -> None:
    screen = look(dashboard).open("/?range=1h")
    pulse = "document.querySelector('.pulse').innerText"
    first = screen.page.evaluate(pulse)
    screen.until(f"() => {pulse} !== {first!r}")
    assert "live" in screen.page.evaluate(pulse)

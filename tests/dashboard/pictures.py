"""Makes the pictures of every page for docs/dashboard.md: ``python -m tests.dashboard.pictures [NAME ...]``.

It starts a service that watches machines which live as the simulated cluster does (its seed is fixed; the
hour of the day decides what runs), submits jobs to it, and takes each page with a headless Chromium. Takes
about two minutes.
"""

import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from service.client import connect
from service.client.jobs import connect_acting
from service.config.file import load
from service.reports.posting import Order, post
from tests.dashboard.conftest import QUIET, ROOT, SCHEDULES, Screen, acting_site, showing, shrink
from tests.dashboard.submitting import ASKS, submit

FOLDER = ROOT / "docs" / "images" / "pages"
CODE = "a-code-that-nobody-guesses-0123456789"
WIDTH, PHONE = 1280, 390
TALLEST = 1_500
LARGEST_BYTES = 150_000
WAIT_S = 90


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """A page as it is taken. ``whole``: as tall as it is, up to ``TALLEST``; ``then`` is done before."""

    name: str
    path: str
    charts: int = 0
    width: int = WIDTH
    height: int = 800
    dark: bool = False
    whole: bool = True
    then: Callable[[Screen], None] = lambda _: None


def _evidence(screen: Screen) -> None:
    screen.page.get_by_text("Evidence", exact=True).first.click()
    screen.settled(charts=1)


def pictures(job: str, gpu: str, submitted: str) -> tuple[Picture, ...]:
    """All of them; ids of a measured job, a GPU and a submitted job are handed in."""
    return (
        Picture(name="overview", path="/?range=7d", charts=4),
        Picture(name="overview-dark", path="/?range=7d", charts=4, dark=True),
        Picture(name="cluster", path="/cluster?range=24h", charts=1),
        Picture(name="gpu", path=f"/gpu?range=24h&gpu={gpu}", charts=1),
        Picture(name="people", path="/people?range=7d", charts=2),
        Picture(name="jobs", path="/jobs?range=7d"),
        Picture(name="job", path=f"/jobs?range=7d&job={job}", charts=2),
        Picture(name="job-submitted", path=f"/jobs?job={submitted}", charts=1),
        Picture(name="queue", path="/queue", charts=1),
        Picture(name="todo", path="/todo?range=7d", then=_evidence),
        Picture(name="actions", path="/actions"),
        Picture(name="whatif", path="/whatif?range=7d", charts=2),
        Picture(name="reports", path="/reports?range=7d", charts=3),
        Picture(name="reports-scheduled", path="/reports?by=scheduled"),
        Picture(name="settings", path="/settings"),
        Picture(name="wall", path="/?kiosk=overview", charts=1, height=720, whole=False, dark=True),
        Picture(name="wall-cluster", path="/?kiosk=cluster", height=720, whole=False),
        Picture(name="phone", path="/?range=7d", charts=4, width=PHONE, height=844, whole=False),
        Picture(name="phone-todo", path="/todo?range=7d", width=PHONE, height=844, whole=False),
    )


def take(folder: Path, names: Sequence[str] = ()) -> list[Path]:
    """Take all pictures, or those named, into ``folder``; the files. A large one raises AssertionError."""
    folder.mkdir(parents=True, exist_ok=True)
    chromium = shutil.which("chromium")
    if chromium is None:
        sys.exit("chromium is not installed; on Debian: apt-get install chromium")
    from playwright.sync_api import sync_playwright

    with (
        tempfile.TemporaryDirectory() as scratch,
        site(Path(scratch)) as (base, wanted),
        sync_playwright() as play,
    ):
        browser = play.chromium.launch(executable_path=chromium, args=QUIET)
        try:
            return [_take(browser, base, each, folder) for each in wanted if not names or each.name in names]
        finally:
            browser.close()


@contextmanager
def site(scratch: Path) -> Iterator[tuple[str, tuple[Picture, ...]]]:
    """A dashboard with something to see on every page; its address, and what to take of it."""
    data = scratch / "data"
    more = f"{ASKS}{SCHEDULES}"
    with acting_site(data, scratch / "serve.log", days=8, more=more):
        line = connect_acting(data)
        made = _submitted(data, scratch)
        _reported(data)
        try:
            _until(lambda: line.job(made).state == "running")
            _until(lambda: any(row.state == "waiting" for row in line.plans()))
            line.keep(made, 4, "a demo at noon")
            with showing(scratch / "log", FALLOW_DATA=str(data), FALLOW_DASHBOARD_CODE=CODE) as base:
                yield base, pictures(*_measured(data), made)
        finally:
            for row in line.jobs():
                if row.state != "ended":
                    line.cancel(row.job)


def _submitted(data: Path, home: Path) -> str:
    made = submit(data, home, "--project", "vision", "--name", "saver", "--checkpoint-signal", "USR1")
    for project, name, gpus in (
        ("bio", "fold-all", "64"),
        ("speech", "whisper-sweep", "40"),
        ("nlp", "eval", "48"),
    ):
        submit(data, home, "--project", project, "--name", name, "--gpus", gpus)
    return made


def _reported(data: Path) -> None:
    """Last Monday's report, as the schedule would have made it."""
    now = datetime.now(UTC)
    due = (now - timedelta(days=now.weekday())).replace(hour=7, minute=0, second=0, microsecond=0)
    config = load(data / "fallow.toml").config
    order = Order(name="monday", due=due, report=config.reports["monday"], delivery=config.delivery)
    with connect(data) as client:
        post(order, data, client, now)


def _measured(data: Path) -> tuple[str, str]:
    """A job that held several GPUs, and one of the GPUs that is held now."""
    with connect(data) as client:
        last = client.query("span").iloc[0]["complete_to"]
        jobs = client.query("jobs", from_ts=last - timedelta(days=7), to_ts=last)
        gpus = client.query("gpus_now")
    held = gpus[gpus["user_name"].notna()]
    return str(jobs[jobs["gpus"] > 1].iloc[0]["job"]), str(held.iloc[0]["uuid"])


def _take(browser: Any, base: str, wanted: Picture, folder: Path) -> Path:
    context = browser.new_context(
        viewport={"width": wanted.width, "height": wanted.height},
        color_scheme="dark" if wanted.dark else "light",
        timezone_id="Europe/Berlin",
        reduced_motion="reduce",
    )
    screen = Screen(context.new_page(), base, settle_ms=WAIT_S * 1000)
    screen.open(wanted.path, charts=wanted.charts)
    wanted.then(screen)
    if wanted.whole:
        tall = screen.page.evaluate(
            "() => document.querySelector('[data-testid=stMainBlockContainer]').scrollHeight"
        )
        screen.page.set_viewport_size(
            {"width": wanted.width, "height": max(wanted.height, min(int(tall) + 8, TALLEST))}
        )
        screen.settled(charts=wanted.charts)
    screen.page.evaluate("() => document.fonts.ready.then(() => true)")
    screen.page.mouse.move(2, 2)
    screen.page.wait_for_timeout(500)
    target = folder / f"{wanted.name}.png"
    screen.page.screenshot(path=str(target))
    screen.assert_well()
    context.close()
    shrink(target)
    size = target.stat().st_size
    assert size <= LARGEST_BYTES, f"{target} has {size} bytes: take less of the page"
    return target


def _until(holds: Callable[[], bool]) -> None:
    limit = time.monotonic() + WAIT_S
    while not holds():
        assert time.monotonic() < limit, f"it did not come to pass in {WAIT_S} s"
        time.sleep(0.5)


if __name__ == "__main__":
    for taken in take(FOLDER, sys.argv[1:]):
        print(f"{taken.name}: {taken.stat().st_size // 1024} KiB")

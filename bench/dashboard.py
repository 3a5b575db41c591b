"""How soon the dashboard's pages are full, and a filter's answer: with a long history, and with a long queue.

*History*: a store of 1,000 GPUs and 30 days (``bench/storage``), all of it on the page; first pages are of a
dashboard that was just started, the others of one that has shown a page before. *Queue*: a service on the
simulated cluster with 10,000 submitted jobs that wait (through its Unix socket, as launchers do). The
browser, a headless Chromium, is open already; it has been at this dashboard before, but for the first pages,
which are of a browser that has not. *Streamlit alone* is the bound of what a page can be here: a heading that
names what was chosen in one box, and nothing else, served by the same server in the same run. A page is full
when its heading stands, its charts are drawn and no placeholder is left; each figure is the median of the
rounds, after one that is not counted. The time from the choice of a filter is until the page shows what was
chosen.

    python bench/dashboard.py [--json] [--quick] [--only history|queue]
"""

import argparse
import json
import os
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from bench.storage import questions  # noqa: E402
from service.client import ClientError  # noqa: E402
from service.client.jobs import ActingClient, connect_acting  # noqa: E402
from service.launch import dashboard_file, dashboard_program  # noqa: E402

Found = dict[str, tuple[float, float]]
PAGE_S, FILTER_S = 2.0, 0.5
TO_DO_PAGE_S, TO_DO_FILTER_S = 1.5, 0.3
"""Whoever acts goes through many of its pages."""
WAITING, QUICK = 10_000, 1_000
LIMIT_S = 180
CHROMIUM = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
PROJECTS = ("vision", "speech", "bio", "nlp")
FULL = """() => document.querySelector('h2')
  && document.querySelector('[data-testid=stApp]').dataset.testScriptState === 'notRunning'
  && [...document.querySelectorAll('[data-testid=stVegaLiteChart]')].every(it => it.querySelector('.marks'))
  && !document.querySelector('[data-testid=stSkeleton], [data-testid=stException], .st-key-notice')"""
PAST = {"overview": "/", "cluster": "/cluster", "people": "/people", "to do": "/todo"}
EMPTIEST = """import streamlit as st
names = [f"project{number:02d}" for number in range(20)]
st.header(st.selectbox("Filter by project", names, index=None) or "Nothing", anchor=False)
"""
NAMED = "() => ({full})() && document.querySelector('h2').innerText.includes('{project}')"
LISTED = """() => ({full})()
  && [...document.querySelectorAll('button')].some(it => it.innerText.includes('{project}'))
  && [...document.querySelectorAll('.todo .who')].every(it => it.innerText.includes('in {project}'))"""
"""On *To do* the box of filters names the project, and so does every card."""
PAGES = {
    "queue": "/queue",
    "submitted jobs": "/jobs?by=submitted",
    "to do": "/todo",
    "actions": "/actions",
    "what if": "/whatif?range=7d",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--quick", action="store_true", help="a smaller history and queue, one round")
    parser.add_argument("--only", choices=("history", "queue"))
    options = parser.parse_args()
    path = shutil.which("chromium")
    if path is None:
        sys.exit("dashboard: chromium is not installed; on Debian: apt-get install chromium")
    from playwright.sync_api import sync_playwright

    found: Found = {}
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=CHROMIUM)
        for name, part in (("history", long_history), ("queue", long_queue)):
            if options.only in (None, name):
                found |= part(browser, options.quick)
        browser.close()
    show(found, as_json=options.json)


def long_history(browser: Any, quick: bool) -> Found:
    """Pages of a whole month; the first one by a dashboard that has shown none before."""
    scale = questions.Scale(gpus=250, days=7, sample_days=1) if quick else questions.Scale()
    rounds = 1 if quick else 5
    start = questions.END - timedelta(days=scale.days)
    month = f"from={start:%Y-%m-%dT%H:%MZ}&to={questions.END:%Y-%m-%dT%H:%MZ}"
    found: Found = {}
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "data"
        data.mkdir()
        questions.build(data, scale)
        with serving(data, "[simulated]\nnodes = 1\ngpus_per_node = 1\nbackfill_days = 0\n"):
            firsts = []
            for _ in range(rounds):
                with showing(data) as base, visitor(browser) as new:
                    firsts.append(opened(new, f"{base}/?{month}"))
            found["history, the first overview: page full (s)"] = (statistics.median(firsts), PAGE_S)
            with showing(data) as base, visitor(browser) as here:
                for name, page in PAST.items():
                    times = [opened(here, f"{base}{page}?{month}") for _ in range(rounds + 1)][1:]
                    bar = TO_DO_PAGE_S if name == "to do" else PAGE_S
                    found[f"history, {name}: page full (s)"] = (statistics.median(times), bar)
                for name, page, shown in (("overview", "/", NAMED), ("to do", "/todo", LISTED)):
                    url = f"{base}{page}?{month}"
                    times = [narrowed(here, url, number, shown) for number in range(rounds + 1)][1:]
                    bar = TO_DO_FILTER_S if name == "to do" else FILTER_S
                    found[f"history, {name}: a filter's answer (s)"] = (statistics.median(times), bar)
        found |= emptiest(browser, Path(folder), rounds)
    return found


def emptiest(browser: Any, folder: Path, rounds: int) -> Found:
    """What Streamlit takes for nearly nothing."""
    app = folder / "emptiest.py"
    app.write_text(EMPTIEST)
    with showing(folder, app) as base, visitor(browser) as here:
        times = [opened(here, base) for _ in range(rounds + 1)][1:]
        found: Found = {"Streamlit alone: page full (s)": (statistics.median(times), TO_DO_PAGE_S)}
        times = [narrowed(here, base, number, NAMED, box=None) for number in range(rounds + 1)][1:]
        found["Streamlit alone: a choice's answer (s)"] = (statistics.median(times), TO_DO_FILTER_S)
    return found


def long_queue(browser: Any, quick: bool) -> Found:
    """Median seconds of each figure, and its target."""
    waiting, rounds, pages = (QUICK, 1, ("queue",)) if quick else (WAITING, 5, tuple(PAGES))
    found: Found = {}
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "data"
        data.mkdir()
        with serving(data, "[simulated]\nbackfill_days = 7\n") as line:
            submit(line, waiting)
            with showing(data) as base, visitor(browser) as here:
                for name in pages:
                    times = [opened(here, base + PAGES[name]) for _ in range(rounds + 1)][1:]
                    found[f"{waiting} waiting, {name}: page full (s)"] = (statistics.median(times), PAGE_S)
                times = [filtered(here, base) for _ in range(rounds + 1)][1:]
                found[f"{waiting} waiting, queue: a filter's answer (s)"] = (
                    statistics.median(times),
                    FILTER_S,
                )
    return found


@contextmanager
def visitor(browser: Any) -> Iterator[Any]:
    """Somebody's browser, with nothing kept of any dashboard yet."""
    kept = browser.new_context(viewport={"width": 1440, "height": 900})
    yield kept
    kept.close()


def opened(visitor: Any, url: str) -> float:
    """Seconds until the page is full, in a window of its own."""
    page = visitor.new_page()
    began = time.monotonic()
    page.goto(url, wait_until="commit")
    page.wait_for_function(FULL, timeout=LIMIT_S * 1000, polling=20)
    taken = time.monotonic() - began
    page.close()
    return taken


def narrowed(visitor: Any, url: str, number: int, shown: str, *, box: str | None = "Filter") -> float:
    """Seconds from the choice of a project, in a ``box`` to be opened, until the page has it as ``shown``."""
    page = visitor.new_page()
    page.goto(url, wait_until="commit")
    page.wait_for_function(FULL, timeout=LIMIT_S * 1000, polling=20)
    project = f"project{number + 1:02d}"  # some numbers hold nothing
    if box is not None:
        page.get_by_role("button", name=box).click()
    page.get_by_role("combobox", name="Filter by project").click()
    page.keyboard.type(project)
    page.get_by_role("option", name=project).wait_for(timeout=LIMIT_S * 1000)
    began = time.monotonic()
    page.keyboard.press("Enter")
    page.wait_for_function(
        shown.format(full=FULL, project=project),
        timeout=LIMIT_S * 1000,
        polling=20,
    )
    taken = time.monotonic() - began
    page.close()
    return taken


def filtered(visitor: Any, base: str) -> float:
    """Seconds from typing Enter in the queue's search box until the table tells of what was found."""
    page = visitor.new_page()
    page.goto(f"{base}/queue", wait_until="commit")
    page.wait_for_function(FULL, timeout=LIMIT_S * 1000, polling=20)
    box = page.get_by_placeholder("Find by name, person, project or id")
    box.fill("job-77 of")
    began = time.monotonic()
    box.press("Enter")
    page.wait_for_function(
        "() => document.body.innerText.includes('1 job, the next first')", timeout=LIMIT_S * 1000, polling=20
    )
    taken = time.monotonic() - began
    page.close()
    return taken


def submit(line: ActingClient, many: int) -> None:
    """So many jobs that can never start here, so that all of them wait."""

    def one(number: int) -> None:
        line.submit(
            {
                "command": ["python", "train.py"],
                "name": f"job-{number} of a sweep",
                "project": PROJECTS[number % len(PROJECTS)],
                "min_gpus": 64,
                "max_gpus": 64,
                "nonce": f"bench-{number}",
            }
        )

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(one, range(many)))


@contextmanager
def serving(data: Path, config: str) -> Iterator[ActingClient]:
    """A service on a simulated cluster, past its backfill."""
    (data / "fallow.toml").write_text(config)
    command = [sys.executable, "-m", "service.cli", "serve", "--source", "simulated"]
    with running([*command, "--data", str(data), "--port", str(free_port())], {}):
        wait(lambda: _acts(data))
        yield connect_acting(data)


@contextmanager
def showing(data: Path, app: Path | None = None) -> Iterator[str]:
    """The dashboard's address, or that of another ``app`` on its server."""
    port = free_port()
    command = list(dashboard_program(port).command)
    if app is not None:
        command[command.index(str(dashboard_file()))] = str(app)
    with running(command, {"FALLOW_DATA": str(data)}):
        base = f"http://127.0.0.1:{port}"
        wait(lambda: _answers(f"{base}/_stcore/health"))
        yield base


@contextmanager
def running(command: list[str], more: dict[str, str]) -> Iterator[None]:
    kept = {key: value for key, value in os.environ.items() if not key.startswith("FALLOW_")}
    quiet = subprocess.DEVNULL
    process = subprocess.Popen(command, cwd=ROOT, env={**kept, **more}, stdout=quiet, stderr=quiet)
    try:
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=60)


def wait(ready: Callable[[], bool]) -> None:
    limit = time.monotonic() + LIMIT_S
    while not ready():
        if time.monotonic() > limit:
            sys.exit(f"dashboard: not ready within {LIMIT_S} s")
        time.sleep(0.1)


def _acts(data: Path) -> bool:
    try:
        return bool(connect_acting(data).acting().acting)
    except ClientError:
        return False


def _answers(url: str) -> bool:
    try:
        with urlopen(url, timeout=2) as answer:
            return bool(answer.status == 200)
    except (URLError, OSError):
        return False


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def show(found: Found, *, as_json: bool) -> None:
    if as_json:
        rows = {
            name: {"value": round(value, 3), "target": target, "ok": value <= target, "beside": {}}
            for name, (value, target) in found.items()
        }
        print(json.dumps(rows))
        return
    for name, (value, target) in found.items():
        print(f"{name:52} {value:7.2f}   at most {target:g}   {'ok' if value <= target else 'MISSED'}")


if __name__ == "__main__":
    main()

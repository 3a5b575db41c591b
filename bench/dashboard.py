"""How soon the dashboard's pages are full, and how soon a filter's answer is, with a long queue.

A service on the simulated cluster with 10,000 submitted jobs that wait (through its Unix socket, as launchers
do), the dashboard, and a headless Chromium that is open already. A page is full when its heading stands, its
charts are drawn and no placeholder is left; each figure is the median of the rounds, after one that is not
counted. The time from the click on a filter is until the heading has changed.

    python bench/dashboard.py [--json] [--quick]
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
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from service.client import ClientError  # noqa: E402
from service.client.acting import ActingClient, connect_acting  # noqa: E402

PAGE_S, FILTER_S = 2.0, 0.5
WAITING, QUICK = 10_000, 1_000
LIMIT_S = 180
CHROMIUM = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
PROJECTS = ("vision", "speech", "bio", "nlp")
FULL = """() => document.querySelector('h2')
  && document.querySelector('[data-testid=stApp]').dataset.testScriptState === 'notRunning'
  && [...document.querySelectorAll('[data-testid=stVegaLiteChart]')].every(it => it.querySelector('.marks'))
  && !document.querySelector('[data-testid=stSkeleton], [data-testid=stException], .st-key-notice')"""
PAGES = {
    "queue": "/queue",
    "submitted jobs": "/jobs?by=submitted",
    "advice": "/advice",
    "actions": "/actions",
    "what if": "/whatif?range=7d",
    "overview": "/?range=24h",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--quick", action="store_true", help=f"{QUICK} waiting jobs, one round")
    options = parser.parse_args()
    path = shutil.which("chromium")
    if path is None:
        sys.exit("dashboard: chromium is not installed; on Debian: apt-get install chromium")
    from playwright.sync_api import sync_playwright

    waiting, rounds = (QUICK, 1) if options.quick else (WAITING, 5)
    with tempfile.TemporaryDirectory() as folder, serving(Path(folder) / "data") as line:
        submit(line, waiting)
        with showing(Path(folder) / "data") as base, sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=path, args=CHROMIUM)
            found = measured(browser, base, rounds, ("queue",) if options.quick else tuple(PAGES))
            browser.close()
    show(found, waiting, as_json=options.json)


def measured(browser: Any, base: str, rounds: int, pages: tuple[str, ...]) -> dict[str, tuple[float, float]]:
    """Median seconds of each figure, and its target."""
    found = {}
    for name in pages:
        times = [opened(browser, base + PAGES[name]) for _ in range(rounds + 1)][1:]
        found[f"{name}: page full (s)"] = (statistics.median(times), PAGE_S)
    times = [filtered(browser, base) for _ in range(rounds + 1)][1:]
    found["queue: a filter's answer (s)"] = (statistics.median(times), FILTER_S)
    return found


def opened(browser: Any, url: str) -> float:
    """Seconds until the page is full, in a window of its own."""
    page = browser.new_page(viewport={"width": 1440, "height": 900})
    began = time.monotonic()
    page.goto(url, wait_until="commit")
    page.wait_for_function(FULL, timeout=LIMIT_S * 1000, polling=20)
    taken = time.monotonic() - began
    page.close()
    return taken


def filtered(browser: Any, base: str) -> float:
    """Seconds from typing Enter in the queue's search box until the table tells of what was found."""
    page = browser.new_page(viewport={"width": 1440, "height": 900})
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
def serving(data: Path) -> Iterator[ActingClient]:
    """A service on the simulated cluster, past its backfill."""
    data.mkdir()
    (data / "fallow.toml").write_text("[simulated]\nbackfill_days = 7\n")
    command = [sys.executable, "-m", "service.cli", "serve", "--source", "simulated"]
    with running([*command, "--data", str(data), "--port", str(free_port())], {}):
        wait(lambda: _acts(data))
        yield connect_acting(data)


@contextmanager
def showing(data: Path) -> Iterator[str]:
    """The dashboard's address."""
    port = free_port()
    command = [sys.executable, "-m", "streamlit", "run", "app.py", "--server.port", str(port)]
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
        return bool(connect_acting(data).acting()["acting"])
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


def show(found: dict[str, tuple[float, float]], waiting: int, *, as_json: bool) -> None:
    if as_json:
        rows = {
            name: {"value": round(value, 3), "target": target, "ok": value <= target, "beside": {}}
            for name, (value, target) in found.items()
        }
        print(json.dumps(rows))
        return
    print(f"{waiting} waiting jobs")
    for name, (value, target) in found.items():
        print(f"{name:42} {value:7.2f}   at most {target:g}   {'ok' if value <= target else 'MISSED'}")


if __name__ == "__main__":
    main()

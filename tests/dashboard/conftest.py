"""A real service, a real Streamlit and a real browser for the dashboard's tests; each started once."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.conftest import program
from tests.shared_services import stopped_behind_its_last_user

ROOT = Path(__file__).parents[2]
START_S = 60
SETTLE_MS = 40_000
POLL_MS = 100
"""Asked at every frame, whether a page is drawn takes a part of the time to draw it."""
ALWAYS = {"from_ts": datetime(2020, 1, 1, tzinfo=UTC), "to_ts": datetime(2100, 1, 1, tzinfo=UTC)}
SIZES = "[advice]\nfit_window_s = 21600\n"
"""Sizes are advised early, so that something is at every hour: on a Monday morning nobody is idle yet."""
SCHEDULES = """
[delivery.routes]
ops = ["json://127.0.0.1:9/"]
[reports.monday]
kind = "cluster-week"
cron = "0 8 * * mon"
zone = "Europe/Berlin"
to = ["ops"]
[reports.mine]
kind = "my-week"
cron = "30 8 * * mon"
to = ["owners"]
"""
"""Reports that come by themselves, to a port where nobody listens."""
PROBES = ("/_stcore/health", "/_stcore/host-config")
QUIET = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-quic",
    "--no-first-run",
    "--disable-component-update",
    "--disable-sync",
]
SETTLED = """(wanted) => {
  const app = document.querySelector('[data-testid="stApp"]');
  if (!app || app.getAttribute('data-test-script-state') !== 'notRunning') return false;
  if (document.querySelector('[data-testid="stSkeleton"]')) return false;
  const shown = document.querySelector(
    '.figures, [data-testid="stVegaLiteChart"], [data-testid="stDataFrame"], h2, ' +
    '.st-key-notice');
  const charts = [...document.querySelectorAll('[data-testid="stVegaLiteChart"]')];
  return !!shown && charts.length >= wanted && charts.every(chart => chart.querySelector('.marks'));
}"""


class Screen:
    """A browser window on the dashboard that remembers everything that went wrong in it."""

    def __init__(self, page: Any, base: str, *, settle_ms: int = SETTLE_MS) -> None:
        self.page = page
        self.settle_ms = settle_ms
        self.base = base
        self.troubles: list[str] = []
        page.on("console", self._said)
        page.on("pageerror", lambda error: self.troubles.append(f"page error: {error}"))
        page.on("requestfailed", self._failed)
        page.on("response", self._answered)
        page.on("request", self._asked)

    def open(self, path: str = "/", *, charts: int = 0) -> "Screen":
        """Go there and wait until the page and its charts, so many at least, are drawn."""
        self.page.goto(self.base + path)
        return self.settled(charts=charts)

    def settled(self, *, charts: int = 0) -> "Screen":
        """Wait until the page and its charts, so many at least, are drawn."""
        self.page.wait_for_function(SETTLED, arg=charts, timeout=self.settle_ms, polling=POLL_MS)
        return self

    def until(self, condition: str, *, charts: int = 0) -> "Screen":
        """Wait for a JavaScript condition, then until everything is drawn."""
        self.page.wait_for_function(condition, timeout=self.settle_ms, polling=POLL_MS)
        return self.settled(charts=charts)

    def until_address(self, part: str) -> "Screen":
        """Wait until the address bar holds ``part``."""
        self.until(f"() => location.href.includes({json.dumps(part)})")
        return self

    @property
    def headline(self) -> str:
        """The sentence at the head of the page."""
        return str(self.page.locator("h2").first.inner_text())

    def text(self) -> str:
        """Everything that can be read on the page."""
        return str(self.page.locator('[data-testid="stMain"]').inner_text())

    def charts(self) -> int:
        """How many charts are drawn."""
        return int(self.page.locator('[data-testid="stVegaLiteChart"] .marks').count())

    def tables(self) -> int:
        """How many tables of numbers can be opened."""
        return int(self.page.get_by_text("The numbers", exact=True).count())

    def assert_well(self) -> None:
        """No exception on the page, no console error, no failed request, nothing asked of the outside."""
        shown = self.page.locator('[data-testid="stException"]').all_inner_texts()
        assert not shown, f"{self.page.url} shows {shown}"
        assert not self.troubles, f"{self.page.url}: {self.troubles}"

    def leave(self) -> None:
        """Check it and close it, before what it looks at is stopped."""
        self.assert_well()
        self.page.close()

    def _said(self, message: Any) -> None:
        if message.type != "error":
            return
        where = urlsplit(str((message.location or {}).get("url", ""))).path
        if not where.endswith(PROBES):
            self.troubles.append(f"console: {message.text} ({where})")

    def _failed(self, request: Any) -> None:
        if request.failure != "net::ERR_ABORTED":
            self.troubles.append(f"request failed: {request.url} {request.failure}")

    def _answered(self, response: Any) -> None:
        """Streamlit looks for its own root below a deep link, and is told 404: that alone is expected."""
        if response.status >= 400 and not urlsplit(response.url).path.endswith(PROBES):
            self.troubles.append(f"{response.status} from {response.url}")

    def _asked(self, request: Any) -> None:
        parts = urlsplit(request.url)
        if parts.scheme in ("http", "https", "ws", "wss") and parts.hostname != "127.0.0.1":
            self.troubles.append(f"asked the outside: {request.url}")


def shrink(picture: Path) -> None:
    """Fewer colours make a modest file; the charts lose nothing one could see."""
    from PIL import Image

    with Image.open(picture) as full:
        small = full.convert("RGB").quantize(colors=256, dither=Image.Dither.NONE)
    small.save(picture, optimize=True)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_for(ready: Callable[[], bool], process: subprocess.Popen[bytes], log: Path) -> None:
    """Until it is ready; fails with its log when it ends or takes too long."""
    limit = time.monotonic() + START_S
    while not ready():
        assert process.poll() is None, f"it ended by itself:\n{log.read_text()[-3000:]}"
        assert time.monotonic() < limit, f"not ready in {START_S} s:\n{log.read_text()[-3000:]}"
        time.sleep(0.05)


def well(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=2) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


@contextmanager
def running(command: list[str], log: Path, ready: Callable[[], bool], **environment: str) -> Iterator[Any]:
    """A process of ours in its own group until the block ends."""
    with log.open("wb") as out:
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            env={**os.environ, "PYTHONUNBUFFERED": "1", **environment},
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            wait_for(ready, process, log)
            yield process
        finally:
            stop(process)


def stop(process: "subprocess.Popen[bytes]") -> None:
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(timeout=10)


@contextmanager
def serving(
    data: Path,
    log: Path,
    *,
    days: int,
    judged: bool,
    more: str = "",
    words: Sequence[str] = ("--simulated",),
    environment: Mapping[str, str] | None = None,
) -> Iterator[Any]:
    """`fallow serve` on the simulated cluster, past its backfill and, if so, its first judgement.

    ``more`` is added to its configuration; other ``words`` have it measure something else.
    """
    from service.client import ClientError, connect

    data.mkdir(parents=True, exist_ok=True)
    prices = '[prices]\ncurrency = "EUR"\nper_gpu_hour = { "*" = 1.9, "NVIDIA H100 80GB HBM3" = 3.4 }\n'
    waits = '[limits]\nnever_fitting = "wait"\n'  # a job that waits on the pages asks for more than there is
    (data / "fallow.toml").write_text(f"[simulated]\nbackfill_days = {days}\n\n{prices}\n{waits}\n{more}")
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-m", "service.cli", "serve", *words]

    def ready() -> bool:
        try:
            with connect(data, url=url) as client:
                there = client.health().status == "ok" and bool(client.query("span").iloc[0]["samples"])
                return there and (not judged or bool(len(client.query("findings", **ALWAYS))))
        except ClientError:
            return False

    command += ["--data", str(data), "--port", str(port)]
    with running(command, log, ready, **(environment or {})) as process:
        yield url, process


@contextmanager
def acting_site(data: Path, log: Path, *, days: int, more: str, gpus: int = 8) -> Iterator[Any]:
    """`fallow serve` on a machine with free GPUs, where jobs may be started, beside four others that work."""
    from tests.driver.driver import CompilerMissing, Driver
    from tests.other_machines import other_machines, remember

    remember(data, days)
    try:
        made = Driver(data.parent, gpus=gpus)
    except CompilerMissing as missing:
        pytest.skip(str(missing))
    with made as driver, other_machines() as others:
        words = ("--source", "nvml", "--source", f"fallow={others}")
        environment = {
            name: value for name, value in driver.environment().items() if os.environ.get(name) != value
        }
        with serving(
            data, log, days=0, judged=True, more=more, words=words, environment=environment
        ) as started:
            yield started


@contextmanager
def showing(log: Path, **environment: str) -> Iterator[str]:
    """The dashboard as ``fallow up`` starts it; yields its address."""
    port = free_port()
    base = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-m", "service.pages", "app.py", f"--server.port={port}"]
    with running(command, log, lambda: well(f"{base}/_stcore/health"), **environment):
        yield base


@pytest.fixture(scope="session")
def simulated(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The DATA directory of a running service with eight days of history, and reports on a schedule."""
    folder = tmp_path_factory.mktemp("simulated")
    with ExitStack() as site, stopped_behind_its_last_user(request, site.close):
        made = serving(folder / "data", folder / "serve.log", days=8, judged=True, more=SIZES + SCHEDULES)
        site.enter_context(made)
        yield folder / "data"


@pytest.fixture(scope="session")
def dashboard(
    request: pytest.FixtureRequest, simulated: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """The dashboard of that service."""
    folder = tmp_path_factory.mktemp("dashboard")
    with ExitStack() as site, stopped_behind_its_last_user(request, site.close):
        yield site.enter_context(showing(folder / "streamlit.log", FALLOW_DATA=str(simulated)))


class Browser:
    """A headless browser for each time zone: a window is a page of it.

    Each has a profile in ``folder``, for only with one are compiled scripts kept: pages need a quarter less.
    """

    def __init__(self, start: Callable[..., Any], folder: Path) -> None:
        self._start, self._folder = start, folder
        self._kept: dict[str, Any] = {}

    def window(self, *, width: int, height: int, dark: bool, zone: str) -> Any:
        """A new page of that size and look."""
        if zone not in self._kept:
            profile = self._folder / zone.replace("/", "-")
            self._kept[zone] = self._start(profile, args=QUIET, timezone_id=zone, reduced_motion="reduce")
        page = self._kept[zone].new_page()
        page.set_viewport_size({"width": width, "height": height})
        page.emulate_media(color_scheme="dark" if dark else "light")
        return page

    def close(self) -> None:
        """End them all."""
        for each in self._kept.values():
            each.close()


@pytest.fixture(scope="session")
def profiles(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where browsers keep what they compiled."""
    return tmp_path_factory.mktemp("browser")


@pytest.fixture(scope="module")
def chromium(profiles: Path) -> Iterator[Browser]:
    """Headless browsers of one module: their event loop must not stay behind for tests of other folders."""
    path = program("chromium", "chromium")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        start = partial(playwright.chromium.launch_persistent_context, executable_path=path)
        browser = Browser(start, profiles)
        yield browser
        browser.close()


@pytest.fixture
def look(chromium: Browser) -> Iterator[Callable[..., Screen]]:
    """Opens windows: ``look(base, width=..., dark=...)``; each is checked for trouble at the end."""
    screens: list[Screen] = []

    def window(
        base: str, *, width: int = 1440, height: int = 900, dark: bool = False, zone: str = "Europe/Berlin"
    ) -> Screen:
        screens.append(Screen(chromium.window(width=width, height=height, dark=dark, zone=zone), base))
        return screens[-1]

    yield window
    try:
        for screen in screens:
            if not screen.page.is_closed():
                screen.assert_well()
    finally:
        for screen in screens:
            screen.page.close()

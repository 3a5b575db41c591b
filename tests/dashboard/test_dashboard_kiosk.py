"""The wall in a real browser: big, alone on the screen, turning by itself, and back after a restart."""

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.dashboard.conftest import Screen, running, serving, showing, stop, well
from tests.dashboard.test_dashboard_axe import broken

pytestmark = pytest.mark.browser
PANELS = {
    "overview": "were handed out",
    "cluster": "GPUs are held now",
    "findings": "finding",
    "projects": "projects held",
    "queue": "queue",
}
LEAST_PX = 24
TITLE = "document.querySelector('.wall-title')?.innerText.trim()"
SMALL = """() => [...document.querySelectorAll('.st-key-wall *')].filter(each => {
    if (each.closest('.st-key-wall-foot') || each.closest('[aria-hidden=true]')) return false;
    const own = [...each.childNodes].some(node => node.nodeType === 3 && node.textContent.trim());
    const box = each.getBoundingClientRect();
    return own && box.width > 1 && box.height > 1 && parseFloat(getComputedStyle(each).fontSize) < LEAST;
  }).map(each => each.tagName + ': ' + each.textContent.slice(0, 60))""".replace("LEAST", str(LEAST_PX))
OVERFLOWS = """() => {
  const main = document.querySelector('[data-testid=stMain]');
  return [main.scrollHeight - main.clientHeight, main.scrollWidth - main.clientWidth];
}"""


def titled(name: str) -> str:
    return f"() => {TITLE} === {json.dumps(name.capitalize())}"


@pytest.mark.parametrize("dark", [False, pytest.param(True, marks=pytest.mark.long)], ids=["light", "dark"])
def test_each_panel_fills_a_screen_in_large_letters(
    dashboard: str, look: Callable[..., Screen], dark: bool
) -> None:
    screen = look(dashboard, width=1920, height=1080, dark=dark)
    for name, said in PANELS.items():
        screen.open(f"/?kiosk={name}").until(titled(name))
        assert said in screen.headline, name
        assert screen.page.evaluate(SMALL) == [], name
        down, across = screen.page.evaluate(OVERFLOWS)
        assert down <= 0 and across <= 0, f"{name} is {down} px too high and {across} px too wide"
        assert re.fullmatch(r"\d\d:\d\d", screen.page.locator(".wall-clock time").inner_text())
        assert "data as of" in screen.page.locator(".wall-clock").inner_text()
        assert screen.page.locator(".st-key-masthead, .st-key-filters").count() == 0
        assert broken(screen) == [], name


def test_it_turns_and_refreshes_by_itself_and_holds_what_is_chosen(
    dashboard: str, look: Callable[..., Screen]
) -> None:
    screen = look(dashboard, width=1920, height=1080).open("/?kiosk=1&every=5&project=vision")
    screen.until(titled("overview"))
    as_of = screen.page.locator(".wall-clock span").inner_text()
    screen.until(titled("cluster")).until(titled("findings"))
    screen.until(f"() => document.querySelector('.wall-clock span').innerText !== {as_of!r}")
    screen.page.get_by_role("button", name="Projects", exact=True).click()
    screen.until_address("kiosk=projects").until(titled("projects"))
    assert "project=vision" in screen.page.url and "every=5" in screen.page.url
    screen.page.wait_for_timeout(6_000)
    assert screen.page.evaluate(TITLE) == "Projects"
    screen.page.get_by_role("button", name="Turn every 5 s").click()
    screen.until(titled("queue"))
    screen.page.get_by_role("button", name="Leave the wall").click()
    screen.until("() => document.querySelector('.st-key-masthead')")
    assert "kiosk" not in screen.page.url and "project=vision" in screen.page.url


def test_the_settings_lead_to_the_wall_by_the_keyboard(dashboard: str, look: Callable[..., Screen]) -> None:
    screen = look(dashboard).open("/settings")
    link = screen.page.get_by_role("link", name="Show it on a wall")
    link.focus()
    link.press("Enter")
    screen.until_address("kiosk=1").until(titled("overview"))


def test_smaller_and_larger_screens_show_the_same(dashboard: str, look: Callable[..., Screen]) -> None:
    screen = look(dashboard, width=1280, height=720)
    for name in PANELS:
        screen.open(f"/?kiosk={name}").until(titled(name))
        for width, height in ((2560, 1440), (1440, 900), (1280, 720)):
            screen.page.set_viewport_size({"width": width, "height": height})
            screen.settled()
            screen.page.wait_for_timeout(300)
            down, across = screen.page.evaluate(OVERFLOWS)
            assert down <= 0 and across <= 0, f"{name} is {down} px too high and {across} px too wide"
        if name == "overview":
            drawn = screen.page.locator(".st-key-wall-chart svg.marks").bounding_box()
            assert 0.85 * width < drawn["width"] < width, "the chart takes the screen's width"


@pytest.mark.long
def test_it_outlives_the_service_and_the_dashboard(tmp_path: Path, look: Callable[..., Screen]) -> None:
    """Nobody is there to press anything: what stops is said, and what comes back is shown."""
    data = tmp_path / "data"
    with serving(data, tmp_path / "serve.log", days=1, judged=False) as (url, process):
        again = [sys.executable, "-m", "service.cli", "serve", "--source", "simulated", "--data", str(data)]
        again += ["--port", url.rpartition(":")[2]]
        with showing(tmp_path / "log", FALLOW_DATA=str(data)) as base:
            screen = look(base, width=1920, height=1080).open("/?kiosk=1&every=5")
            screen.until(titled("cluster"))
            stop(process)
            clock = "document.querySelector('.wall-clock').innerText"
            screen.until(f"() => {clock}.includes('not running')")
            screen.until(titled("projects"))
            assert "data as of" in screen.page.evaluate(clock)
            with running(again, tmp_path / "again.log", lambda: well(f"{url}/healthz")):
                screen.until(f"() => !{clock}.includes('not running')")
                screen.until(titled("overview"))
            screen.leave()

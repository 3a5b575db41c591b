"""WCAG 2.1 AA on every page, in light and dark, by axe in the browser, and by the keyboard alone."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.dashboard.conftest import Screen

pytestmark = pytest.mark.browser

PATHS = (
    "/?range=7d",
    "/cluster?range=7d",
    "/people?range=7d",
    "/jobs?range=7d",
    "/jobs?by=submitted",
    "/queue",
    "/todo?range=7d",
    "/todo?range=7d&closed=yes",
    "/actions",
    "/whatif?range=7d",
    "/reports?range=7d",
    "/reports?by=scheduled",
    "/settings",
)
TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"]


def broken(screen: Screen) -> list[str]:
    """What axe finds, a line each: rule, what it says, and the elements."""
    axe = pytest.importorskip(
        "axe_playwright_python.sync_playwright", reason="pip install axe-playwright-python"
    )
    found: dict[str, Any] = (
        axe.Axe().run(screen.page, options={"runOnly": {"type": "tag", "values": TAGS}}).response
    )
    return [f"{each['id']}: {each['help']}: {_where(each)}" for each in found["violations"]]


def _where(violation: dict[str, Any]) -> list[str]:
    return [f"{node['html'][:160]} {node['failureSummary']}" for node in violation["nodes"]][:4]


@pytest.mark.parametrize("dark", [False, pytest.param(True, marks=pytest.mark.long)], ids=["light", "dark"])
@pytest.mark.parametrize("path", PATHS)
def test_axe_finds_nothing(dashboard: str, look: Callable[..., Screen], path: str, dark: bool) -> None:
    screen = look(dashboard, dark=dark).open(path)
    found = broken(screen)
    assert not found, "\n".join(found)

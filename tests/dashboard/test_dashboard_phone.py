"""Every page on a phone: nothing is wider than it but what scrolls in itself, and the menu leads on."""

from collections.abc import Callable

import pytest

from tests.dashboard.conftest import Screen
from tests.dashboard.test_dashboard_axe import PATHS, broken

pytestmark = pytest.mark.browser
WIDTH, HEIGHT = 390, 844
WIDE = """() => {
  const main = document.querySelector('[data-testid=stMain]'), wide = innerWidth + 1;
  const scrolls = each => {
    for (let up = each.parentElement; up && up !== main; up = up.parentElement)
      if (getComputedStyle(up).overflowX !== 'visible' && up.getBoundingClientRect().right <= wide)
        return true;
    return false;
  };
  const out = [...main.querySelectorAll('*')].filter(each => {
    const box = each.getBoundingClientRect();
    return box.width > 1 && box.height > 1 && (box.right > wide || box.left < -1) && !scrolls(each);
  });
  return out.slice(0, 5).map(each => {
    const key = each.closest('[class*=st-key-]');
    return `${each.tagName}.${each.className} in ${key ? key.className.match(/st-key-[^ ]+/)[0] : 'no key'}`;
  });
}"""
SCROLLED = """() => [document.documentElement, document.querySelector('[data-testid=stMain]')]
  .map(each => each.scrollWidth - each.clientWidth)"""


WALLS = ("/?kiosk=overview", "/?kiosk=cluster", "/?kiosk=findings", "/?kiosk=queue")


def test_no_page_is_wider_than_a_phone(dashboard: str, look: Callable[..., Screen]) -> None:
    screen = look(dashboard, width=WIDTH, height=HEIGHT)
    wrong = {}
    for path in (*PATHS, "/gpu", *WALLS):
        screen.open(path)
        fits = screen.page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")
        scrolled, wide = screen.page.evaluate(SCROLLED), screen.page.evaluate(WIDE)
        if not fits or scrolled != [0, 0] or wide:
            wrong[path] = (scrolled, wide)
    assert wrong == {}


def test_the_menu_of_a_phone_leads_to_every_page_and_keeps_the_filters(
    dashboard: str, look: Callable[..., Screen]
) -> None:
    screen = look(dashboard, width=WIDTH, height=HEIGHT).open("/?range=7d&project=vision")
    assert not screen.page.locator(".st-key-masthead").get_by_role("link", name="To do").is_visible()
    menu = screen.page.locator(".st-key-menu").get_by_role("button")
    menu.focus()
    menu.press("Enter")
    body = screen.page.get_by_test_id("stPopoverBody")
    body.wait_for()
    body.get_by_role("link", name="Settings").wait_for()
    assert body.get_by_role("link").count() == 10
    assert broken(screen) == []
    body.get_by_role("link", name="To do").click()
    screen.until_address("/todo").page.get_by_role("radiogroup", name="Which jobs").wait_for()
    assert "range=7d" in screen.page.url and "project=vision" in screen.page.url


@pytest.mark.long
def test_a_phone_is_accessible_too(dashboard: str, look: Callable[..., Screen]) -> None:
    screen = look(dashboard, width=WIDTH, height=HEIGHT)
    for path in ("/?range=7d", "/reports?range=7d", "/?kiosk=overview"):
        assert broken(screen.open(path)) == [], path

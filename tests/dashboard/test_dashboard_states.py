"""When there is nothing to show, the page says what happened and what to do, and nothing breaks."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from collector.store.judgements import Judgement
from tests.analytics.world import END_MS, fill
from tests.dashboard.conftest import serving, showing, stop
from tests.stores import open_store

pytestmark = pytest.mark.browser
VIEW = "from=2026-11-01T12:00Z&to=2026-11-01T14:00Z"
NOTICED = "() => document.querySelector('.st-key-notice h3')"


def notice(screen) -> str:
    return screen.page.locator(".st-key-notice").inner_text()


def test_no_store_yet_says_how_to_start(tmp_path: Path, look: Callable) -> None:
    with showing(tmp_path / "log", FALLOW_DATA=str(tmp_path / "data")) as base:
        screen = look(base).open("/")
        assert "There is no store yet" in notice(screen)
        assert "fallow up" in notice(screen)
        (tmp_path / "data").mkdir()
        open_store(tmp_path / "data" / "fallow.duckdb").close()
        screen.page.get_by_role("button", name="Try again").click()
        screen.until("() => document.body.innerText.includes('Nothing measured yet')")
        assert "fallow doctor" in notice(screen)
        for path in ("/cluster", "/people", "/jobs", "/todo", "/gpu?gpu=GPU-0"):
            assert "Nothing measured yet" in notice(screen.open(path))
        screen.leave()


def test_findings_that_nobody_has_looked_for_are_not_called_none(tmp_path: Path, look: Callable) -> None:
    with fill(tmp_path):
        pass
    with showing(tmp_path / "log", FALLOW_DATA=str(tmp_path)) as base:
        screen = look(base).open(f"/todo?{VIEW}")
        assert re.fullmatch(
            r"Nothing was judged yet; \S+\sGPU-hours were wasted in this time", screen.headline
        )
        assert "Every GPU could be judged" not in screen.text()
        assert "Nothing was judged yet." in screen.open(f"/?{VIEW}").text()
        screen.leave()
    with open_store(tmp_path / "fallow.duckdb") as store:
        store.write_judgement(Judgement(), END_MS)
    with showing(tmp_path / "log", FALLOW_DATA=str(tmp_path)) as base:
        screen = look(base).open(f"/todo?{VIEW}")
        calm = r"Nothing was found to complain about; \S+\sGPU-hours were wasted in this time"
        assert re.fullmatch(calm, screen.headline)
        assert "Judged last" in screen.text()
        screen.leave()


def test_a_wrong_token_is_told_apart(tmp_path: Path, simulated: Path, look: Callable) -> None:
    url = json.loads((simulated / "service.json").read_text())["url"]
    with showing(tmp_path / "log", FALLOW_URL=url, FALLOW_TOKEN="wrong") as base:
        screen = look(base).open("/cluster")
        assert "does not let this dashboard in" in notice(screen)
        screen.leave()


def test_a_service_that_dies_is_announced_while_one_looks(tmp_path: Path, look: Callable) -> None:
    data = tmp_path / "data"
    with serving(data, tmp_path / "serve.log", days=1, judged=False) as (url, process):
        token = (data / "token").read_text().strip()
        with showing(tmp_path / "log", FALLOW_URL=url, FALLOW_TOKEN=token) as base:
            screen = look(base).open("/?range=1h")
            assert "worked" in screen.headline
            stop(process)
            screen.until(NOTICED)
            assert "The service does not answer" in notice(screen)
            assert "fallow serve" in notice(screen)
            screen.leave()
        with showing(tmp_path / "log", FALLOW_DATA=str(data)) as base:
            screen = look(base).open("/?range=6h")
            assert "worked" in screen.headline
            assert "not running" in screen.page.locator(".pulse").inner_text()
            screen.leave()


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("/?from=2020-01-01T00:00Z&to=2020-01-02T00:00Z", "Nothing in this time range"),
        ("/?user=nobody-of-that-name", "No GPU matches these filters"),
        ("/cluster?node=no-such-node", "No GPU matches these filters"),
        ("/people?project=none", "No GPU matches these filters"),
        ("/jobs?user=none", "No GPU matches these filters"),
        ("/jobs?job=slurm:0", "This job held nothing here"),
        ("/gpu?gpu=GPU-none", "No such GPU"),
        ("/gpu", "No such GPU"),
    ],
)
def test_an_address_without_an_answer_says_so(dashboard: str, look: Callable, path: str, said: str) -> None:
    assert said in notice(look(dashboard).open(path))


def test_filters_that_match_nothing_are_cleared_by_a_button(dashboard: str, look: Callable) -> None:
    screen = look(dashboard).open("/?range=6h&user=nobody-of-that-name")
    screen.page.get_by_role("button", name="Clear the filters").click()
    screen.until("() => document.querySelector('.figures')")
    assert screen.page.url.endswith("range=6h")


def test_a_time_without_samples_offers_the_newest(dashboard: str, look: Callable) -> None:
    screen = look(dashboard).open("/?from=2020-01-01T00:00Z&to=2020-01-02T00:00Z")
    screen.page.get_by_role("button", name="Show the newest 24 hours").click()
    screen.until("() => document.querySelector('.figures')")


def test_markup_in_a_name_is_shown_as_it_stands(dashboard: str, look: Callable) -> None:
    screen = look(dashboard).open("/?user=%3Cimg%20src%3Dx%20onerror%3Dalert(1)%3E%20**bold**")
    assert screen.page.locator("img[src='x']").count() == 0

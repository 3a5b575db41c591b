"""The whole OpenAPI document, tried by schemathesis against a real service; and the page that shows it."""

import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

from service.client.transport import UnixConnection
from tests.service.api.conftest import Door

pytestmark = pytest.mark.long

BUDGET_S = 25
WELL_WRITTEN_AND_STILL_REFUSED = "positive_data_acceptance"


def test_no_request_that_a_program_can_think_of_breaks_the_api(door: Door, tmp_path: Path) -> None:
    pytest.importorskip("schemathesis", reason="schemathesis is missing; pip install -e '.[test]'")
    command = [
        Path(sys.executable).with_name("schemathesis"),
        "run",
        f"{door.running.url}/openapi.json",
        *("-H", f"Authorization: Bearer {door.running.token}"),
        *("--phases", "coverage,fuzzing", "--max-examples", "4"),
        *("--max-time", str(BUDGET_S), "--request-timeout", "20"),
        *("--exclude-checks", WELL_WRITTEN_AND_STILL_REFUSED),
        *("--generation-deterministic", "--continue-on-failure", "--no-color"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, cwd=tmp_path, check=False)
    found = re.search(r"(\d+) generated", done.stdout)
    assert found is not None, done.stdout[-4000:]
    assert int(found[1]) > 100, "it tried the API"
    assert "Tested: 0" not in done.stdout
    assert done.returncode == 0, done.stdout[-8000:]
    assert door.running.client().health().status == "ok"


class _Outside(HTMLParser):
    """Notes whatever a page would fetch or run."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in ("script", "link", "img", "iframe"):
            self.found.append(tag)
        self.found += [value for name, value in attrs if name in ("src", "href") and value and "//" in value]


def test_page_of_the_api_needs_nothing_from_elsewhere(door: Door) -> None:
    status, page = door.ask("GET", "/docs", who="")
    outside = _Outside()
    outside.feed(page.decode())
    assert (status, outside.found) == (200, [])
    assert b"http://" not in page.replace(b"http://www.w3.org", b"")


def test_page_shows_every_route_with_its_role(door: Door) -> None:
    _, document = door.ask("GET", "/openapi.json", who="")
    page = door.ask("GET", "/docs", who="")[1].decode()
    for path in document["paths"]:
        assert f" {path}</code>" in page
    assert page.count("<span class=role>operator</span>") == 3


def test_method_that_a_path_has_not_is_told_those_that_it_has(door: Door) -> None:
    connection = UnixConnection(door.socket, 20)
    connection.request("PUT", "/v1/jobs")
    answer = connection.getresponse()
    assert (answer.status, answer.getheader("allow")) == (405, "GET, POST")
    connection.close()

"""The acting pages in a real browser, on a real service with jobs that were really submitted."""

import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from service.client import ClientError
from service.client.jobs import ActingClient, connect_acting
from service.schemas.control import Plan
from tests.dashboard.conftest import ROOT, Screen, acting_site, showing
from tests.dashboard.submitting import ASKED, ASKS, listens, submit
from tests.service.conftest import until

pytestmark = pytest.mark.browser

CODE = "a-code-that-nobody-guesses-0123456789"
STRANGE = "big #1 (=sweep): a+b@c"


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """A service that acts, its dashboard, and a line of our own to the service."""

    data: Path
    base: str
    line: ActingClient


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("acting")
    data = folder / "data"
    with acting_site(data, folder / "serve.log", days=2, more=ASKS):
        line = connect_acting(data)
        with showing(folder / "log", FALLOW_DATA=str(data), FALLOW_DASHBOARD_CODE=CODE) as base:
            try:
                yield Site(data=data, base=base, line=line)
            finally:
                for row in line.jobs():
                    if row.state != "ended":
                        line.cancel(row.job)


@pytest.fixture(scope="module")
def job(site: Site, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A job that runs."""
    home = tmp_path_factory.mktemp("home")
    made = submit(site.data, home, "--project", "vision", "--name", "saver", "--checkpoint-signal", "USR1")
    until("it runs", lambda: stand(site, made) == "running", limit_s=60)
    return made


def stand(site: Site, job: str) -> str:
    return str(site.line.job(job).state)


def signed(site: Site, look: Callable[..., Screen], path: str, **window: Any) -> Screen:
    """A window of whoever started the dashboard."""
    mark = "&" if "?" in path else "?"
    return look(site.base, **window).open(f"{path}{mark}code={CODE}")


def shows(text: str) -> str:
    return f"() => document.body.innerText.includes({text!r})"


def popped(screen: Screen, name: str) -> Any:
    """Open the popover of a button and return its body."""
    screen.page.get_by_role("button", name=re.compile(name)).first.click()
    body = screen.page.get_by_test_id("stPopoverBody")
    body.wait_for()
    return body


def typed(body: Any, label: str, text: str) -> None:
    field = body.get_by_label(label).first
    field.fill(text)
    field.press("Enter")


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_a_waiting_job_is_in_the_queue_with_what_it_waits_for(
    site: Site, job: str, look: Callable, tmp_path: Path, dark: bool
) -> None:
    waits = submit(site.data, tmp_path, "--project", "bio", "--gpus", "500", "--name", STRANGE)
    screen = look(site.base, dark=dark).open("/queue")
    screen.until(shows("wait"))
    shown = screen.text()
    assert "500 GPUs" in screen.headline
    assert STRANGE in screen.headline
    assert "Held and wanted, by project" in shown
    site.line.cancel(waits)


def test_the_form_ends_in_the_command_and_submits_nothing(site: Site, look: Callable) -> None:
    screen = look(site.base).open("/queue")
    before = len(site.line.jobs())
    screen.page.get_by_text("Submit a job").click()
    field = screen.page.get_by_label("Command")
    field.fill("python train.py")
    field.press("Enter")
    screen.until(shows("fallow run --gpus 1 -- python train.py"))
    assert len(site.line.jobs()) == before


def test_who_did_not_sign_in_sees_every_button_and_can_press_none(
    site: Site, job: str, look: Callable
) -> None:
    screen = look(site.base).open(f"/jobs?job={job}")
    screen.until(shows("runs on 1 GPU"))
    body = popped(screen, "Cancel")
    assert body.get_by_role("button", name="Cancel it").is_disabled()
    assert f"fallow cancel {job}" in body.inner_text()
    assert "Sign in" in screen.text()


def test_a_dashboard_that_was_not_started_to_act_lets_nobody_sign_in(
    site: Site, job: str, look: Callable, tmp_path: Path
) -> None:
    with showing(tmp_path / "log", FALLOW_DATA=str(site.data)) as base:
        screen = look(base).open(f"/jobs?job={job}&code=")
        screen.until(shows("--allow-acting"))
        assert screen.page.get_by_role("button", name="Sign in").count() == 0
        assert popped(screen, "Cancel").get_by_role("button", name="Cancel it").is_disabled()
        screen.leave()


@pytest.mark.parametrize("wrong", ["", "guess", CODE[:-1], "a%0Ab"])
def test_a_wrong_code_signs_nobody_in(site: Site, look: Callable, wrong: str) -> None:
    screen = look(site.base).open(f"/actions?code={wrong}")
    screen.page.get_by_role("button", name="Sign in").wait_for()
    screen.until("() => !location.href.includes('code=')")
    assert screen.page.get_by_role("button", name=str(site.line.whoami().name)).count() == 0


def test_a_job_is_paused_and_resumed_from_its_page_and_the_journal_says_by_whom(
    site: Site, job: str, look: Callable
) -> None:
    me = site.line.whoami().name
    screen = signed(site, look, f"/jobs?job={job}")
    screen.until(shows("runs on 1 GPU"))
    screen.until(shows("What may be done with it"))
    screen.until(shows(f"fallow consent --job {job}"))
    assert "code=" not in screen.page.url
    body = popped(screen, "Pause")
    typed(body, "Because", "lunch <b>")
    body.get_by_role("button", name="Pause it").click()
    screen.until(shows("is paused"))
    until("the service says so", lambda: stand(site, job) == "paused")
    newest = site.line.actions(job=job)[0]
    assert (newest.verb, newest.actor, newest.reason) == ("pause", f"user {me}", "lunch <b>")
    screen.page.keyboard.press("Escape")
    popped(screen, "Resume").get_by_role("button", name="Resume it").click()
    until("it runs again", lambda: stand(site, job) == "running", limit_s=60)


def test_an_action_is_undone_from_the_journal(site: Site, job: str, look: Callable) -> None:
    until("it runs and listens for its signal", lambda: stand(site, job) == "running" and listens())
    site.line.pause(job, because="to be undone")
    until("it is paused", lambda: stand(site, job) == "paused", limit_s=60)
    number = next(row.action for row in site.line.actions(job=job) if row.reason == "to be undone")
    screen = signed(site, look, "/actions?find=to be undone")
    screen.until(shows("to be undone"))
    popped(screen, "Undo").get_by_role("button", name="Undo it").click()
    until("it is undone", lambda: undone(site, number))
    until("it runs again", lambda: stand(site, job) == "running", limit_s=60)
    screen.until(shows("undone by action"))


def undone(site: Site, number: int) -> bool:
    return any(row.action == number and row.undone_by for row in site.line.actions())


def test_the_switch_stops_all_acting_with_a_reason_and_lets_it_go_on(
    site: Site, job: str, look: Callable
) -> None:
    screen = signed(site, look, "/actions")
    screen.until(shows("Stop acting"))
    body = popped(screen, "Stop acting")
    assert body.get_by_role("button", name="Stop acting now").is_disabled()
    typed(body, "Because", "the driver is upgraded")
    body.get_by_role("button", name="Stop acting now").click()
    until("it is stopped", lambda: not site.line.acting().acting)
    try:
        queue = look(site.base).open("/queue")
        queue.until(shows("the driver is upgraded"))
        screen.until(shows("Start acting again"))
        screen.page.keyboard.press("Escape")
        popped(screen, "Start acting again").get_by_role("button", name="Start acting now").click()
        until("it acts again", lambda: bool(site.line.acting().acting))
    finally:
        site.line.start_acting()


def test_who_signs_in_with_a_token_of_their_own_is_themselves(site: Site, job: str, look: Callable) -> None:
    asked = ("--user", "nobody", "--role", "user", "--expires", "1d")
    made = subprocess.run(
        [sys.executable, "-m", "service.cli", "token", "add", "--data", str(site.data), *asked],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    token = max(re.findall(r"\S{20,}", made.stdout), key=len)
    screen = look(site.base).open(f"/jobs?job={job}")
    screen.until(shows("Sign in"))
    body = popped(screen, "Sign in")
    body.get_by_label("Code or token").fill(token)
    body.get_by_role("button", name="Sign in").click()
    screen.until(
        "() => [...document.querySelectorAll('button')].some(each => each.innerText.includes('nobody'))"
    )
    screen.until(shows("You are nobody"))
    assert popped(screen, "Cancel").get_by_role("button", name="Cancel it").is_disabled()
    assert token not in screen.page.url


def waiting_plans(site: Site) -> list[dict[str, Any]]:
    try:
        return [row for row in site.line.plans() if row.state == "waiting"]
    except ClientError:
        return []


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_advice_shows_its_evidence_plotted_and_its_gain_with_an_error(
    site: Site, look: Callable, dark: bool
) -> None:
    screen = look(site.base, dark=dark, height=1300).open("/todo")
    kinds = screen.page.get_by_role("radiogroup", name="Kind of finding or advice").get_by_role("radio")
    kinds.last.click()  # classes of advice stand behind the kinds of finding
    screen.until_address("kind=").settled()
    assert "expected gain" in screen.text()
    assert "Left alone, and why" in screen.text()
    screen.page.get_by_text("Evidence", exact=True).first.click()
    screen.settled(charts=2)


def test_a_plan_that_waits_is_rejected_with_a_reason_and_approved_without(
    site: Site, look: Callable, tmp_path: Path
) -> None:
    for name in ("one", "another"):
        submit(site.data, tmp_path, "--project", ASKED, "--name", name)
    until("two plans wait", lambda: len(waiting_plans(site)) >= 2, limit_s=60)
    screen = signed(site, look, "/todo", height=1300)
    screen.until(shows("for a yes"))
    body = popped(screen, "^.*Reject")
    assert body.get_by_role("button", name="Reject it").is_disabled()
    typed(body, "Because", "it is being debugged")
    first = int(re.search(r"fallow reject (\d+)", body.inner_text())[1])  # type: ignore[index]
    body.get_by_role("button", name="Reject it").click()
    until("it is rejected", lambda: plan(site, first).state == "rejected")
    assert plan(site, first).because == "it is being debugged"
    screen.page.keyboard.press("Escape")
    screen.until(f"() => !document.body.innerText.includes('Plan {first} waits')")
    body = popped(screen, "^.*Approve")
    second = int(re.search(r"fallow apply (\d+)", body.inner_text())[1])  # type: ignore[index]
    body.get_by_role("button", name="Do it").click()
    until("it is settled", lambda: plan(site, second).state != "waiting")
    until("the journal says by whom", lambda: settled_by_somebody(site, second))


def settled_by_somebody(site: Site, number: int) -> bool:
    return any(row.plan == number and row.actor.startswith("user ") for row in site.line.actions())


def plan(site: Site, number: int) -> Plan:
    return next(row for row in site.line.plans() if row.plan == number)


def test_a_threshold_is_moved_and_the_page_says_what_that_changes(site: Site, look: Callable) -> None:
    screen = look(site.base, height=1100).open("/whatif?range=7d", charts=1)
    assert "by the rules in force" in screen.headline
    slider = screen.page.get_by_role("slider", name=re.compile("Pause an idle batch job"))
    slider.focus()
    for _ in range(6):
        slider.press("ArrowLeft")
    screen.until(shows("With these rules"))
    screen.page.get_by_text("The numbers").first.click()
    screen.page.get_by_test_id("stDataFrame").first.wait_for()
    with screen.page.expect_download() as got:
        screen.page.get_by_test_id("stDownloadButton").get_by_role("button").click()
    assert Path(got.value.path()).read_text().startswith("What,")
    screen.page.get_by_role("button", name="As in force").click()
    screen.until(shows("by the rules in force would have"))


def test_settings_say_where_each_value_came_from(site: Site, look: Callable) -> None:
    screen = look(site.base).open("/settings")
    screen.until(shows("settings were chosen here"))
    screen.page.get_by_text("The numbers").click()
    screen.settled()


@pytest.mark.parametrize(
    "path", ["/queue", "/jobs?by=submitted", "/todo", "/actions", "/whatif", "/settings"]
)
def test_acting_pages_fit_a_narrow_window(site: Site, job: str, look: Callable, path: str) -> None:
    screen = look(site.base, width=900).open(path)
    screen.until("() => document.querySelector('h2')")
    assert screen.page.evaluate("() => document.documentElement.scrollWidth") <= 900

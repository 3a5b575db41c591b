"""One browser on a past with actions in it: what they gave back, run ids, and what one could change.

The past was made by hand and can be counted on paper; the service that answers is a real one.
"""

import os
import pwd
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from advisor.actions import Pause
from advisor.state.model import ActionClass
from collector.model import (
    Allocation,
    Basis,
    Gpu,
    GpuSample,
    Holder,
    JobId,
    Process,
    ProcessKey,
    ProcessSample,
)
from collector.reading import Reading, Tick
from collector.store.database import Store
from service.client import connect
from service.reports.build import Wanted, make
from service.reports.model import ReportKind, Span
from service.reports.values import written
from tests.analytics.given_world import NODE, A, B, C, deed, past
from tests.dashboard.conftest import serving, showing
from tests.other_machines import other_machines

pytestmark = pytest.mark.browser

PAUSED, NEXT, RUNS = JobId("fallow:1"), JobId("slurm:2"), JobId("slurm:812")
HOSTILE = '<img src=x onerror="document.title=1">[x](javascript:alert(1))'
LINKED = {
    "WANDB_RUN_ID": "3k2",
    "WANDB_PROJECT": "sweep #1",
    "WANDB_ENTITY": "vision",
    "WANDB_BASE_URL": "https://wandb.example.org",
    "WANDB_API_KEY": "never-in-here",
}
EVIL = {
    "WANDB_RUN_ID": HOSTILE,
    "WANDB_PROJECT": "p",
    "WANDB_ENTITY": "e",
    "WANDB_BASE_URL": "javascript:alert(document.domain)//",
    "MLFLOW_RUN_ID": "../../evil",
    "MLFLOW_EXPERIMENT_ID": "5",
    "MLFLOW_TRACKING_URI": "data:text/html,<script>alert(1)</script>",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """A service on that past, its dashboard, and the time that it speaks of."""

    data: Path
    base: str
    span: Span

    @property
    def window(self) -> str:
        return f"from={self.span.start:%Y-%m-%dT%H:%MZ}&to={self.span.end:%Y-%m-%dT%H:%MZ}&tz=utc"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("given")
    data = folder / "data"
    data.mkdir()
    start = datetime.now(UTC).replace(second=0, microsecond=0) - timedelta(minutes=190)
    start_ms = round(start.timestamp() * 1000)
    held = [(A, PAUSED, 0, 10), (A, NEXT, 15, 45), (B, PAUSED, 50, 100), (C, RUNS, 0, None)]
    busy = [(A, 15, 35), (C, 0, 180)]
    with past(data, held, busy=busy, start_ms=start_ms, users={RUNS: ME}) as store:
        deed(store, 10, Pause(job=PAUSED, action=ActionClass.RECLAIM), [A], start_ms=start_ms)
        says(store, start_ms + 184 * 60_000)
    with (
        other_machines(nodes=1, gpus_per_node=1) as others,
        serving(
            data,
            folder / "serve.log",
            days=0,
            judged=False,
            more=PAGES,
            words=("--source", f"fallow={others}"),
        ),
        showing(folder / "log", FALLOW_DATA=str(data), FALLOW_DASHBOARD_CODE=CODE) as base,
    ):
        yield Site(data=data, base=base, span=Span(start=start, end=start + timedelta(minutes=180)))


ME = pwd.getpwuid(os.getuid()).pw_name
"""Whom the service takes for who started the dashboard: an operator of it."""
CODE = "a-code-that-nobody-guesses-9876543210"
PAGES = '[dashboard.run_pages]\nslurm = "https://portal.example.org/jobs/{id}"\n'


def says(store: Store, at_ms: int) -> None:
    """Two processes of a job: one that says well which run it is, and one that says what it likes."""
    kept = [
        Process(
            key=ProcessKey(node=NODE, pid=pid, started_ms=at_ms - 60_000),
            user=ME,
            environment=tuple(sorted(said.items())),
        )
        for pid, said in ((71, allowed(LINKED | {"SLURM_JOB_ID": "812"})), (72, allowed(EVIL)))
    ]
    holder = Holder(job=RUNS, user=ME, project="vision")
    reading = Reading(
        source="hand",
        at_ms=at_ms,
        gpus=(Gpu(uuid=C, node=NODE, index=2, model="H100"),),
        samples=(
            GpuSample(uuid=C, at_ms=at_ms, width_ms=10_000, rung=Basis.SM_ACTIVE, utilization_ratio=0.8),
        ),
        processes=tuple(kept),
        process_samples=tuple(
            ProcessSample(uuid=C, key=each.key, at_ms=at_ms, width_ms=10_000) for each in kept
        ),
    )
    store.write_tick(
        Tick(
            at_ms=at_ms,
            width_ms=10_000,
            outcomes=(reading,),
            allocations=(Allocation(uuid=C, holder=holder),),
            owners=tuple((each.key, RUNS) for each in kept),
        )
    )


def allowed(said: dict[str, str]) -> dict[str, str]:
    """What the collector lets into the store of such an environment."""
    from collector.procfs.environment import allowed_environment

    return dict(allowed_environment(b"\0".join(f"{k}={v}".encode() for k, v in said.items())))


def test_the_journals_page_tells_what_the_actions_gave_back(site: Site, look: Callable[..., Any]) -> None:
    screen = look(site.base).open(f"/actions?{site.window}")
    screen.until("() => document.body.innerText.includes('What the actions did give back')")
    told = plainly(screen.text())
    assert "One action freed 0.7 GPU-hours; in 0.3 GPU-hours of that other jobs worked there." in told
    screen.page.get_by_text("The numbers").first.click()
    download_button(screen).wait_for()
    with connect(site.data) as client:
        report = make(client, Wanted(kind=ReportKind.CLUSTER_WEEK, span=site.span), site.span.end)
    (section,) = (each for each in report.sections if each.heading == "What the actions did give back")
    assert plainly(section.sentences[0]) in told
    figure = next(each for each in report.figures if each.key == "given_back_gpu_hours")
    assert figure.value == pytest.approx(20 / 60)


def test_a_run_is_linked_and_what_is_hostile_is_text(site: Site, look: Callable[..., Any]) -> None:
    screen = look(site.base).open(f"/jobs?job={RUNS}&{site.window}", charts=2)
    link = screen.page.get_by_role("link", name="W&B run vision/sweep #1/3k2")
    assert link.get_attribute("href") == "https://wandb.example.org/vision/sweep%20%231/runs/3k2"
    assert link.get_attribute("target") == "_blank" and "noreferrer" in str(link.get_attribute("rel"))
    slurm = screen.page.get_by_role("link", name="Slurm job 812")
    assert slurm.get_attribute("href") == "https://portal.example.org/jobs/812"
    assert HOSTILE in screen.text() and "../../evil" in screen.text()
    addresses = screen.page.eval_on_selector_all("a", "each => each.map(a => a.getAttribute('href') || '')")
    assert not [each for each in addresses if each.startswith(("javascript:", "data:")) or "evil" in each]
    assert screen.page.title() != "1" and "never-in-here" not in screen.page.content()


def test_the_job_says_its_runs_in_a_terminal_as_well(site: Site) -> None:
    from tests.service.conftest import fallow

    done = fallow("explain", RUNS, data=site.data)
    assert done.returncode == 0, done.stderr
    told = " ".join(done.stdout.split())
    assert "It says it is W&B run vision/sweep #1/3k2: https://wandb.example.org/" in told
    assert HOSTILE in told and "never-in-here" not in told


@pytest.mark.parametrize("user", ["user-of-1", ME])
def test_a_person_reads_the_figures_and_advice_of_their_report(
    site: Site, look: Callable[..., Any], user: str
) -> None:
    with connect(site.data) as client:
        wanted = Wanted(kind=ReportKind.MY_WEEK, span=site.span, user=user)
        report = make(client, wanted, site.span.end)
    screen = look(site.base).open(f"/people?user={user}&{site.window}&code={CODE}", charts=1)
    screen.until("() => document.body.innerText.includes('What to change')")
    shown, own = plainly(screen.text()), user == ME
    opening = plainly(report.opening)
    assert (opening if own else opening.replace("yours held", f"{user} held")) in shown
    for figure in report.figures:
        assert plainly(written(figure.value, figure.measure)) in shown
    (section,) = (each for each in report.sections if each.heading == "What to change")
    for sentence in section.sentences:
        assert (plainly(sentence) if own else plainly(sentence).replace("for you?", f"for {user}?")) in shown


def test_who_signed_in_sees_their_own_without_choosing_and_others_see_no_advice_for_them(
    site: Site, look: Callable[..., Any]
) -> None:
    mine = look(site.base).open(f"/people?{site.window}&code={CODE}", charts=2)
    mine.until("() => document.body.innerText.includes('What you held')")
    assert "One job of yours held 3.0 GPU-h" in plainly(mine.text())
    other = look(site.base).open(f"/people?user={ME}&{site.window}", charts=1)
    other.until("() => document.body.innerText.includes('It is one person')")
    assert f"One job of {ME} held 3.0 GPU-h" in plainly(other.text())
    assert "nothing was found to complain about" not in other.text()


def test_somebody_who_held_nothing_is_told_so(site: Site, look: Callable[..., Any]) -> None:
    screen = look(site.base).open(f"/people?user=nobody&{site.window}")
    screen.until("() => document.body.innerText.includes('nobody held no GPU in this time')")


def test_the_charts_of_evidence_have_their_numbers_as_well(dashboard: str, look: Callable[..., Any]) -> None:
    screen = look(dashboard, height=1300).open("/todo")
    advised_only(screen)
    screen.page.get_by_text("Evidence", exact=True).first.click()
    screen.settled(charts=1)
    boxes = screen.page.get_by_text("The numbers")
    assert boxes.count() == screen.charts() > 0
    boxes.first.click()
    with screen.page.expect_download() as download:
        download_button(screen).click()
    name = download.value.suggested_filename
    assert name.startswith("fallow-evidence-") and name.endswith(".csv") and "/" not in name
    head, first = Path(download.value.path()).read_text().splitlines()[:2]
    assert head.split(",")[0] == "ts" and len(first.split(",")) == len(head.split(","))


def advised_only(screen: Any) -> None:
    """Choose a class of advice; they stand behind the kinds of finding."""
    kinds = screen.page.get_by_role("radiogroup", name="Kind of finding or advice").get_by_role("radio")
    kinds.last.click()
    screen.until_address("kind=").settled()


def download_button(screen: Any) -> Any:
    """The first table's own button; the tables themselves have a small one each as well."""
    return screen.page.get_by_test_id("stDownloadButton").first.get_by_role("button")


def plainly(text: str) -> str:
    """Text with plain blanks: units are set off by thin ones."""
    return re.sub(r"\s", " ", text).strip()

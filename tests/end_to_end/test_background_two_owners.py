"""A background job in the idle gaps of another person's: two accounts, real trainings and launchers.

Ann's training is the foreground, Ben's sweep the guest; who else is on the machine sees nothing of it.
"""

import importlib.util
import os
import signal
import stat
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from shutil import rmtree

import pytest

from examples.demo.stage import Launched, Setting, Stage
from examples.demo.stories import LONG_S, SETTINGS
from service.schemas.records import Job
from tests.end_to_end.accounts import SOCKET, Account, NoPython, open_to_all, python_for_all
from tests.end_to_end.in_gaps import assert_in_gaps

pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(900),
    pytest.mark.skipif(os.geteuid() != 0, reason="two accounts need root"),
    pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="PyTorch (torch) is not installed"),
]

AUTO = SETTINGS.replace("every_s = 2", "every_s = 1") + '[modes]\nbackground = "auto"\n'
ANN, BEN, EVE = "daemon", "mail", "games"
"""Accounts that every Linux has, and that own nothing."""
PAUSE_S = 0.06
WAYS = ("read", "attach", "write", "add", "chmod", "unlink", "list")
READ = "import json, sys; from pathlib import Path; from fallow.idle_gaps import page as pages; "


@dataclass(slots=True)
class Site:
    """One GPU, and the people on it."""

    stage: Stage
    ann: Account
    ben: Account
    eve: Account

    def job(self, name: str) -> Job:
        """The newest of that name."""
        return max(
            (each for each in self.stage.jobs() if each.name == name), key=lambda each: each.submitted_ms or 0
        )

    def state(self, name: str) -> str:
        return str(self.job(name).state)

    def page(self) -> Path | None:
        for each in self.stage.jobs():
            if each.name == "front" and each.state != "ended" and each.report and each.report.idle_gaps:
                return Path(each.report.idle_gaps[0].page)
        return None

    def steps(self) -> int:
        return _lines(self.ben.folder / "log")

    def foreground(self, *flags: str) -> Launched:
        words = ("--steps", "100000", "--pause", str(PAUSE_S), "--compute", str(PAUSE_S / 2), "--needs", "20")
        told = ("--busy", str(self.ann.folder / "busy"))
        job = self.ann.run("front", ("--elastic", "--memory", "24GiB", *flags), ("elastic", *words, *told))
        self.stage.until(
            "it announces gaps", lambda: job.process.poll() is not None or self.page(), 2 * LONG_S
        )
        assert job.process.poll() is None, job.text
        return job

    def guest(self, *flags: str) -> Launched:
        words = ("--done", str(self.ben.folder / "done"), "--log", str(self.ben.folder / "log"))
        before = len(self.stage.jobs())
        job = self.ben.run(
            "sweep", ("--background", "--memory", "4GiB", "--grace", "2s", *flags), ("sweep", *words)
        )
        self.stage.until("it is submitted", lambda: len(self.stage.jobs()) > before, LONG_S)
        return job

    def goes_on(self, what: str) -> None:
        before = self.steps()
        self.stage.until(what, lambda: self.steps() > before + 10, 2 * LONG_S)

    def waits_again(self, why: str, *, beside: bool = True) -> None:
        """The guest is sent back and computes nothing, ``beside`` five steps of the foreground."""
        self.stage.until(f"the guest waits again: {why}", lambda: self.state("sweep") == "pending", LONG_S)
        before, ahead = self.steps(), _lines(self.ann.folder / "busy") + 10
        if beside:
            self.stage.until("five steps", lambda: _lines(self.ann.folder / "busy") > ahead, LONG_S)
        else:
            self.stage.until("nothing is on the GPU", lambda: not self.stage.on(0), LONG_S)
        assert self.steps() == before and self.job("sweep").beside is None

    def worker(self, name: str) -> int:
        """The process of a job that is on the GPU."""
        report = self.job(name).report
        assert report is not None
        (pid,) = [pid for pid in report.pids if pid in self.stage.on(0)]
        return int(pid)

    def refused(self, who: Account, page: Path) -> list[str]:
        """What the kernel refuses this account of what could forge, read or remove a page."""
        attempts = (
            "lambda: pages.attach_others(p).close()",
            "lambda: pages.attach(p).close()",
            "lambda: open(p, 'r+b').close()",
            "lambda: open(p.parent / 'GPU-made-up', 'wb').close()",
            "lambda: p.chmod(0o666)",
            "lambda: p.unlink()",
            "lambda: list(p.parent.iterdir())",
        )
        loop = f"""
p, refused = Path({str(page)!r}), []
for name, attempt in zip({WAYS!r}, ({", ".join(attempts)})):
    try:
        attempt()
    except OSError:
        refused.append(name)
print(json.dumps(refused))
"""
        return list(who.tries(READ + "\n" + loop))


@pytest.fixture
def site(compiled: None) -> Iterator[Site]:
    """A machine with one toy GPU of 80 GiB, under a folder that every account may enter."""
    try:
        python_for_all()
    except NoPython as missing:
        pytest.skip(str(missing))
    folder = Path(tempfile.mkdtemp(prefix="fallow-two.", dir="/tmp"))
    folder.chmod(0o755)
    try:
        settings = AUTO + f'[api]\nsocket = "{folder / SOCKET}"\n'
        with Stage(folder / "stage", Setting(gpus=1, speed=1, settings=settings, patience=3)) as stage:
            open_to_all(stage)
            yield Site(stage, *(Account(stage, name) for name in (ANN, BEN, EVE)))
    finally:
        rmtree(folder)


def test_both_say_yes_the_guest_reads_the_page_and_either_ends_it(site: Site) -> None:
    stage = site.stage
    site.foreground()
    site.guest()
    front, sweep = site.job("front").job, site.job("sweep").job
    for owner, job, who in ((site.ann, front, ANN), (site.ben, sweep, BEN)):
        why = f"{who} has not let {job} share a GPU"
        stage.until(why, partial(_explains, site.ben, sweep, why), LONG_S)
        assert site.state("sweep") == "pending" and site.steps() == 0
        owner.order("consent", "--allow", "share", "--job", job)
    stage.until("the sweep computes", lambda: site.steps() > 20, 2 * LONG_S)
    page = site.page()
    assert page is not None and page.stat().st_uid == site.ann.uid
    assert site.job("sweep").gpus == (), "the GPU is Ann's, and nobody else's"
    assert stat.S_IMODE(page.stat().st_mode) & 0o007 == 0

    assert site.refused(site.ben, page) == list(WAYS[1:])
    assert site.refused(site.eve, page) == list(WAYS)
    for words in (
        ("keep", front, "--alone"),
        ("cancel", front),
        ("consent", "--allow", "share", "--job", front),
    ):
        done = site.ben.fallow(*words)
        assert done.returncode != 0, f"Ben ordered {words} for Ann's job: {done.stdout}"
    stage.until(
        "what it gives and costs is measured, for both to read",
        lambda: all("GPU time harvested" in who.order("explain", front) for who in (site.ann, site.ben)),
        2 * LONG_S,
    )
    assert stage.rows("intrusions", from_ts="2020-01-01T00:00Z", to_ts="2100-01-01T00:00Z") == []

    site.ann.order("keep", front, "--alone")
    site.waits_again("Ann wants to be alone")
    assert "read" in site.refused(site.ben, page), "it reads the page while it is there, and no longer"
    site.ann.order("keep", front, "--no-alone")
    site.goes_on("it computes again")
    for owner, job in ((site.ben, sweep), (site.ann, front)):
        owner.order("consent", "--withdraw", "share", "--job", job)
        site.waits_again(f"{owner.name} takes the word back")
        owner.order("consent", "--allow", "share", "--job", job)
        site.goes_on(f"{owner.name} says yes again")
    assert_in_gaps(site.ann.folder / "busy", site.ben.folder / "log")


def test_each_side_may_be_killed_and_the_gate_is_shut(site: Site) -> None:
    front = site.foreground("--share-ok")
    site.guest("--share-ok")
    site.goes_on("the sweep computes")
    page = site.page()
    assert page is not None

    os.kill(site.worker("front"), signal.SIGKILL)
    site.waits_again("Ann's only worker was killed", beside=False)
    assert not page.exists(), "the page goes with the job"
    front = site.foreground("--share-ok")
    site.goes_on("it goes on beside another")

    os.kill(site.worker("sweep"), signal.SIGKILL)
    site.stage.until("the sweep has failed", lambda: site.state("sweep") == "ended", LONG_S)
    assert site.state("front") == "running"
    guest = site.guest("--share-ok")
    site.goes_on("another sweep takes its place")

    os.kill(_launcher(site.job("sweep")), signal.SIGKILL)
    guest.process.wait()
    site.stage.until("its processes go with the launcher", lambda: len(site.stage.on(0)) == 1, LONG_S)
    assert site.state("front") == "running"
    again = site.page()
    assert again is not None
    site.stage.until("its account reads no more", lambda: "read" in site.refused(site.ben, again), LONG_S)
    site.guest("--share-ok")
    site.goes_on("a third sweep takes its place")

    os.kill(_launcher(site.job("front")), signal.SIGKILL)
    front.process.wait()
    site.waits_again("Ann's launcher was killed", beside=False)
    assert_in_gaps(site.ann.folder / "busy", site.ben.folder / "log")


def _explains(account: Account, job: str, why: str) -> bool:
    return why in account.order("explain", job)


def _launcher(job: Job) -> int:
    assert job.report is not None
    return int(job.report.launcher.pid)


def _lines(path: Path) -> int:
    return len(path.read_text().splitlines()) if path.exists() else 0

"""A background job in the idle gaps of another: real trainings, launchers and service on the stand-in driver.

The trainings are small networks on processors, the foreground's gaps its pauses between steps. Where it is
about time, both wrote down when they did what, by the machine's one steady clock.
"""

import importlib.util
import os
import signal
import stat
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from examples.demo.stage import Launched, Setting, Stage
from examples.demo.stories import LONG_S, SETTINGS
from service.schemas.records import Job
from tests.end_to_end.in_gaps import assert_in_gaps

pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(900),
    pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="PyTorch (torch) is not installed"),
]

AUTO = SETTINGS.replace("every_s = 2", "every_s = 1") + '[modes]\nbackground = "auto"\n'
PAUSE_S = 0.06


@pytest.fixture
def stage(compiled: None, tmp_path: Path) -> Iterator[Stage]:
    """A machine with one toy GPU of 80 GiB."""
    with Stage(tmp_path / "stage", Setting(gpus=1, speed=1, settings=AUTO, patience=3)) as made:
        yield made


def foreground(stage: Stage, *flags: str) -> Launched:
    """An elastic training that computes for half of each step, two batches, and waits for the other half."""
    words = ("--steps", "100000", "--pause", str(PAUSE_S), "--compute", str(PAUSE_S / 2), "--needs", "20")
    told = ("--busy", str(stage.folder / "busy"))
    return stage.run("front", ("--elastic", "--memory", "24GiB", *flags), ("elastic", *words, *told))


def background(stage: Stage) -> Launched:
    words = ("--done", str(stage.folder / "done"), "--log", str(stage.folder / "log"))
    return stage.run("sweep", ("--background", "--memory", "4GiB", "--grace", "2s"), ("sweep", *words))


def row(stage: Stage, name: str) -> Job | None:
    """Of one that has not ended."""
    return next((each for each in stage.jobs() if each.name == name and each.state != "ended"), None)


def state(stage: Stage, name: str) -> str:
    """Of the newest of that name."""
    return str(latest(stage, name).state)


def steps(stage: Stage) -> int:
    log = stage.folder / "log"
    return len(log.read_text().splitlines()) if log.exists() else 0


def pages(stage: Stage) -> list[Path]:
    front = row(stage, "front")
    return (
        [] if front is None or front.report is None else [Path(each.page) for each in front.report.idle_gaps]
    )


def together(stage: Stage) -> None:
    """Both run, and the background job has made some steps."""
    stage.until("the sweep computes", lambda: steps(stage) > 20, 2 * LONG_S)


def stands_still(stage: Stage) -> bool:
    """Whether no step is made for a while: four of the foreground's steps, at least."""
    before, gaps = steps(stage), _count(stage.folder / "busy")
    stage.until("the foreground makes five steps", lambda: _count(stage.folder / "busy") > gaps + 10, LONG_S)
    return steps(stage) == before


def _count(path: Path) -> int:
    return len(path.read_text().splitlines())


def test_it_computes_in_gaps_alone_and_leaves_by_one_command(stage: Stage) -> None:
    foreground(stage)
    stage.until("the foreground announces gaps", lambda: pages(stage), 2 * LONG_S)
    background(stage)
    together(stage)
    (page,) = pages(stage)
    assert stat.S_IMODE(page.stat().st_mode) == 0o600 and stat.S_IMODE(page.parent.stat().st_mode) == 0o700
    front = latest(stage, "front").job
    stage.until(
        "what it gives and costs is measured",
        lambda: "GPU time harvested" in stage.fallow("explain", front).stdout,
        2 * LONG_S,
    )
    kept = stage.rows("harvests", from_ts="2020-01-01T00:00Z")
    assert len(kept) == 1 and kept[0]["foreground"] == front
    assert latest(stage, "sweep").gpus == (), "the GPU is the foreground's, and nobody else's"

    stage.order("keep", front, "--alone")
    stage.until("the sweep waits again", lambda: state(stage, "sweep") == "pending", LONG_S)
    assert stands_still(stage) and state(stage, "front") == "running"
    stage.order("keep", front, "--no-alone")
    done = steps(stage)
    stage.until("it computes again", lambda: steps(stage) > done + 10, 2 * LONG_S)
    stage.order("cancel", latest(stage, "sweep").job)
    stage.until("it has ended", lambda: state(stage, "sweep") == "ended", LONG_S)
    assert_in_gaps(stage.folder / "busy", stage.folder / "log")


def test_gates_are_shut_by_every_death_and_the_switch_and_nothing_is_wrong_after(stage: Stage) -> None:
    front = foreground(stage)
    stage.until("the foreground announces gaps", lambda: pages(stage), 2 * LONG_S)
    first = background(stage)
    together(stage)
    (page,) = pages(stage)

    stage.order("stop-acting", "--because", "a look")
    stage.until("the switch shuts the gate", lambda: stands_still(stage), LONG_S)
    assert state(stage, "sweep") == "running", "nobody is moved by the switch"
    stage.order("start-acting")
    goes_on(stage, "acting goes on")

    stage.stop_serving(signal.SIGKILL)
    wait_for("without the service the gate is shut", lambda: stands_still_without_service(stage))
    stage.serve()
    goes_on(stage, "the service is back")

    os.kill(worker(stage, "front"), signal.SIGKILL)
    waits_again(stage, "its foreground's only worker was killed")
    assert not page.exists(), "the page goes with the job"
    front = foreground(stage)
    goes_on(stage, "it goes on beside another")

    os.kill(worker(stage, "sweep"), signal.SIGKILL)
    stage.until("the sweep has failed", lambda: first.process.poll() is not None, LONG_S)
    assert state(stage, "sweep") == "ended" and state(stage, "front") == "running"
    background(stage)
    goes_on(stage, "another sweep takes its place")

    front.process.kill()
    front.process.wait()  # its parent here: unburied it would still be there
    waits_again(stage, "its foreground's launcher was killed")
    assert_in_gaps(stage.folder / "busy", stage.folder / "log")


def waits_again(stage: Stage, why: str) -> None:
    """The foreground has ended; the background job is sent back, whatever it has not saved."""
    stage.until(f"the foreground has ended: {why}", lambda: state(stage, "front") == "ended", LONG_S)
    stage.until(f"the sweep waits again: {why}", lambda: state(stage, "sweep") == "pending", LONG_S)
    before = steps(stage)
    stage.until("nothing is on the GPU", lambda: not stage.on(0), LONG_S)
    assert steps(stage) == before and latest(stage, "sweep").beside is None


def goes_on(stage: Stage, what: str) -> None:
    before = steps(stage)
    stage.until(what, lambda: steps(stage) > before + 10, 2 * LONG_S)


def latest(stage: Stage, name: str) -> Job:
    return max((each for each in stage.jobs() if each.name == name), key=lambda each: each.submitted_ms or 0)


def worker(stage: Stage, name: str) -> int:
    """The process that computes on the GPU."""
    report = latest(stage, name).report
    assert report is not None
    (pid,) = [pid for pid in report.pids if pid in stage.on(0)]
    return int(pid)


def wait_for(what: str, holds: Callable[[], bool]) -> None:
    ends_s = time.monotonic() + LONG_S
    while not holds():
        assert time.monotonic() < ends_s, what


def stands_still_without_service(stage: Stage) -> bool:
    before, gaps = steps(stage), _count(stage.folder / "busy")
    while _count(stage.folder / "busy") <= gaps + 10:
        time.sleep(PAUSE_S)
    return steps(stage) == before

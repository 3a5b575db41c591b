"""A background job that grows into what its foreground needs, on the stand-in driver with a real service."""

import importlib.util
from pathlib import Path

import pytest

from examples.demo.stage import Setting, Stage
from examples.demo.stories import LONG_S, SETTINGS
from examples.toys.board import GIB
from service.schemas.records import Action, Job

pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(900),
    pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="PyTorch (torch) is not installed"),
]

AUTO = SETTINGS.replace("every_s = 2", "every_s = 1") + '[modes]\nbackground = "auto"\n'
NEEDS, GROWS = 2.0, 56.4
"""GiB: with 20 of the foreground and two contexts of half a GiB 79.4 of 80, and nobody was refused any."""


def job(stage: Stage, name: str) -> Job:
    return max((each for each in stage.jobs() if each.name == name), key=lambda each: each.submitted_ms or 0)


def steps(path: Path) -> int:
    return len(path.read_text().splitlines()) if path.exists() else 0


def test_a_guest_that_grows_leaves_before_the_foreground_lacks_memory_and_stays_away(
    compiled: None, tmp_path: Path
) -> None:
    with Stage(tmp_path / "stage", Setting(gpus=1, speed=1, settings=AUTO, patience=3)) as stage:
        busy, done = stage.folder / "busy", stage.folder / "done"
        words = ("--steps", "100000", "--pause", "0.06", "--compute", "0.03", "--busy", str(busy))
        front = stage.run("front", ("--elastic", "--memory", "24GiB"), ("elastic", *words))
        flags = ("--background", "--memory", "4GiB", "--grace", "2s")
        grows = ("--done", str(done), "--needs", str(NEEDS), "--grows", str(GROWS))
        stage.run("sweep", flags, ("sweep", *grows))
        stage.until("the guest has grown", lambda: sum(stage.on(0).values()) > 79 * GIB, 3 * LONG_S)
        stage.until("it has left", lambda: len(stage.on(0)) == 1, LONG_S)
        stage.until("it waits", lambda: job(stage, "sweep").state == "pending", LONG_S)
        gone = stage.until("that is in the journal", lambda: _sent_back(stage), LONG_S)
        assert [row.outcome for row in gone] == ["done"] and "memory runs short" in gone[0].reason

        settled, ahead = steps(done), steps(busy) + 200
        stage.until("a hundred steps of the foreground", lambda: steps(busy) > ahead, 2 * LONG_S)
        assert job(stage, "sweep").state == "pending" and steps(done) == settled
        explained = stage.fallow("explain", job(stage, "sweep").job).stdout
        assert "it needs 58.9 GiB" in " ".join(explained.split())
        assert front.process.poll() is None and "out of memory" not in front.text


def _sent_back(stage: Stage) -> list[Action]:
    """Of the guest, those that came to an end."""
    guest = job(stage, "sweep").job
    return [row for row in stage.actions() if row.job == guest and row.verb == "requeue" and row.outcome]

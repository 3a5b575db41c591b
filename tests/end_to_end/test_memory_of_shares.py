"""Jobs that hold more memory than their share, on the stand-in driver with a real service and real launchers.

What was held is asked of the driver's board; what was done, of the journal.
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from examples.demo.stage import Setting, Stage
from examples.toys.board import CONTEXT_BYTES, GIB
from service.schemas.records import Action

MOVABLE = ("--preemptible", "--checkpoint-signal", "USR1", "--grace", "10s")
SETTINGS = '[acting]\nevery_s = 1\n[advice]\nstartup_s = 600\n[modes]\ncap_memory = "{mode}"\n'


@pytest.fixture
def stage(compiled: None, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Stage]:
    """A machine with one toy GPU of 80 GiB; the parameter is the mode of cap-memory."""
    settings = SETTINGS.format(mode=request.param)
    with Stage(tmp_path / "stage", Setting(gpus=1, speed=60, settings=settings)) as made:
        yield made


def runs(stage: Stage, name: str, asks: str, needs: int, *flags: str, share: str = "0.5") -> Any:
    """A job that asks for so much memory and takes so much."""
    wanted = ("--project", "vision", "--gpus", share, "--memory", asks, *flags)
    saved = str(stage.folder / f"{name}.json")
    toy = ("unfilled", "--needs", str(needs), "--steps", "100000", "--checkpoint", saved)
    return stage.run(name, wanted, toy)


def journal(stage: Stage, name: str) -> list[Action]:
    """What the journal has of the job, oldest first."""
    job = next(row.job for row in stage.jobs() if row.name == name)
    return [row for row in stage.actions() if row.job == job]


def done_to(stage: Stage, name: str) -> list[Action]:
    return [row for row in journal(stage, name) if row.outcome == "done"]


def stand(stage: Stage, name: str) -> str:
    return next(str(row.state) for row in stage.jobs() if row.name == name)


def holding(stage: Stage) -> list[int]:
    """Bytes of each process on the GPU, contexts left out."""
    return sorted(held - CONTEXT_BYTES for held in stage.on(0).values())


@pytest.mark.parametrize("stage", ["auto"], indirect=True)
def test_who_takes_its_neighbours_promise_is_told_then_paused_and_the_neighbour_never(stage: Stage) -> None:
    runs(stage, "neighbour", "40GiB", 10)
    stage.until("the neighbour holds its first memory", lambda: holding(stage) == [10 * GIB], 60)
    explained = stage.fallow("explain", "fallow:1").stdout
    assert "It has 50% of each device by time-slicing: no MPS control daemon runs" in explained
    assert "Its share of memory is 40 GiB on each device" in explained
    assert "TF_FORCE_GPU_ALLOW_GROWTH=true" in explained
    hog = runs(stage, "hog", "20GiB", 50, *MOVABLE)
    stage.until("the hog has taken 50 GiB", lambda: holding(stage) == [10 * GIB, 50 * GIB], 60)
    stage.until("the hog has left", lambda: holding(stage) == [10 * GIB], 60)
    stage.until("it is paused", lambda: stand(stage, "hog") == "paused")
    stage.until("that it is, is in the journal", lambda: len(done_to(stage, "hog")) == 3)
    done = done_to(stage, "hog")
    assert [row.verb.lower() for row in done] == ["start", "notify", "pause"]
    assert "its share is 20.5 GiB, and fallow:1 may not get what was promised" in done[1].reason
    assert "Please give memory back" in hog.text
    assert [row.verb.lower() for row in journal(stage, "neighbour")] == ["start"], "nothing was done to it"
    assert stand(stage, "neighbour") == "running"
    (neighbour,) = stage.on(0)
    stage.order("cancel", "fallow:1")
    stage.until("the hog goes on where there is room for it", lambda: holding(stage) == [50 * GIB], 60)
    assert neighbour not in stage.on(0)


@pytest.mark.long
@pytest.mark.parametrize("stage", ["advise"], indirect=True)
def test_where_nobody_switched_pausing_on_it_is_told_and_nothing_else(stage: Stage) -> None:
    runs(stage, "neighbour", "40GiB", 10)
    stage.until("the neighbour holds its first memory", lambda: holding(stage) == [10 * GIB], 60)
    hog = runs(stage, "hog", "20GiB", 50, *MOVABLE)
    stage.until("it was told", lambda: "Please give memory back" in hog.text, 60)
    told_ms = stage.now_ms()
    stage.until("ten minutes have passed", lambda: stage.now_ms() - told_ms > 600_000)
    assert holding(stage) == [10 * GIB, 50 * GIB]
    assert [row.verb.lower() for row in journal(stage, "hog")] == ["start", "notify"]


@pytest.mark.parametrize("stage", ["auto"], indirect=True)
def test_a_lease_of_a_part_is_started_with_its_share_and_says_how_it_is_held(stage: Stage) -> None:
    shows = (
        "import os, json; print('SAW', json.dumps({k: v for k, v in os.environ.items() if k in os.sys.argv}))"
    )
    names = ("FALLOW_MEMORY_FRACTION", "TF_FORCE_GPU_ALLOW_GROWTH", "XLA_PYTHON_CLIENT_PREALLOCATE")
    words = ("run", "--project", "vision", "--gpus", "0.5", "--memory", "20GiB", "--")
    done = stage.fallow(*words, sys.executable, "-c", shows, *names, "PYTORCH_CUDA_ALLOC_CONF")
    assert done.returncode == 0, done.stderr
    assert '"FALLOW_MEMORY_FRACTION": "0.25' in done.stdout
    assert '"TF_FORCE_GPU_ALLOW_GROWTH": "true"' in done.stdout
    assert '"XLA_PYTHON_CLIENT_PREALLOCATE": "false"' in done.stdout
    assert '"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"' in done.stdout
    refused = stage.fallow(*words[:-1], "--no-memory-defaults", "--", sys.executable, "-c", shows, *names)
    assert "ALLOW_GROWTH" not in refused.stdout
    assert "FALLOW_MEMORY_FRACTION" in refused.stdout, "a limit cannot be refused"

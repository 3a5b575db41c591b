"""Dropout, augmentation, BatchNorm, autocast, a scaler and loader processes: the same bits for any world."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed; pip install -c constraints.txt torch")

import fallow  # noqa: E402
from fallow.controller.controller import Controller  # noqa: E402
from fallow.controller.membership import Limits  # noqa: E402
from fallow.workers.pool import WorkerPool  # noqa: E402
from tests.fallow import noisy_train  # noqa: E402
from tests.fallow.noisy_train import STEPS, train  # noqa: E402

ROOT = Path(__file__).parents[2]
SCRIPT = Path(__file__).with_name("noisy_train.py")
LIMITS = Limits(start_ms=60_000, connect_ms=10_000, switch_ms=10_000, report_ms=10_000)
ENVIRONMENT = {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
DEADLINE_S = 120

Script = dict[int, Callable[[Controller], object]]
"""What to do once a step was committed anywhere."""


@pytest.fixture(scope="module")
def nursery() -> Iterator[WorkerPool]:
    parent = WorkerPool([str(SCRIPT)], ENVIRONMENT)
    yield parent
    parent.close()


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Trained alone, reading in the loop."""
    return alone(0, tmp_path_factory.mktemp("reference") / "out")


def alone(loaders: int, out: Path) -> dict[str, Any]:
    torch.set_num_threads(1)
    losses = {step: loss for step, loss, _ in train(fallow.connect(environment={}), loaders, out)}
    return {"losses": losses, "end": torch.load(f"{out}.pt")}


def driven(nursery: WorkerPool, out: Path, workers: int, script: Script, **variables: str) -> dict[str, Any]:
    def spawn(given: Any) -> Any:
        return nursery.spawn({**given, "OUT": str(out), "LOADERS": "2", **variables})

    controller = Controller(spawn, workers=workers, maximum=4, limits=LIMITS)
    began, left = time.monotonic(), dict(script)
    open_gate(out, min(left))

    def poll(controller: Controller) -> None:
        furthest = max((line[0] for line in seen(out)), default=-1)
        if left and furthest >= min(left) and is_whole(controller):
            left.pop(min(left))(controller)
        elif is_settled(controller):
            open_gate(out, max(furthest + 1, min(left, default=STEPS)))
        assert time.monotonic() - began < DEADLINE_S, controller.journal

    assert controller.run(poll) == 0, (controller.exit_reason, controller.journal)
    assert not left, "the training ended before the script was done"
    return {"lines": seen(out), "end": torch.load(f"{out}.pt"), "journal": controller.journal}


def open_gate(out: Path, step: int) -> None:
    """Let the training go on to the end of ``step``."""
    part = Path(f"{out}.part")
    part.write_text(str(step))
    part.replace(f"{out}.gate")


def is_whole(controller: Controller) -> bool:
    """Whether the world is as it was asked for."""
    return controller.view.pending is None and len(controller.view.members) == controller.view.target


def is_settled(controller: Controller) -> bool:
    """Whether the world is as it was asked for, or will be at the next step."""
    pending = controller.view.pending
    return is_whole(controller) or (pending is not None and pending.committed)


def seen(out: Path) -> list[list[Any]]:
    files = [path for path in out.parent.glob(f"{out.name}.*") if path.suffix[1:].isdigit()]
    lines = [line for path in files for line in path.read_text().split("\n")[:-1]]
    return [json.loads(line) for line in lines]


def assert_same_bits(done: dict[str, Any], reference: dict[str, Any]) -> None:
    assert {step for step, *_ in done["lines"]} == set(range(STEPS))
    for step, loss, world in done["lines"]:
        assert loss == reference["losses"][step], f"step {step} of {world} workers"
    assert_equal(done["end"], reference["end"])


def assert_equal(one: Any, other: Any) -> None:
    if isinstance(one, dict):
        assert one.keys() == other.keys()
        for key in one:
            assert_equal(one[key], other[key])
    elif isinstance(one, list | tuple):
        assert len(one) == len(other)
        for a, b in zip(one, other, strict=True):
            assert_equal(a, b)
    elif isinstance(one, torch.Tensor):
        assert torch.equal(one, other)
    else:
        assert one == other


def resize(workers: int) -> Callable[[Controller], object]:
    return lambda controller: controller.resize(workers)


def kill(out: Path) -> Callable[[Controller], object]:
    """kill -9 of the process that saw most steps so far."""

    def at_once(controller: Controller) -> None:
        files = [path for path in out.parent.glob(f"{out.name}.*") if path.suffix[1:].isdigit()]
        os.kill(int(max(files, key=lambda path: path.stat().st_size).suffix[1:]), signal.SIGKILL)

    return at_once


def test_loader_processes_change_no_bit(reference: dict[str, Any], tmp_path: Path) -> None:
    ahead = alone(2, tmp_path / "out")
    assert ahead["losses"] == reference["losses"]
    assert_equal(ahead["end"], reference["end"])


@pytest.mark.long
def test_resizes_change_no_bit(nursery: WorkerPool, reference: dict[str, Any], tmp_path: Path) -> None:
    script: Script = {5: resize(3), 20: resize(2), 30: resize(4), 45: resize(1)}
    done = driven(nursery, tmp_path / "out", 1, script)
    assert_same_bits(done, reference)
    assert {world for _, _, world in done["lines"]} == {1, 2, 3, 4}, done["journal"]


def test_a_killed_worker_changes_no_bit_and_takes_its_loader_processes_along(
    nursery: WorkerPool, reference: dict[str, Any], tmp_path: Path
) -> None:
    out = tmp_path / "out"
    done = driven(nursery, out, 2, {10: kill(out), 25: kill(out)})
    assert_same_bits(done, reference)
    loaders = [int(line.split()[1]) for line in Path(f"{out}.loaders").read_text().splitlines()]
    assert len(loaders) >= 6  # two for each worker there ever was
    assert not [pid for pid in loaders if is_alive(pid)]


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.long
def test_asked_by_signal_it_saves_and_goes_on_in_another_world_with_the_same_bits(
    nursery: WorkerPool, reference: dict[str, Any], tmp_path: Path
) -> None:
    out, written, saved = tmp_path / "out", tmp_path / "state.pt", tmp_path / "kept.pt"

    def ask(controller: Controller) -> None:
        pids = sorted(int(path.suffix[1:]) for path in tmp_path.glob("out.*") if path.suffix[1:].isdigit())
        os.kill(pids[-1], signal.SIGUSR1)  # whoever is asked, all stop at the same step to save

    def end(controller: Controller) -> None:
        shutil.copy(written, saved)  # what it saved on the signal; being stopped, it saves once more
        controller.ask_to_stop("enough")

    with pytest.raises(AssertionError, match="enough"):
        driven(nursery, out, 3, {15: ask, 30: end}, CHECKPOINT=str(written))
    step = torch.load(saved)["step"]
    assert 15 <= step <= 30
    later = tmp_path / "later"
    subprocess.run(
        [sys.executable, str(SCRIPT)],
        env={**os.environ, **ENVIRONMENT, "OUT": str(later), "LOADERS": "1", "CHECKPOINT": str(saved)},
        check=True,
        timeout=100,
    )
    assert [line[0] for line in seen(later)] == list(range(step, STEPS))
    assert all(loss == reference["losses"][at] for at, loss, _ in seen(later))
    assert_equal(torch.load(f"{later}.pt"), reference["end"])


def test_another_seed_gives_other_bits_which_shows_that_the_tests_can_tell(reference: dict[str, Any]) -> None:
    torch.set_num_threads(1)
    other = train(fallow.connect(environment={}), 0, seed=1)
    assert other[0][1] != reference["losses"][0]
    again = train(fallow.connect(environment={}), 0)
    assert again[0][1] == reference["losses"][0]
    assert len(again) == noisy_train.STEPS

"""The examples as people run them: alone, under torchrun, and resized by hand while they train."""

import os
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed; pip install -c constraints.txt torch")

from fallow.control_server import ask  # noqa: E402

ROOT = Path(__file__).parents[2]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
LINE = re.compile(r"step +(\d+) +loss (\S+) +workers (\d+)")
DEADLINE_S = 150

# The script, what its whole training takes, and packages that it needs besides torch.
EXAMPLES = {
    "text.py": ["--steps", "80", "--device", "cpu"],
    "images.py": ["--steps", "80", "--device", "cpu"],
    "accelerated.py": ["--epochs", "3", "--cpu"],
}


@dataclass(frozen=True)
class Run:
    """What an example printed, as (step, loss as printed, workers), and the model that it saved."""

    lines: list[tuple[int, str, int]]
    model: dict[str, Any]
    file: bytes

    @property
    def losses(self) -> dict[int, str]:
        return {step: loss for step, loss, _ in self.lines}


def printed(output: str) -> list[tuple[int, str, int]]:
    return [(int(step), loss, int(workers)) for step, loss, workers in LINE.findall(output)]


def run(launcher: Sequence[str], name: str, folder: Path) -> Run:
    saved = folder / "model.pt"
    done = subprocess.run(
        [sys.executable, *launcher, *words(name, saved)],
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return Run(printed(done.stdout), torch.load(saved), saved.read_bytes())


def resized(name: str, folder: Path, sizes: Sequence[int]) -> Run:
    """Start under the controller; ask for each size once a line of the one before was printed."""
    saved, socket, log = folder / "model.pt", folder / "socket", folder / "log"
    controller = [
        sys.executable,
        "-m",
        "fallow.controller",
        "--min",
        "1",
        "--max",
        "4",
        "--socket",
        str(socket),
    ]
    with log.open("w") as output:
        process = subprocess.Popen(
            [*controller, "--", *words(name, saved), "--pause", "0.08"],
            env=ENVIRONMENT,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        try:
            asked, deadline_s = [1], time.monotonic() + DEADLINE_S
            while process.poll() is None:
                assert time.monotonic() < deadline_s, log.read_text()
                waiting = list(sizes)[len(asked) - 1 :]
                if waiting and any(workers == asked[-1] for _, _, workers in printed(log.read_text())):
                    ask(socket, ["resize", str(waiting[0])])
                    asked.append(waiting[0])
                time.sleep(0.02)
        finally:
            process.kill()
            process.wait()
    assert process.returncode == 0, log.read_text()
    return Run(printed(log.read_text()), torch.load(saved), saved.read_bytes())


def words(name: str, saved: Path) -> list[str]:
    return [str(ROOT / "examples" / name), *EXAMPLES[name], "--deterministic", "--save", str(saved)]


def assert_same_training(one: Run, other: Run) -> None:
    assert one.losses == other.losses
    assert one.model.keys() == other.model.keys()
    for key, value in one.model.items():
        assert torch.equal(value, other.model[key]), key
    assert one.file == other.file, "examples/README.md has people compare the files"


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name == "images.py" else pytest.mark.long) for name in EXAMPLES]
)
def test_an_example_learns_the_same_bits_alone_under_torchrun_and_resized_by_hand(
    name: str, tmp_path: Path
) -> None:
    if name == "accelerated.py":
        pytest.importorskip("accelerate", reason="accelerate is not installed: pip install .[test]")
    folders = [tmp_path / part for part in ("alone", "torchrun", "resized")]
    for folder in folders:
        folder.mkdir()
    alone = run([], name, folders[0])
    assert float(alone.lines[-1][1]) < 0.7 * float(alone.lines[0][1]), "it learns something"

    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    launched = run(launcher, name, folders[1])
    assert {workers for _, _, workers in launched.lines} == {2}
    assert_same_training(launched, alone)

    driven = resized(name, folders[2], sizes=[3, 2])
    assert [workers for _, _, workers in driven.lines] != sorted(workers for _, _, workers in driven.lines)
    assert {workers for _, _, workers in driven.lines} >= {1, 2, 3}
    assert_same_training(driven, alone)


def test_every_example_says_how_it_is_started() -> None:
    found = {path.name for path in (ROOT / "examples").glob("*.py")}
    assert found == set(EXAMPLES), "every example is tried here"
    for name in found:
        help_ = subprocess.run(
            [sys.executable, str(ROOT / "examples" / name), "--help"],
            env=ENVIRONMENT,
            capture_output=True,
            text=True,
            check=True,
        )
        assert f"python -m fallow.controller --min 1 --max 4 -- examples/{name}" in help_.stdout
        assert f"examples/{name}" in (ROOT / "examples" / "README.md").read_text()

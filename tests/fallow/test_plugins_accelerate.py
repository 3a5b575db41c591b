"""A training with Accelerate, alone or resized or hurt, learns what a plain loop learns."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="torch is not installed; pip install -c constraints.txt torch")
pytest.importorskip(
    "accelerate", reason="accelerate is not installed: pip install -c constraints.txt .[test]"
)

from tests.fallow.driven import ROOT, Kill, Resize, drive
from tests.fallow.plugged import assert_equals_plain_loop, lines_of

SCRIPT = str(Path(__file__).with_name("accelerate_train.py"))


def started(words: list[str], out: Path, **variables: str) -> None:
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "OUT": str(out),
        "OMP_NUM_THREADS": "1",
        **variables,
    }
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=90, check=False)
    assert done.returncode == 0, done.stderr


def test_alone_it_equals_the_plain_loop(tmp_path: Path) -> None:
    started([sys.executable, SCRIPT], tmp_path / "out", EPOCHS="3")
    assert_equals_plain_loop(tmp_path / "out", epochs=3)


def test_under_torchrun_it_equals_the_plain_loop(tmp_path: Path) -> None:
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=3", SCRIPT]
    started(torchrun, tmp_path / "out", EPOCHS="3")
    assert_equals_plain_loop(tmp_path / "out", epochs=3)
    assert {line["world_size"] for line in lines_of(tmp_path / "out")} == {3}


def test_resized_it_equals_the_plain_loop(tmp_path: Path) -> None:
    out = tmp_path / "out"
    resizes = [Resize(10, 3), Resize(40, 2), Resize(70, 4), Resize(100, 1)]
    driven = drive(
        [SCRIPT], resizes, lambda: len(lines_of(out)), preload=["accelerate"], variables={"OUT": str(out)}
    )
    assert driven.exit_code == 0, driven.journal
    assert driven.world_sizes >= {1, 2, 3, 4}
    assert_equals_plain_loop(out)


def test_with_workers_killed_it_equals_the_plain_loop(tmp_path: Path) -> None:
    out = tmp_path / "out"
    events = [Kill(10, 1), Resize(30, 3), Kill(50, 0), Kill(80, 2), Resize(100, 2)]
    driven = drive(
        [SCRIPT],
        events,
        lambda: len(lines_of(out)),
        workers=2,
        preload=["accelerate"],
        variables={"OUT": str(out)},
    )
    assert driven.exit_code == 0, driven.journal
    assert_equals_plain_loop(out)

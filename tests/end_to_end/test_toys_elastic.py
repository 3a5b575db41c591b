"""The elastic toy really trains: moved between toy GPUs, it computes what a fixed run does, to the bit."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from examples.toys.board import CONTEXT_BYTES, GIB, Board
from tests.driver.driver import Driver
from tests.end_to_end.conftest import ROOT, Start, until

STEPS = 60


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.is_file() else []


def words(losses: Path, pause_s: float) -> tuple[str, ...]:
    options = ("--steps", str(STEPS), "--pause", str(pause_s), "--losses", str(losses))
    return "-m", "examples.toys.elastic", *options


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="PyTorch (torch) is not installed")
def test_losses_of_a_training_that_grew_are_those_of_a_fixed_one(
    board: Board, machine: Driver, start: Start, tmp_path: Path
) -> None:
    fixed, grown, socket = tmp_path / "fixed", tmp_path / "grown", tmp_path / "socket"
    first, second = machine.gpu(0).uuid, machine.gpu(1).uuid
    alone = start(*words(fixed, 0), gpus=second)
    assert alone.wait(timeout=120) == 0, alone.communicate()
    options = ("--max", "2", "--socket", str(socket), "--devices", first)
    training = start("-m", "fallow.controller", *options, "--", *words(grown, 0.1), gpus=first)
    until("it trains on one", lambda: len(read(grown)) > 3, 120)
    asked = ("-m", "fallow.controller", "--socket", str(socket), "devices", f"{first},{second}")
    subprocess.run([sys.executable, *asked], cwd=ROOT, check=True, capture_output=True, timeout=60)
    until("it trains on two", lambda: read(grown)[-1]["world"] == 2, 60)
    holders = [board.holders()[uuid] for uuid in (first, second)]
    assert [list(held.values()) for held in holders] == [[20 * GIB + CONTEXT_BYTES]] * 2
    assert training.wait(timeout=120) == 0, training.communicate()
    assert [row["loss"] for row in read(grown)] == [row["loss"] for row in read(fixed)]
    assert {row["world"] for row in read(grown)} == {1, 2}

"""A machine with toy GPUs, without a service for the toys themselves, with one for the stories."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from examples.toys.board import Board, board_of, make_board
from tests.driver.driver import CompilerMissing, Driver, build

ROOT = Path(__file__).parents[2]
Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture(scope="session")
def compiled() -> None:
    """The stand-in driver's library, or a skip that names what is missing."""
    try:
        build()
    except CompilerMissing as missing:
        pytest.skip(str(missing))


@pytest.fixture
def machine(compiled: None, tmp_path: Path) -> Iterator[Driver]:
    """Two toy GPUs of 80 GiB."""
    with Driver(tmp_path, gpus=2) as driver:
        gpus = [driver.gpu(slot) for slot in range(2)]
        for gpu in gpus:
            gpu.auto_process_samples = 1
        make_board(driver.path, [(g.uuid, g.memory_total, g.memory_reserved) for g in gpus])
        yield driver


@pytest.fixture
def board(machine: Driver) -> Board:
    """What the driver has on them."""
    return Board(board_of(machine.path))


@pytest.fixture
def start(machine: Driver) -> Iterator[Start]:
    """Start Python on them: ``start("-m", "examples.toys.jax_like", gpus="0", NAME="value")``."""
    begun: list[subprocess.Popen[str]] = []

    def begin(*words: str, gpus: str = "0", **more: str) -> "subprocess.Popen[str]":
        inherited = {k: v for k, v in os.environ.items() if not k.startswith(("TF_", "XLA_"))}
        process = subprocess.Popen(
            [sys.executable, *words],
            cwd=ROOT,
            env=machine.environment({**inherited, "CUDA_VISIBLE_DEVICES": gpus, **more}),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        begun.append(process)
        return process

    yield begin
    for process in begun:
        process.kill()
        process.communicate()


def until(what: str, holds: Callable[[], Any], limit_s: float = 30) -> Any:
    """Wait for something that comes by itself; what it was."""
    ends_s = time.monotonic() + limit_s
    while not (found := holds()):
        assert time.monotonic() < ends_s, f"not within {limit_s:g} s: {what}"
        time.sleep(0.02)
    return found

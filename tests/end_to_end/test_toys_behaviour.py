"""Each toy behaves as the framework it is named after, by what the driver has of it."""

import json
import signal
import subprocess
from pathlib import Path

import pytest

from examples.toys.board import CONTEXT_BYTES, GIB, Board
from fallow.control_server import ask
from tests.driver.driver import Driver
from tests.end_to_end.conftest import Start, until

WHOLE = 80 * GIB - GIB // 2
STOPPED = 75


def held(board: Board, machine: Driver, process: "subprocess.Popen[str]", slot: int = 0) -> int:
    """What the process has on a GPU once it trains."""
    assert process.stdout is not None
    until("the toy trains", lambda: "works on" in process.stdout.readline())  # type: ignore[union-attr]
    return board.holders()[machine.gpu(slot).uuid][process.pid]


def toy(name: str, *words: str) -> tuple[str, ...]:
    return "-m", f"examples.toys.{name}", "--steps", "100000", *words


@pytest.mark.parametrize(
    ("name", "settings", "takes"),
    [
        ("tensorflow_like", {}, WHOLE - GIB // 4),
        ("tensorflow_like", {"TF_FORCE_GPU_ALLOW_GROWTH": "true"}, 12 * GIB + CONTEXT_BYTES),
        ("jax_like", {}, WHOLE * 3 // 4 + CONTEXT_BYTES),
        ("jax_like", {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}, 12 * GIB + CONTEXT_BYTES),
        ("jax_like", {"XLA_PYTHON_CLIENT_MEM_FRACTION": "0.5"}, WHOLE // 2 + CONTEXT_BYTES),
        ("unfilled", {}, 12 * GIB + CONTEXT_BYTES),
    ],
)
def test_toy_takes_memory_as_its_framework_does(
    board: Board, machine: Driver, start: Start, *, name: str, settings: dict[str, str], takes: int
) -> None:
    process = start(*toy(name, "--needs", "12"), **settings)
    assert held(board, machine, process) == takes


def test_beside_a_tensorflow_that_may_not_grow_nobody_fits(
    board: Board, machine: Driver, start: Start
) -> None:
    held(board, machine, start(*toy("tensorflow_like", "--needs", "12")))
    second = start(*toy("unfilled", "--needs", "10"))
    text, _ = second.communicate(timeout=30)
    assert second.returncode == 1
    assert "CUDA out of memory. Tried to allocate 10.00 GiB" in text


def test_toy_uses_the_gpus_that_it_was_given(board: Board, machine: Driver, start: Start) -> None:
    process = start(*toy("unfilled", "--needs", "5"), gpus=machine.gpu(1).uuid)
    assert held(board, machine, process, slot=1) == 5 * GIB + CONTEXT_BYTES
    assert board.holders()[machine.gpu(0).uuid] == {}


def test_training_saves_on_usr1_and_goes_on_from_there(
    board: Board, machine: Driver, start: Start, tmp_path: Path
) -> None:
    words = toy("unfilled", "--checkpoint", str(tmp_path / "step"), "--step-s", "0.01")
    first = start(*words)
    held(board, machine, first)
    first.send_signal(signal.SIGUSR1)
    assert first.wait(timeout=30) == STOPPED
    saved = json.loads((tmp_path / "step").read_text())["step"]
    assert saved >= 1
    second = start(*words)
    assert second.stdout is not None
    lines = [second.stdout.readline(), second.stdout.readline()]
    assert f"from step {saved}" in lines[1]


def test_notebook_works_after_a_line_and_keeps_its_memory_between(
    board: Board, machine: Driver, start: Start, tmp_path: Path
) -> None:
    process = start("-m", "examples.toys.notebook", "--checkpoint", str(tmp_path / "n"), "--burst-s", "0.1")
    assert process.stdin is not None and process.stdout is not None
    uuid, stdout = machine.gpu(0).uuid, process.stdout

    def say(line: str) -> None:
        until(line, lambda: line in stdout.readline())

    say("cell 1 done")
    assert board.holders()[uuid] == {process.pid: 8 * GIB + CONTEXT_BYTES}
    process.stdin.write("x = 1\n")
    process.stdin.flush()
    say("cell 2 done")
    process.send_signal(signal.SIGUSR1)
    assert process.wait(timeout=30) == STOPPED
    assert json.loads((tmp_path / "n").read_text()) == {"cells": 2}
    assert board.holders()[uuid] == {}


def test_torch_keeps_its_peak_cached_until_it_is_asked_back(
    board: Board, machine: Driver, start: Start, tmp_path: Path
) -> None:
    socket = tmp_path / "socket"
    process = start(*toy("torch_like", "--needs", "8", "--peak", "50"), FALLOW_JOB_SOCKET=str(socket))
    assert held(board, machine, process) == 50 * GIB + CONTEXT_BYTES
    told = json.loads(ask(socket, ("release-caches",)))
    assert told["freed_bytes"] == 42 * GIB
    assert board.holders()[machine.gpu(0).uuid][process.pid] == 8 * GIB + CONTEXT_BYTES
    assert json.loads(ask(socket, ("status",)))["held"] == 8 * GIB + CONTEXT_BYTES


def test_toy_on_no_gpu_says_so(start: Start) -> None:
    process = start(*toy("unfilled"), gpus="")
    text, _ = process.communicate(timeout=30)
    assert (process.returncode, text) == (1, "no GPU: CUDA_VISIBLE_DEVICES is ''\n")

"""A job that isn't elastic, asked from outside for memory that it caches; a share of memory that is kept."""

import json
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed; pip install -c constraints.txt torch")

from fallow.control_server import ask  # noqa: E402
from fallow.requests.memory import keep_to_share  # noqa: E402

ROOT = Path(__file__).parents[2]
DEADLINE_S = 60
LISTENER = """
import os, sys, time, torch, fallow
print("LISTENS", fallow.listen(), flush=True)
again = os.fork()
if again == 0:
    print("CHILD LISTENS", fallow.listen(), flush=True)
    sys.exit()
os.waitpid(again, 0)
print("READY", torch.cuda.is_initialized(), flush=True)
model = torch.nn.Linear(2, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
until = time.monotonic() + 120
while time.monotonic() < until and not os.path.exists("enough"):
    model(torch.ones(1, 2)).sum().backward()
    optimizer.step()
"""


@contextmanager
def listener(folder: Path, **variables: str) -> Iterator["subprocess.Popen[str]"]:
    """A plain training under a launcher that chose a socket, once it is ready."""
    (folder / "train.py").write_text(LISTENER)
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **variables}
    process = subprocess.Popen(
        [sys.executable, "train.py"], cwd=folder, env=environment, stdout=subprocess.PIPE, text=True
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def said(process: "subprocess.Popen[str]") -> list[str]:
    """What it says until it trains."""
    assert process.stdout is not None
    lines = []
    for line in process.stdout:
        lines.append(line.strip())
        if line.startswith("READY"):
            break
    return lines


def test_a_plain_training_gives_caches_back_when_asked_and_trains_on(tmp_path: Path) -> None:
    path = tmp_path / "job-0"
    with listener(tmp_path, FALLOW_JOB_SOCKET=str(path), FALLOW_MEMORY_FRACTION="0.25") as process:
        assert said(process) == ["LISTENS True", "CHILD LISTENS False", "READY False"]
        freed = json.loads(ask(path, ["release-caches"]))
        assert freed == {"before_bytes": None, "after_bytes": None, "freed_bytes": 0}
        told = json.loads(ask(path, ["status"]))
        assert told == {"pid": process.pid, "step": told["step"], "held": None, "needed": None}
        assert "release-caches or status" in json.loads(ask(path, ["stop"]))["error"]
        assert path.stat().st_mode & 0o777 == 0o600, "its user alone can ask"
        (tmp_path / "enough").touch()
        assert process.wait(DEADLINE_S) == 0
        assert not path.exists()


def test_a_plain_training_says_how_many_steps_its_optimizer_has_made(tmp_path: Path) -> None:
    path = tmp_path / "job-0"
    with listener(tmp_path, FALLOW_JOB_SOCKET=str(path)) as process:
        said(process)
        until_s = time.monotonic() + DEADLINE_S
        while (first := json.loads(ask(path, ["status"]))["step"]) is None:
            assert time.monotonic() < until_s
        while json.loads(ask(path, ["status"]))["step"] <= first:
            assert time.monotonic() < until_s


def test_a_relaunched_training_takes_the_socket_of_one_that_was_killed(tmp_path: Path) -> None:
    path = tmp_path / "job-0"
    with listener(tmp_path, FALLOW_JOB_SOCKET=str(path)) as first:
        said(first)
        first.send_signal(signal.SIGKILL)
        first.wait(DEADLINE_S)
        assert path.exists()
        with listener(tmp_path, FALLOW_JOB_SOCKET=str(path)) as second:
            assert said(second)[0] == "LISTENS True"
            assert json.loads(ask(path, ["status"]))["pid"] == second.pid


@pytest.mark.parametrize(  # each imports torch; what keeps it from listening is caught at one place
    "path",
    [
        "/nonexistent/job-0",
        pytest.param("", marks=pytest.mark.long),
        pytest.param("x" * 200, marks=pytest.mark.long),
    ],
)
def test_who_cannot_listen_trains_all_the_same(path: str, tmp_path: Path) -> None:
    with listener(tmp_path, FALLOW_JOB_SOCKET=path) as process:
        assert said(process)[0] == "LISTENS False"
        (tmp_path / "enough").touch()
        assert process.wait(DEADLINE_S) == 0


def test_a_client_that_says_nothing_keeps_nobody_else_waiting_for_long(tmp_path: Path) -> None:
    import socket

    path = tmp_path / "job-0"
    with (
        listener(tmp_path, FALLOW_JOB_SOCKET=str(path)) as process,
        socket.socket(socket.AF_UNIX) as silent,
    ):
        said(process)
        silent.connect(str(path))
        assert json.loads(ask(path, ["status"]))["pid"] == process.pid
        with socket.socket(socket.AF_UNIX) as flood:
            flood.settimeout(DEADLINE_S)
            flood.connect(str(path))
            with suppress(BrokenPipeError, ConnectionResetError):
                flood.sendall(b"x" * 10_000_000)
        assert json.loads(ask(path, ["status"]))["pid"] == process.pid


@pytest.mark.parametrize("told", ["", "half", "0", "-1", "1.5", "nan", "inf"])
def test_what_is_no_fraction_is_said_and_ends_nothing(told: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, logger="fallow"):
        assert keep_to_share({"FALLOW_MEMORY_FRACTION": told}) is None
    assert "is no fraction" in caplog.text


def test_a_share_of_memory_is_kept_without_touching_the_gpu_before_the_script_does() -> None:
    assert keep_to_share({}) is None
    assert keep_to_share({"FALLOW_MEMORY_FRACTION": "0.5"}) == 0.5
    assert not torch.cuda.is_initialized()

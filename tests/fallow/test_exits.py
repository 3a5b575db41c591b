"""A worker ends with the exit code that it meant, whatever its threads are waiting for just then."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed; pip install -c constraints.txt torch")

from fallow.nursery import Nursery  # noqa: E402

ROOT = Path(__file__).parents[2]
DEADLINE_S = 60
STORE = """
import datetime, signal
import torch.distributed as dist
store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
print(store.port, flush=True)
signal.pause()
"""
WORKER = """
import atexit, sys, time
import torch
from fallow.channel import Channel

atexit.register(print, "ending", flush=True)  # runs last, when the channel has closed
channel = Channel(sys.argv[1], "w0", torch.device("cpu"))
print("open", flush=True)
sys.stdin.readline()
time.sleep(0.6)
sys.exit(7)
"""


@contextmanager
def started(program: str, *arguments: str) -> "Iterator[subprocess.Popen[str]]":
    process = subprocess.Popen(
        [sys.executable, "-c", program, *arguments],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def line(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


@pytest.mark.parametrize("frozen", [True, False])
def test_a_worker_whose_store_dies_while_it_ends_is_not_aborted(frozen: bool) -> None:
    """Its thread waits for the store in C++, and would come back from there while Python is taken down."""
    with started(STORE) as store, started(WORKER, f"127.0.0.1:{line(store)}") as worker:
        assert line(worker) == "open"
        if frozen:
            store.send_signal(signal.SIGSTOP)
        assert worker.stdin is not None
        worker.stdin.write("go\n")
        worker.stdin.flush()
        assert line(worker) == "ending"
        store.kill()
        _, said = worker.communicate(timeout=DEADLINE_S)
        assert "terminate called" not in said
        assert worker.returncode == 7, said


def test_who_is_killed_before_it_is_born_does_not_live(tmp_path: Path) -> None:
    """An order that is overtaken at once ends workers that were only just asked for."""
    script = tmp_path / "sleeps.py"
    script.write_text("import time\ntime.sleep(1000)\n")
    nursery = Nursery([str(script)], warm=False)
    try:
        child = nursery.spawn({})
        child.kill()
        assert child.wait(DEADLINE_S) == -signal.SIGKILL
    finally:
        nursery.close()

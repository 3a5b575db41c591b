"""An MPS daemon of this run's own, in its own folder, ended by ``quit``. A dry run starts none."""

import contextlib
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tests.gpu import place

CONTROL = "nvidia-cuda-mps-control"
APART = {"CUDA_MPS_PIPE_DIRECTORY": "/dev/null"}
"""No client of any daemon: time slices."""
START_S = 30
QUIT_S = 3
"""A step that is cut has five seconds between its pipe and SIGTERM; the rest of them is for ``_sweep``."""
COMM_CHARACTERS = 15
"""So many of a program's name the kernel keeps: those of the daemon and of its servers are the same then."""
ENDS_S = 1.0


@contextlib.contextmanager
def daemon() -> Iterator[dict[str, str]]:
    """The environment of its clients. No process of the daemon's is left afterwards, however it went."""
    with tempfile.TemporaryDirectory(prefix="mps") as folder:
        variables = {"CUDA_MPS_PIPE_DIRECTORY": folder, "CUDA_MPS_LOG_DIRECTORY": folder}
        if place.dry:
            yield variables
            return
        environment = {**os.environ, **variables}
        try:
            _tell(["-d"], environment, START_S).check_returncode()
            yield variables
        finally:
            with contextlib.suppress(subprocess.TimeoutExpired, OSError):
                _tell([], environment, QUIT_S, "quit\n")
            _sweep(folder)


def _tell(
    words: list[str], environment: dict[str, str], timeout_s: float, text: str = ""
) -> "subprocess.CompletedProcess[str]":
    """Output goes nowhere: the daemon would hold a pipe open that we wait for."""
    return subprocess.run(
        [CONTROL, *words],
        input=text,
        env=environment,
        text=True,
        check=False,
        timeout=timeout_s,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def _sweep(folder: str) -> None:
    """End what did not quit: processes of MPS whose own folder is this one, and no others."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        until_s = time.monotonic() + ENDS_S
        for pid in (left := _left(folder)):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
        while left and time.monotonic() < until_s:
            time.sleep(0.05)
            left = _left(folder)
        if not left:
            return


def _left(folder: str) -> list[int]:
    """MPS's processes that were started for this folder."""
    wanted, found = f"CUDA_MPS_PIPE_DIRECTORY={folder}".encode(), []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal():
            continue
        with contextlib.suppress(OSError):  # it has ended, or is another account's
            is_mps = (entry / "comm").read_text().strip() == CONTROL[:COMM_CHARACTERS]
            if is_mps and wanted in (entry / "environ").read_bytes().split(b"\0"):
                found.append(int(entry.name))
    return found

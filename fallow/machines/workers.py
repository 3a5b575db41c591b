"""How a controller sees the worker processes it asked for: start one, ask after it, end it.

``Nursery`` is the way that people use; ``command`` starts plain processes, and tests bring their own.
"""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from fallow.secret import to_inherit


class Handle(Protocol):
    """A worker that was started: the part of ``subprocess.Popen`` that is needed.

    One that has a ``reason`` besides can say which exception ended it.
    """

    def poll(self) -> int | None:
        """The exit code, or ``None`` while it runs."""
        ...

    def terminate(self) -> None:
        """Ask it to end."""
        ...

    def kill(self) -> None:
        """End it at once."""
        ...

    def wait(self, timeout: float | None = None) -> int:
        """Block until it has ended. Raises subprocess.TimeoutExpired."""
        ...


Spawn = Callable[[Mapping[str, str]], Handle]
"""Starts one worker with these variables added to its environment, and with the job's secret to inherit."""


def command(words: Sequence[str], environment: Mapping[str, str] | None = None) -> Spawn:
    """Workers that run ``python WORDS`` as processes of their own."""

    def spawn(variables: Mapping[str, str]) -> Handle:
        quiet = {"TORCH_CPP_LOG_LEVEL": "ERROR"}  # a wait in slices logs a warning a slice
        return subprocess.Popen(
            [sys.executable, *words],
            env={**os.environ, **quiet, **(environment or {}), **variables},
            pass_fds=to_inherit(variables),
        )

    return spawn


def as_torchrun(host: str, port: int, rank: int, world_size: int) -> dict[str, str]:
    """The variables that torchrun sets, as they stand when the worker starts; a resize doesn't reach them."""
    return {
        "RANK": str(rank),
        "WORLD_SIZE": str(world_size),
        "LOCAL_RANK": str(rank),
        "LOCAL_WORLD_SIZE": str(world_size),
        "GROUP_RANK": "0",
        "MASTER_ADDR": host,
        "MASTER_PORT": str(port),
        "TORCHELASTIC_USE_AGENT_STORE": "True",
        "TORCHELASTIC_RUN_ID": "fallow",
    }


def reason(worker: Handle) -> str | None:
    """The exception that ended a worker, as one line, where its handle knows."""
    told = getattr(worker, "reason", None)
    return told if isinstance(told, str) else None


def stop(workers: Sequence[Handle], patience_s: float = 5.0) -> None:
    """End all: asked first, killed when they don't go within ``patience_s``. Blocks until all have ended."""
    for worker in workers:
        worker.terminate()
    deadline = time.monotonic() + patience_s
    for worker in workers:
        try:
            worker.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            worker.kill()
            worker.wait(5.0)


def threads(environment: Mapping[str, str], maximum: int) -> dict[str, str]:
    """One compute thread a worker, as torchrun sets it, unless the user chose: many share the machine."""
    return {} if "OMP_NUM_THREADS" in environment or maximum == 1 else {"OMP_NUM_THREADS": "1"}

"""A training script under the real controller, as processes, resized and hurt when it has come so far."""

import os
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from fallow.controller.controller import Controller
from fallow.controller.membership import Limits
from fallow.workers.pool import WorkerPool

ROOT = Path(__file__).parents[2]
DEADLINE_S = 240


@dataclass(frozen=True)
class Resize:
    """Once step ``at`` is done by the workers asked for before, ask for ``workers``."""

    at: int
    workers: int


@dataclass(frozen=True)
class Kill:
    """Once step ``at`` is done, kill -9 the member of rank ``rank``."""

    at: int
    rank: int


@dataclass(frozen=True)
class Stop:
    """Once step ``at`` is done, ask the whole training to stop, saved."""

    at: int


@dataclass(frozen=True)
class Driven:
    """What became of it."""

    exit_code: int
    journal: tuple[str, ...]
    world_sizes: frozenset[int]


def drive(
    words: Sequence[str],
    events: Sequence[Resize | Kill | Stop],
    done: Callable[[], int],
    *,
    workers: int = 1,
    preload: Sequence[str] = (),
    variables: Mapping[str, str] | None = None,
) -> Driven:
    """Run ``words`` from ``workers`` on, through all ``events``, to its end; never longer than DEADLINE_S.

    ``done`` counts the steps that were taken so far.
    """
    environment = {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", **(variables or {})}
    nursery = WorkerPool(list(words), environment, preload=preload)
    controller = Controller(
        nursery.spawn, workers=workers, maximum=4, limits=Limits(start_ms=90_000, connect_ms=20_000)
    )
    left, sizes = list(events), set()
    deadline_s = time.monotonic() + DEADLINE_S

    def poll(_: Controller) -> None:
        assert time.monotonic() < deadline_s, controller.journal
        view = controller.view
        if not view.generation or view.pending is not None or len(view.members) != view.target:
            return
        sizes.add(len(view.members))
        if not left or done() < left[0].at:
            return
        match left.pop(0):
            case Resize(workers=asked):
                controller.resize(asked)
            case Kill(rank=rank):
                controller.processes[view.members[rank]].kill()
            case Stop():
                controller.ask_to_stop("enough for now")

    try:
        code = controller.run(poll)
    finally:
        nursery.close()
    assert not left, f"{left} did not come about: the training was over before; {controller.journal}"
    return Driven(code, tuple(controller.journal), frozenset(sizes))


def started(words: Sequence[str], out: Path, **variables: str) -> None:
    """Run ``words`` with nobody driving them, to their end; raises AssertionError when they fail."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "OUT": str(out),
        "OMP_NUM_THREADS": "1",
        **variables,
    }
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=250, check=False)
    assert done.returncode == 0, done.stderr

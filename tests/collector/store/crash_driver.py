"""Does store work in processes that are killed with SIGKILL at a chosen point, for ``test_store_crashes``.

Run as a program it reads ``FOLDER SCENARIO POINT`` a line and forks a child for each. The child kills itself
before, or after, a line of the store that reaches the disk (a statement, a rename, a removal, a sync): these
points are numbered from 1 as they are passed, and POINT 0 lets it finish. It answers ``PID``, then ``STATUS
POINTS``.
"""

import linecache
import os
import re
import signal
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any

import pandas as _of_arrow  # noqa: F401  (loaded once, before the forks: pyarrow looks for it at its first array)
import pyarrow.parquet  # noqa: F401

from collector.arrow import HeldInterval
from collector.model import (
    Process,
    ProcessKey,
    ProcessSample,
)
from collector.reading import Reading, Tick
from collector.store import database
from collector.store.database import Store, open_store
from collector.store.retention import Retention
from tests.collector.store.store_parts import T0, TICK_MS, at_path, empty, gpu, held, history, sample

DAY_MS = 86_400_000
D0 = T0 // DAY_MS * DAY_MS
OURS = str(Path(database.__file__).parent) + os.sep
REACHES_THE_DISK = re.compile(r"execute\(|\.sql\(|write_batch|\.replace\(|rename\(|unlink|fsync|rmdir|mkdir")


def full_tick(n: int) -> Tick:
    """The n-th tick after T0, with something for every table."""
    at = T0 + n * TICK_MS
    key = ProcessKey(node=gpu(0).node, pid=100 + n // 4, started_ms=T0)
    reading = Reading(
        source="test",
        at_ms=at,
        gpus=(gpu(0, driver_version=f"57{n // 5}"), gpu(1)),
        samples=(sample(0, at, (n % 10) / 10, energy_mj=n * 3_000_000), empty(1, at)),
        processes=(Process(key=key, user="u", frameworks=("torch",)),),
        process_samples=(ProcessSample(uuid=gpu(0).uuid, key=key, at_ms=at, width_ms=TICK_MS, sm_ratio=0.5),),
    )
    claims = (held(0, "a" if n < 7 else "b"), *([held(1, "c")] if n % 3 == 0 else []))
    return Tick(at_ms=at, width_ms=TICK_MS, outcomes=(reading,), allocations=claims)


def past(days: int = 3) -> Any:
    """Coarse history of whole days from D0 on."""
    step = 1_200_000
    ends = range(D0 + step, D0 + days * DAY_MS + 1, step)
    rows = [sample(n % 2, at, (at // step % 97) / 97, width_ms=step) for at in ends for n in (0, 1)]
    return history(rows, [HeldInterval(allocation=held(0, "a"), from_ms=D0, to_ms=D0 + DAY_MS)])


def begin_ticks(store: Store) -> None:
    for n in range(1, 12):
        store.write_tick(full_tick(n))


def forget_days(store: Store) -> None:
    """Three days of the past, left as a Fallow that knew no days rolled up would."""
    store.write_history(past())
    with store.writing("forgetting the days") as connection:
        connection.execute("DELETE FROM rollup_1d")
        connection.execute("DELETE FROM watermarks WHERE name = 'rollup_1d'")


def late_tick() -> Tick:
    """A tick after the past, with a sample for a day that is rolled up."""
    at = D0 + 3 * DAY_MS + TICK_MS
    reading = Reading(
        source="test",
        at_ms=at,
        gpus=(gpu(0), gpu(1)),
        samples=(sample(0, D0 + DAY_MS + 700_000, 0.9), sample(1, at)),
    )
    return Tick(at_ms=at, width_ms=TICK_MS, outcomes=(reading,))


SCENARIOS: dict[str, tuple[Callable[[Store], Any], Callable[[Store], Any]]] = {
    "tick": (begin_ticks, lambda store: store.write_tick(full_tick(12))),
    "history": (begin_ticks, lambda store: store.write_history(past())),
    "seal": (lambda store: store.write_history(past()), lambda store: store.seal_days(D0 + 2 * DAY_MS)),
    "retention": (
        lambda store: (store.write_history(past()), store.seal_days(D0 + 2 * DAY_MS)),
        lambda store: store.apply_retention(
            Retention(samples_days=1, minutes_days=2, hours_days=2), D0 + 3 * DAY_MS
        ),
    ),
    "late": (lambda store: store.write_history(past()), lambda store: store.write_tick(late_tick())),
    "days": (
        forget_days,
        lambda store: store.write_tick(replace(late_tick(), at_ms=D0 + 3 * DAY_MS + 120_000, outcomes=())),
    ),
    "checkpoint": (begin_ticks, lambda store: store.checkpoint()),
}


def prepare(folder: Path, scenario: str) -> None:
    with open_store(at_path(folder)) as store:
        SCENARIOS[scenario][0](store)


def endless(folder: Path) -> None:
    """Ticks until killed; each committed number is appended to the file ``committed`` after its commit."""
    with open_store(at_path(folder)) as store, (folder / "committed").open("a", buffering=1) as log:
        rows = store.reader().execute("SELECT count(*) FROM ticks").fetchone()
        n = rows[0] if rows else 0
        while True:
            n += 1
            store.write_tick(full_tick(n))
            log.write(f"{n}\n")


class Points:
    """Counts the moments just before and just after a line that reaches the disk; kills at the chosen one."""

    def __init__(self, chosen: int) -> None:
        self.passed = 0
        self._chosen = chosen
        self._after = False

    def trace(self, frame: FrameType, event: str, arg: Any) -> Any:
        """A trace function for ``sys.settrace``: our own files line by line, nothing else."""
        file = frame.f_code.co_filename
        if not file.startswith(OURS):
            return None
        if event in ("line", "return") and self._after:
            self._pass()
            self._after = False
        if event == "line" and REACHES_THE_DISK.search(linecache.getline(file, frame.f_lineno)):
            self._pass()
            self._after = True
        return self.trace

    def _pass(self) -> None:
        self.passed += 1
        if self.passed == self._chosen:
            os.kill(os.getpid(), signal.SIGKILL)


def run(folder: Path, scenario: str, point: int) -> int:
    """Do the scenario's work, killed at ``point``; the number of points passed when it was not."""
    points = Points(point)
    if scenario == "endless":
        endless(folder)
    if scenario == "open":
        sys.settrace(points.trace)
        open_store(at_path(folder))
        sys.settrace(None)
        return points.passed
    store = open_store(at_path(folder))
    sys.settrace(points.trace)
    SCENARIOS[scenario][1](store)
    sys.settrace(None)
    store.close()
    return points.passed


def main() -> None:
    for line in sys.stdin:
        folder, scenario, point = line.split()
        receive, send = os.pipe()
        child = os.fork()
        if child == 0:
            passed = run(Path(folder), scenario, int(point))
            os.write(send, str(passed).encode())
            os._exit(0)
        os.close(send)
        print(child, flush=True)
        _, status = os.waitpid(child, 0)
        print(status, os.read(receive, 32).decode() or "-", flush=True)
        os.close(receive)


if __name__ == "__main__":
    main()

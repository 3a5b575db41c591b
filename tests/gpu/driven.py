"""Trainings under a controller, as the steps of two workers drive them, and what their changes took."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from fallow.control_server import ask
from tests.gpu import place
from tests.gpu.answers import Figure, at_most, is_so, near, told

STEPS = 40 if place.dry else 300
MANY_STEPS = 10_000
"""More than any of the changes takes: such a training is ended, and does not end by itself."""
WAIT_S = 50.0
CONTROLLER = (sys.executable, "-m", "fallow.controller")
SCRIPT = place.ROOT / "tests" / "gpu" / "loads" / "elastic.py"


class Driven:
    """A training under the controller, watched by its log."""

    def __init__(
        self,
        folder: Path,
        *words: str,
        devices: str,
        environment: dict[str, str],
        steps: int = STEPS,
        cold: bool = False,
    ) -> None:
        self.log, self.socket = folder / "log", folder / "socket"
        asked = ["--workers", "1", "--max", "2", "--socket", str(self.socket)]
        asked += ["--cold"] if cold else []
        asked += ["--preload", "tests.fallow.pretend"] if place.dry else []
        self.process = subprocess.Popen(
            [*CONTROLLER, *asked, "--", str(SCRIPT), str(self.log), str(steps), *words],
            env={**os.environ, "CUDA_VISIBLE_DEVICES": devices, "OMP_NUM_THREADS": "1", **environment},
            stdin=subprocess.DEVNULL,
            cwd=place.ROOT,
        )

    def rows(self) -> list[dict[str, Any]]:
        """What the workers wrote so far."""
        text = self.log.read_text() if self.log.exists() else ""
        return [json.loads(line) for line in text.splitlines()]

    def resize(self, workers: int) -> None:
        """Ask the controller. Raises RuntimeError for what it refuses."""
        self._ask("resize", str(workers))

    def until(self, what: str, holds: Callable[[list[dict[str, Any]]], bool]) -> list[dict[str, Any]]:
        """Wait for the log to say so."""
        until_s = time.monotonic() + WAIT_S
        while not holds(rows := self.rows()):
            if self.process.poll() not in (None, 0) or time.monotonic() > until_s:
                raise RuntimeError(
                    f"{what}: the controller's status is {self.process.poll()}, {len(rows)} steps done"
                )
            if self.process.poll() == 0:
                raise RuntimeError(f"{what}: it came to its end before")
            time.sleep(0.05)
        return rows

    def grow(self) -> float:
        """To two workers; seconds from the order to the first step of two."""
        before, asked_s = len(self.rows()), time.monotonic()
        self.resize(2)
        rows = self.until("it grows", lambda rows: any(row["world"] == 2 for row in rows[before:]))
        return float(next(row["at_s"] for row in rows[before:] if row["world"] == 2)) - asked_s

    def join(self) -> float:
        """To two workers, and a step of theirs; ms from the new one's birth until it could join, to 10 ms."""
        before, until_s = set(self._status()["workers"]), time.monotonic() + WAIT_S
        steps = len(self.rows())
        self.resize(2)
        while not (ready := self._ready(before)):
            if time.monotonic() > until_s:
                raise RuntimeError(f"it grows: no worker could join within {WAIT_S:g} s")
            time.sleep(0.005)
        self.until("it grows", lambda rows: {row["world"] for row in rows[steps:][-2:]} == {2})
        return ready[0]

    def _ready(self, before: set[str]) -> list[float]:
        """The ages of who came since and is not starting any more."""
        status = self._status()
        new = [
            name for name, phase in status["workers"].items() if name not in before and phase != "starting"
        ]
        return [_age_ms(status["pids"][name]) for name in new]

    def _status(self) -> dict[str, Any]:
        return self._ask("status")

    def _ask(self, *words: str) -> dict[str, Any]:
        answer: dict[str, Any] = json.loads(ask(self.socket, words, WAIT_S))
        if "error" in answer:
            raise RuntimeError(f"{' '.join(words)}: {answer['error']}")
        return answer

    def kill(self, which: Callable[[set[int]], int]) -> float:
        """Kill one of the two; seconds until the other has done a step alone."""
        pids = {row["pid"] for row in self.rows()[-10:] if row["world"] == 2}
        os.kill(which(pids), signal.SIGKILL)
        killed_s = time.monotonic()

        def alone(rows: list[dict[str, Any]]) -> list[float]:
            return [row["at_s"] for row in rows if row["at_s"] > killed_s and row["world"] == 1]

        return alone(self.until("it goes on after a death", lambda rows: bool(alone(rows))))[0] - killed_s

    def shrink(self) -> float:
        """To one worker; seconds from the order to the first step of one."""
        before, asked_s = len(self.rows()), time.monotonic()
        self.resize(1)
        rows = self.until("it shrinks", lambda rows: any(row["world"] == 1 for row in rows[before:]))
        return float(next(row["at_s"] for row in rows[before:] if row["world"] == 1)) - asked_s

    def end(self) -> None:
        """SIGTERM, which the controller passes on."""
        self.process.terminate()
        self.process.wait(20)


def story(devices: str, environment: dict[str, str], *words: str) -> list[Figure]:
    """1 to 2 workers, one killed, then 1: the figures of it."""
    name = words[0] if words else "plain"
    with tempfile.TemporaryDirectory() as folder:
        training = Driven(Path(folder), *words, devices=devices, environment=environment)
        try:
            training.until("it begins", lambda rows: len(rows) >= 3)
            grown_s, pause_s = training.grow(), training.kill(max)
            training.process.wait(WAIT_S)
        finally:
            if training.process.poll() is None:
                training.end()
        rows, code = training.rows(), training.process.returncode
    losses = {row["step"]: row["loss"] for row in rows if row["loss"] is not None}
    steps = sorted({row["step"] for row in rows})
    return [
        is_so(f"{name}: the controller's status", code, 0),
        is_so(f"{name}: steps that were committed", len(steps), STEPS),
        told(f"{name}: from the order to the first step of two", grown_s, "s"),
        at_most(f"{name}: pause after kill -9", pause_s, 20.0, "s"),
        near(f"{name}: last loss over the first", losses[steps[-1]] / losses[steps[0]], 0.5, 0.5),
    ]


def changes(devices: str, environment: dict[str, str], mib: int = 0) -> list[Figure]:
    """Grown, with so much state, and shrunk; grown and each of the two killed in turn: what each took."""
    with tempfile.TemporaryDirectory() as folder:
        words = (f"state={mib}",) if mib else ()
        training = Driven(Path(folder), *words, devices=devices, environment=environment, steps=MANY_STEPS)
        try:
            training.until("it begins", lambda rows: len(rows) >= 3)
            ready_ms = training.join()
            rows = training.rows()
            shrunk_s = training.shrink()
            again_s = training.grow()
            younger_s = training.kill(max)
            training.grow()
            older_s = training.kill(min)
        finally:
            if training.process.poll() is None:
                training.end()
    return [
        *(handed_over(rows, mib) if mib else ()),
        told("a forked worker: from its birth until it could join", ready_ms, "ms"),
        told("from the order to the first step of one", shrunk_s, "s"),
        told("grown a second time: from the order to the first step of two", again_s, "s"),
        at_most("pause after kill -9 of the younger worker", younger_s, 20.0, "s"),
        at_most("pause after kill -9 of the older worker", older_s, 20.0, "s"),
    ]


def moved(devices: str, environment: dict[str, str], mib: int, *, cold: bool = False) -> list[Figure]:
    """One that grows and hands so much state over; ``cold``: to a worker that no other was the parent of."""
    with tempfile.TemporaryDirectory() as folder:
        training = Driven(
            Path(folder),
            f"state={mib}",
            devices=devices,
            environment=environment,
            steps=MANY_STEPS,
            cold=cold,
        )
        try:
            training.until("it begins", lambda rows: len(rows) >= 3)
            ready_ms = training.join()
            rows = training.rows()
        finally:
            if training.process.poll() is None:
                training.end()
    how = "an interpreter of its own" if cold else "a forked worker"
    born = told(f"{how}, {mib} MiB: from its birth until it could join", ready_ms, "ms")
    return [*handed_over(rows, mib), born]


def handed_over(rows: Sequence[Mapping[str, Any]], mib: int) -> list[Figure]:
    """The pause in which one of two workers was given so much state, the rate that it means, what came."""
    first = next(n for n, row in enumerate(rows) if row["world"] == 2)
    pause_s = rows[first]["at_s"] - rows[first - 1]["at_s"]
    name = f"{mib} MiB of state handed over"
    given = next(row["state"] for row in rows[first:] if row["pid"] != rows[0]["pid"] and "state" in row)
    return [
        told(f"{name}: between two steps", pause_s, "s"),
        told(f"{name}: at least", mib * 2**20 / 1e9 / pause_s, "GB/s"),
        is_so(f"{name}: least and most of its numbers", given, rows[0]["state"]),
    ]


def _age_ms(pid: int) -> float:
    """Since it was forked or started, to 10 ms: its start by the kernel's clock (proc_pid_stat(5))."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    born_s = int(fields[19]) / os.sysconf("SC_CLK_TCK")
    return (time.clock_gettime(time.CLOCK_BOOTTIME) - born_s) * 1000

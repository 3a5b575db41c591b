"""Trainings under a controller, as the steps of two workers drive them, and what their changes took.

What a training is seen to do is told at once, a figure after the other: what breaks it later loses none.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from fallow.control_server import ask
from fallow.controller.controller import STOP_PATIENCE_S
from tests.gpu import place
from tests.gpu.answers import Figure, at_most, is_so, near, told

STEPS = 40 if place.dry else 300
MANY_STEPS = 10_000
"""More than any of the changes takes: such a training is ended, and does not end by itself."""
WAIT_S = 50.0
END_S = STOP_PATIENCE_S + 15.0
"""The controller ends workers that come to no step's end in its patience, and they have some seconds then."""
AT_ONCE_S = 15.0
"""A controller that is asked a second time ends its workers at once."""
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

    def kill(self, *, younger: bool) -> tuple[float, str]:
        """Kill one of the two; seconds until the other has done a step alone, and which that is."""
        pair = pair_of(self._two())
        os.kill(pair["younger" if younger else "older"], signal.SIGKILL)
        killed_s = time.monotonic()

        def alone(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
            return [row for row in rows if row["at_s"] > killed_s and row["world"] == 1]

        first = alone(self.until("it goes on after a death", lambda rows: bool(alone(rows))))[0]
        goes_on = next((which for which, pid in pair.items() if pid == first["pid"]), "neither")
        return first["at_s"] - killed_s, goes_on

    def _two(self) -> dict[str, Any]:
        """The status of a training that has two workers."""
        until_s = time.monotonic() + WAIT_S
        while len((status := self._status())["members"]) != 2:
            if time.monotonic() > until_s:
                raise RuntimeError(f"a death: of two workers {status['members']} are there")
            time.sleep(0.05)
        return status

    def shrink(self) -> float:
        """To one worker; seconds from the order to the first step of one."""
        before, asked_s = len(self.rows()), time.monotonic()
        self.resize(1)
        rows = self.until("it shrinks", lambda rows: any(row["world"] == 1 for row in rows[before:]))
        return float(next(row["at_s"] for row in rows[before:] if row["world"] == 1)) - asked_s

    def end(self) -> bool:
        """SIGTERM, which the controller passes on; whether that sufficed. It has ended afterwards."""
        for asked, (ask_to_end, wait_s) in enumerate(
            (
                (self.process.terminate, END_S),
                (self.process.terminate, AT_ONCE_S),
                (self.process.kill, None),  # its workers end when they find it gone
            )
        ):
            ask_to_end()
            try:
                self.process.wait(wait_s)
            except subprocess.TimeoutExpired:
                continue
            return asked == 0
        return False


def pair_of(status: Mapping[str, Any]) -> dict[str, int]:
    """The pids of a training's two members: the log may name dead ones, and a pid says nothing of age."""
    older, younger = sorted(status["members"], key=lambda name: int(name.removeprefix("w")))
    return {"older": int(status["pids"][older]), "younger": int(status["pids"][younger])}


@contextlib.contextmanager
def begun(
    devices: str,
    environment: dict[str, str],
    *words: str,
    steps: int = STEPS,
    cold: bool = False,
) -> Iterator[Driven]:
    """A training that has done its first steps, and is ended with what is done within."""
    with tempfile.TemporaryDirectory() as folder:
        training = Driven(
            Path(folder), *words, devices=devices, environment=environment, steps=steps, cold=cold
        )
        try:
            training.until("it begins", lambda rows: len(rows) >= 3)
            yield training
        finally:
            if training.process.poll() is None and not training.end():
                print("the training did not end when it was asked to", file=sys.stderr, flush=True)


def story(devices: str, environment: dict[str, str], *words: str) -> Iterator[Figure]:
    """1 to 2 workers, one killed, then 1: the figures of it."""
    name = words[0] if words else "plain"
    with begun(devices, environment, *words) as training:
        yield told(f"{name}: from the order to the first step of two", training.grow(), "s")
        pause_s, _ = training.kill(younger=True)
        yield at_most(f"{name}: pause after kill -9", pause_s, 20.0, "s")
        training.process.wait(WAIT_S)
        rows, code = training.rows(), training.process.returncode
    losses = {row["step"]: row["loss"] for row in rows if row["loss"] is not None}
    steps = sorted({row["step"] for row in rows})
    yield is_so(f"{name}: the controller's status", code, 0)
    yield is_so(f"{name}: steps that were committed", len(steps), STEPS)
    yield near(f"{name}: last loss over the first", losses[steps[-1]] / losses[steps[0]], 0.5, 0.5)


def changes(devices: str, environment: dict[str, str], mib: int = 0) -> Iterator[Figure]:
    """Grown, with so much state, and shrunk; grown and each of the two killed in turn: what each took."""
    words = (f"state={mib}",) if mib else ()
    with begun(devices, environment, *words, steps=MANY_STEPS) as training:
        ready_ms = training.join()
        if mib:
            yield from handed_over(training.rows(), mib)
        yield told("a forked worker: from its birth until it could join", ready_ms, "ms")
        yield told("from the order to the first step of one", training.shrink(), "s")
        again_s = training.grow()
        yield told("grown a second time: from the order to the first step of two", again_s, "s")
        for which, other in (("younger", "older"), ("older", "younger")):
            pause_s, goes_on = training.kill(younger=which == "younger")
            yield at_most(f"pause after kill -9 of the {which} worker", pause_s, 20.0, "s")
            yield is_so(f"who goes on after the death of the {which} worker", goes_on, other)
            if which == "younger":
                training.grow()


def moved(devices: str, environment: dict[str, str], mib: int, *, cold: bool = False) -> Iterator[Figure]:
    """One that grows and hands so much state over; ``cold``: to a worker that no other was the parent of."""
    with begun(devices, environment, f"state={mib}", steps=MANY_STEPS, cold=cold) as training:
        ready_ms = training.join()
        yield from handed_over(training.rows(), mib)
    how = "an interpreter of its own" if cold else "a forked worker"
    yield told(f"{how}, {mib} MiB: from its birth until it could join", ready_ms, "ms")


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

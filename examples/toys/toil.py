"""What the toys that train have in common: their options, their steps, and the checkpoint they leave on USR1.

It hears its launcher where ``fallow.listen()`` would have it (FALLOW_JOB_SOCKET), with the library's own
socket, and says how many steps it has made.

A toy steps until it has done ``--steps``, keeping its GPUs ``--busy`` percent busy. Asked by SIGUSR1, it
writes how far it is and ends with code 75 (EX_TEMPFAIL, "try again later"); started again with the same
``--checkpoint``, it goes on from there.
"""

import argparse
import json
import os
import select
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from mmap import ACCESS_READ, mmap
from pathlib import Path
from types import FrameType

from examples.toys.board import Device, NoDevice, OutOfMemory, visible
from fallow.control_server import Answer, ControlSocket

STOPPED = 75
SOCKET_VARIABLE = "FALLOW_JOB_SOCKET"

Hear = Callable[[Sequence[str], int], Answer]
"""The answer to a launcher's words after so many steps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Toil:
    """What a toy was asked to be. ``needs_bytes`` on each GPU is what its tensors take at their peak.
    ``beside``: how many times as long a step takes while another process is on one of its GPUs.
    """

    name: str
    needs_bytes: int
    busy_percent: int
    steps: int
    step_s: float
    beside: float
    checkpoint: Path | None


def options(name: str, words: Sequence[str]) -> Toil:
    """Read a command line; ends the process on a wrong one."""
    parser = argparse.ArgumentParser(prog=name)
    parser.add_argument("--needs", type=float, default=8.0, help="GiB that its tensors take on each GPU")
    parser.add_argument("--busy", type=int, default=90, help="percent that it keeps each GPU busy")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--step-s", type=float, default=0.1, help="seconds a step")
    parser.add_argument(
        "--beside", type=float, default=1.0, help="steps take so many times as long beside others"
    )
    parser.add_argument("--checkpoint", type=Path, help="where it writes how far it is, on USR1")
    flags = parser.parse_args(words)
    return Toil(
        name=name,
        needs_bytes=int(flags.needs * (1 << 30)),
        busy_percent=flags.busy,
        steps=flags.steps,
        step_s=flags.step_s,
        beside=flags.beside,
        checkpoint=flags.checkpoint,
    )


def devices_or_end() -> tuple[Device, ...]:
    """The GPUs this toy was given; says so and ends it where there are none."""
    try:
        return visible()
    except NoDevice as missing:
        sys.exit(str(missing))


def take(device: Device, size: int, toil: Toil) -> None:
    """Take memory as a framework does: what is not there ends the program, in CUDA's words."""
    try:
        device.allocate(size)
    except OutOfMemory as refused:
        sys.exit(f"{toil.name}: {refused}")


def status(step: int) -> Answer:
    """How far it is."""
    return {"pid": os.getpid(), "step": step}


def how_far(words: Sequence[str], step: int) -> Answer:
    """What a toy answers that has nothing else to say."""
    return (
        status(step)
        if list(words) == ["status"]
        else {"error": f"unknown request {' '.join(words)!r}: status"}
    )


def work(toil: Toil, devices: Sequence[Device], hear: Hear = how_far) -> None:
    """Step to the end, or until somebody asks for a checkpoint; then the process ends with code 75."""
    asked: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        asked.append(number)

    if toil.checkpoint is not None:
        signal.signal(signal.SIGUSR1, note)
    step = _restored(toil)
    say(f"{toil.name}: process {os.getpid()} works on {len(devices)} GPU(s) from step {step}")
    for device in devices:
        device.busy(toil.busy_percent)
    if path := os.environ.get(SOCKET_VARIABLE):
        _listen(Path(path), lambda words: hear(words, step))
    while step < toil.steps:
        time.sleep(toil.step_s * (toil.beside if any(device.shared for device in devices) else 1.0))
        step += 1
        if asked and toil.checkpoint is not None:
            _save(toil.checkpoint, step)
            say(f"{toil.name}: saved at step {step}")
            sys.exit(STOPPED)
    say(f"{toil.name}: done after {step} steps")


def _listen(path: Path, answer: Callable[[Sequence[str]], Answer]) -> None:
    """Answer the launcher's requests from now on, on a thread."""
    control = ControlSocket(path)
    control.answers = answer

    def serve() -> None:
        while True:
            select.select([control], [], [])
            control.poll()

    threading.Thread(target=serve, name="hearing", daemon=True).start()


def say(line: str) -> None:
    """A line for whoever looks on, at once."""
    print(line, flush=True)


def look_like(library: str) -> None:
    """Map a file of this name, as a program that imports the framework has its library mapped."""
    folder = Path(tempfile.mkdtemp(prefix="fallow-toy-"))
    path = folder / library
    path.write_bytes(bytes(4096))
    with path.open("rb") as file:
        _MAPPED.append(mmap(file.fileno(), 0, access=ACCESS_READ))
    path.unlink()
    folder.rmdir()


_MAPPED: list[mmap] = []
"""What stays mapped until the process ends."""


def _restored(toil: Toil) -> int:
    if toil.checkpoint is None or not toil.checkpoint.is_file():
        return 0
    return int(json.loads(toil.checkpoint.read_text())["step"])


def _save(path: Path, step: int) -> None:
    draft = path.with_name(f"{path.name}.{os.getpid()}")
    draft.write_text(json.dumps({"step": step}))
    draft.rename(path)

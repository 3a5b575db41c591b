"""A toy notebook: works for a moment after each line that somebody types, and holds its GPU in between.

Like a Jupyter kernel it keeps its memory until it ends. Run it on a terminal; an empty line is a cell too,
``quit`` or the end of input closes it. Asked by SIGUSR1 it saves the number of cells and ends with code 75.

    python -m examples.toys.notebook --needs 8 --burst-s 3
"""

import argparse
import json
import select
import signal
import sys
import time
from pathlib import Path

from examples.toys import toil
from examples.toys.board import Device


def main() -> None:
    """Run a first cell, then one for each line."""
    parser = argparse.ArgumentParser(prog="notebook")
    parser.add_argument("--needs", type=float, default=8.0, help="GiB that its tensors take")
    parser.add_argument("--busy", type=int, default=80, help="percent that a cell keeps the GPU busy")
    parser.add_argument("--burst-s", type=float, default=2.0, help="how long a cell works")
    parser.add_argument("--checkpoint", type=Path, required=True)
    flags = parser.parse_args()
    cells = json.loads(flags.checkpoint.read_text())["cells"] if flags.checkpoint.is_file() else 0
    signal.signal(signal.SIGUSR1, lambda *_: leave(flags.checkpoint, cells))
    device = toil.devices_or_end()[0]
    device.allocate(int(flags.needs * (1 << 30)))
    toil.say(f"notebook: ready, {cells} cells were run before")
    line = "\n"
    while line not in ("", "quit\n"):
        run_cell(device, flags.busy, flags.burst_s)
        cells += 1  # before it is told: who has read it may ask for a save at once
        toil.say(f"notebook: cell {cells} done")
        line = next_line()
    toil.say(f"notebook: closed after {cells} cells ({line.strip() or 'no more input'})")


def run_cell(device: Device, percent: int, burst_s: float) -> None:
    """Work for a moment."""
    device.busy(percent)
    time.sleep(burst_s)
    device.busy(0)


def next_line() -> str:
    """The next line that somebody types; blocks, and signals are heard meanwhile."""
    select.select([sys.stdin], [], [])
    return sys.stdin.readline()


def leave(checkpoint: Path, cells: int) -> None:
    """Save and end."""
    checkpoint.write_text(json.dumps({"cells": cells}))
    sys.exit(toil.STOPPED)


if __name__ == "__main__":
    main()

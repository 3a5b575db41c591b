"""What the workers of ``leaving_train`` wrote down: one training's steps, losses, and pauses."""

import json
import os
import signal
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any


class Written:
    """The ledger at ``path``; empty before there is one."""

    def __init__(self, path: Path):
        self.path = path

    def entries(self) -> list[dict[str, Any]]:
        """Whole lines only, in the order in which they were written."""
        lines = self.path.read_bytes().split(b"\n")[:-1] if self.path.exists() else []
        return [json.loads(line) for line in lines]

    def last(self) -> dict[str, Any]:
        """The newest whole line; step and world 0 before the first."""
        if not self.path.exists():
            return {"step": 0, "world": 0}
        with self.path.open("rb") as file:
            file.seek(-min(1000, file.seek(0, os.SEEK_END)), os.SEEK_END)
            lines = file.read().split(b"\n")[:-1]
        newest: dict[str, Any] = json.loads(lines[-1]) if lines else {"step": 0, "world": 0}
        return newest

    def losses(self) -> dict[int, float]:
        """Each step's loss."""
        return {entry["step"]: entry["loss"] for entry in self.entries()}

    def repeated(self) -> set[int]:
        """Steps that some worker committed twice."""
        done = [(entry["member"], entry["step"]) for entry in self.entries()]
        return {step for _, step in done} if len(done) > len(set(done)) else set()

    def longest_pause_s(self, since_s: float) -> float:
        """The longest time after ``since_s`` (seconds UTC) in which nobody committed a step."""
        times = sorted(entry["s"] for entry in self.entries())
        around = [s for s in times if s <= since_s][-1:] + [s for s in times if s > since_s]
        return max(later - earlier for earlier, later in pairwise(around))


def everything_of(pid: int) -> list[int]:
    """A process and all that come from it, as Slurm's steps know them."""
    parents: dict[int, list[int]] = {}
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            with suppress(OSError):
                parent = int((process / "stat").read_text().rpartition(")")[2].split()[1])
                parents.setdefault(parent, []).append(int(process.name))
    found, new = [pid], [pid]
    while new:
        new = [child for parent in new for child in parents.get(parent, [])]
        found += new
    return found


def signal_all(pid: int, number: signal.Signals) -> None:
    """What Slurm does to a step: every process of it hears the signal."""
    for each in everything_of(pid):
        with suppress(ProcessLookupError):
            os.kill(each, number)

"""A real Slurm's job in which ``fallow.controller`` drives a training that top-up jobs may join.

``program`` is what Python is told to run as the controller, where it isn't the module itself.
"""

import json
import os
import shlex
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from fallow.control_server import ask
from tests.fallow import leaving_train
from tests.fallow.steps_written import Written
from tests.slurm_cluster import SlurmCluster

ROOT = Path(__file__).parents[2]
SCRIPT = Path(__file__).with_name("leaving_train.py")
DEADLINE_S = 120
CONTROLLER = ("-m", "fallow.controller")
CONF = """\
PreemptType=preempt/partition_prio
PreemptMode=CANCEL
RequeueExitHold=75
KillWait=15
PartitionName=low Nodes=ALL PriorityTier=1 MaxTime=INFINITE State=UP
PartitionName=normal Nodes=ALL PriorityTier=10 MaxTime=INFINITE State=UP
"""


def by_partition(cluster: SlurmCluster, host: str, ports: tuple[int, int]) -> None:
    """Jobs of ``low`` are cancelled when those of ``normal`` need their GPUs."""
    with cluster.conf.open("a") as conf:
        conf.write(CONF)


class Training:
    """A job of Slurm's in which a controller drives a training, with one slot of its own."""

    def __init__(
        self,
        cluster: SlurmCluster,
        folder: Path,
        top_up: str,
        *options: str,
        program: Sequence[str] = CONTROLLER,
    ):
        self.cluster, self.folder, self.options = cluster, folder, options
        self.written, self.log_path = Written(folder / "steps"), folder / "a.log"
        words = [
            *(sys.executable, *program, "--listen", "127.0.0.1:0", "--slots", "1"),
            *("--max", "4", "--socket", str(folder / "control"), "--top-up", "1"),
            *("--top-up-sbatch", top_up, "--", str(SCRIPT)),
        ]
        script = folder / "a.sh"
        script.write_text(f"#!/bin/sh\nexec srun --ntasks=1 {shlex.join(words)}\n")
        variables = {
            "PYTHONPATH": str(ROOT),
            "LEDGER": str(self.written.path),
            "CHECKPOINT": str(folder / "saved.pt"),
        }
        os.environ.update(variables)
        self.job = cluster.ask(
            *("sbatch", "--parsable", *options, "--gres=gpu:1", f"--chdir={folder}"),
            *(f"--output={self.log_path}", "--open-mode=append", str(script)),
        ).strip()

    def ask(self, *words: str) -> dict[str, Any]:
        answer: dict[str, Any] = json.loads(ask(self.folder / "control", words, timeout_s=DEADLINE_S))
        return answer

    def until(self, what: str, happens: Callable[[], bool]) -> None:
        end_s = time.monotonic() + DEADLINE_S
        while not happens():
            assert time.monotonic() < end_s, f"{what} never came\n{self.logs()}"
            time.sleep(0.02)

    def until_world(self, workers: int) -> None:
        """Wait until so many compute together, and have done some steps."""
        self.until(f"a world of {workers}", lambda: bool(self.written.last()["world"] == workers))
        before = self.written.last()["step"]
        self.until("steps", lambda: bool(self.written.last()["step"] > before + 5))

    def jobs(self) -> dict[str, str]:
        """Who is in Slurm's queue, and in what state; jobs that are over are not in it."""
        lines = self.cluster.ask("squeue", "--noheader", "--format=%A %T").splitlines()
        return dict(line.split() for line in lines)

    def state(self, job: str) -> str:
        return self.cluster.ask(
            "squeue", "--noheader", "--states=all", f"--jobs={job}", "--format=%T"
        ).strip()

    def reason(self, job: str) -> str:
        return self.cluster.ask("squeue", "--noheader", f"--jobs={job}", "--format=%r").strip()

    @property
    def text(self) -> str:
        return self.log_path.read_text() if self.log_path.exists() else ""

    def logs(self) -> str:
        logs = "\n".join(f"{path.name}:\n{path.read_text()}" for path in self.folder.glob("*.log"))
        return f"{logs}\n{self.cluster.ask('squeue', '--states=all')}"

    def is_exact(self) -> None:
        """Every step was taken once, with the losses of one worker that trains alone."""
        assert not self.written.repeated()
        losses = self.written.losses()
        assert sorted(losses) == list(range(len(losses)))
        alone = Written(self.folder / "alone")
        leaving_train.train(str(alone.path), len(losses), 0.0)
        worst = max(abs(loss - losses[step]) for step, loss in alone.losses().items())
        print(f"{len(losses)} steps, losses within {worst:.1e} of one worker alone")
        assert worst < 1e-10

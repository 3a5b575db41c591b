"""An elastic training in a real Slurm: grown by a job that Slurm takes back, and paused under its own id."""

import os
import shlex
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed; pip install -c constraints.txt torch")

import json  # noqa: E402

from fallow.control_server import ask  # noqa: E402
from tests.fallow import leaving_train  # noqa: E402
from tests.fallow.steps_written import Written  # noqa: E402
from tests.slurm_accounting import accounted_cluster  # noqa: E402
from tests.slurm_cluster import SlurmCluster, slurm_cluster  # noqa: E402

pytestmark = [pytest.mark.slow, pytest.mark.process]
ROOT = Path(__file__).parents[2]
SCRIPT = Path(__file__).with_name("leaving_train.py")
DEADLINE_S = 120
NOBODY = "65534"
"""Another person: Debian's nobody."""
CONF = """\
PreemptType=preempt/partition_prio
PreemptMode=CANCEL
RequeueExitHold=75
KillWait=15
PartitionName=low Nodes=ALL PriorityTier=1 MaxTime=INFINITE State=UP
PartitionName=normal Nodes=ALL PriorityTier=10 MaxTime=INFINITE State=UP
"""
CONF_QOS = """\
PreemptType=preempt/qos
PreemptMode=CANCEL
KillWait=15
"""


def by_partition(cluster: SlurmCluster, host: str, ports: tuple[int, int]) -> None:
    """Jobs of ``low`` are cancelled when those of ``normal`` need their GPUs."""
    with cluster.conf.open("a") as conf:
        conf.write(CONF)


class Training:
    """A job of Slurm's in which a controller drives a training, with one slot of its own."""

    def __init__(self, cluster: SlurmCluster, folder: Path, top_up: str, *options: str):
        self.cluster, self.folder, self.options = cluster, folder, options
        self.written, self.log_path = Written(folder / "steps"), folder / "a.log"
        words = [
            *(sys.executable, "-m", "fallow.controller", "--listen", "127.0.0.1:0", "--slots", "1"),
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


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="slurm-") as name:
        Path(name).chmod(0o755)  # other people's jobs run from Slurm's folder in it
        yield Path(name)


@pytest.fixture
def training(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Training]:
    for name in ("PYTHONPATH", "LEDGER", "CHECKPOINT"):
        monkeypatch.setenv(name, "")
    (folder / "a").mkdir()
    (folder / "s").mkdir()
    with slurm_cluster(folder / "s", nodes=1, gpus=2, accounting=by_partition) as cluster:
        yield Training(cluster, folder / "a", "--partition=low --gres=gpu:1", "--partition=normal")


def test_a_top_up_is_lent_taken_back_by_slurm_and_the_job_paused_under_its_id(training: Training) -> None:
    training.until_world(1)
    waiting = training.cluster.submit("--partition=low", "--gres=gpu:2", f"--uid={NOBODY}", f"--gid={NOBODY}")
    training.until("a reason", lambda: training.reason(waiting) in ("Resources", "Priority"))
    refused = training.ask("top-up", "1")
    assert "could use these GPUs" in refused["error"] or "nothing is free" in refused["error"], refused
    assert set(training.jobs()) == {training.job, waiting}
    training.cluster.ask("scancel", waiting)
    assert training.ask("top-up", "1") == {"top_ups": 1, "workers": 2}, training.logs()
    other = taken_back(training)
    # While somebody holds what there was, nothing is asked for; and only as many as were allowed.
    refused = training.ask("top-up", "1")
    assert "error" in refused and refused["top_ups"] == 0, (refused, training.logs())
    assert training.ask("top-up", "2") == {"error": "top-up 2: --top-up allows 1"}
    assert set(training.jobs()) == {training.job, other}
    # Paused: saved, held under its own id, and let go on.
    assert training.ask("suspend")["stopping"]
    training.until("the hold", lambda: training.state(training.job) == "SPECIAL_EXIT")
    paused_at = training.written.last()["step"]
    training.cluster.ask("scontrol", "release", training.job)
    training.until("going on", lambda: bool(training.written.last()["step"] > paused_at + 5))
    assert training.state(training.job) == "RUNNING"
    assert training.ask("stop")["stopping"]
    training.until("the end", lambda: training.state(training.job) != "RUNNING")
    training.is_exact()


@pytest.mark.long
def test_no_top_up_outlives_a_training_that_was_killed(training: Training) -> None:
    training.until_world(1)
    assert training.ask("top-up", "1") == {"top_ups": 1, "workers": 2}, training.logs()
    controller = next(
        int(process.name)
        for process in Path("/proc").iterdir()
        if process.name.isdigit()
        and b"fallow.controller\0--listen" in command(process)
        and str(training.folder).encode() in command(process)
    )
    os.kill(controller, signal.SIGKILL)
    killed_s = time.monotonic()
    training.until("an empty queue", lambda: not training.jobs())
    print(f"no job was left {time.monotonic() - killed_s:.1f} s after the controller was killed")


@pytest.mark.long
def test_a_top_up_of_a_qos_that_others_preempt_is_taken_back(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("PYTHONPATH", "LEDGER", "CHECKPOINT"):
        monkeypatch.setenv(name, "")
    (folder / "a").mkdir()
    (folder / "s").mkdir()
    with accounted_cluster(folder / "s", nodes=1, gpus=2, conf=CONF_QOS) as cluster:
        add = ("sacctmgr", "--immediate", "add")
        cluster.ask(*add, "qos", "spare")
        cluster.ask("sacctmgr", "--immediate", "modify", "qos", "normal", "set", "preempt=spare")
        cluster.ask(*add, "user", "nobody", "account=root", "qos=normal", "defaultqos=normal")
        cluster.ask("sacctmgr", "--immediate", "modify", "user", "root", "set", "qos+=spare")
        training = Training(cluster, folder / "a", "--qos=spare --gres=gpu:1")
        training.until_world(1)
        assert training.ask("top-up", "1") == {"top_ups": 1, "workers": 2}, training.logs()
        taken_back(training)
        assert training.ask("stop")["stopping"]
        training.until("the end", lambda: training.state(training.job) != "RUNNING")
        training.is_exact()


def command(process: Path) -> bytes:
    """A process's words; none of one that has ended."""
    try:
        return (process / "cmdline").read_bytes()
    except OSError:
        return b""


def taken_back(training: Training) -> str:
    """Another person's job needs the top-up's GPU, and gets it; returns that job. Nobody waits for it."""
    training.until_world(2)
    [top_up] = set(training.jobs()) - {training.job}
    told_s = time.time()
    other = training.cluster.submit(*training.options, "--gres=gpu:1", f"--uid={NOBODY}", f"--gid={NOBODY}")
    training.until("the other's start", lambda: training.state(other) == "RUNNING")
    handed_s = time.time() - told_s
    training.until_world(1)
    pause_s = training.written.longest_pause_s(told_s)
    print(f"taken back: the other's job ran after {handed_s:.1f} s; no step for {pause_s:.2f} s at most")
    assert "recovers" not in training.text, training.text
    assert training.state(top_up) in ("PREEMPTED", "COMPLETING"), training.logs()
    return other

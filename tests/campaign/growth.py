"""Top-ups of a training in Slurm, with something killed amid each verb; then none may be left over.

The training, its controller and its agents are real; only the minute for which growth rests after a restart
of slurmctld is some seconds here.
"""

import os
import random
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tests.campaign.crashes import AGENT, LAUNCHER, Crash, Daemons, crash_of
from tests.campaign.engine import REST_S
from tests.fallow.slurm_training import Training
from tests.slurm_cluster import SlurmCluster

PROGRAM = (
    "-c",
    f"import sys; from fallow.top_ups import growth; growth.REST_S = {REST_S}; "
    "from fallow.controller.main import main; sys.exit(main())",
)
CONF = """\
PreemptType=preempt/partition_prio
PreemptMode=CANCEL
KillWait=5
PartitionName=low Nodes=ALL PriorityTier=1 MaxTime=INFINITE State=UP
PartitionName=normal Nodes=ALL PriorityTier=10 MaxTime=INFINITE State=UP
"""
"""For a cluster with one node of two GPUs: jobs of ``low`` are taken back for those of ``normal``."""
LEAKED_S = 60.0
"""After that no top-up may be there that its training doesn't know (the design's own bound)."""
SETTLED_S = 5.0
"""How long Slurm's two counts may differ: a job may begin or end between them."""
STRANGER = ("--uid=65534", "--gid=65534")
APART = (AGENT, "munged", "slurmdbd")
"""A training's own end doesn't need these: whichever of them is killed, it is held under its number."""
VERBS = ("grow", "shrink", "taken back", "end")


class Growing:
    """One training at a time, in a cluster of one node with two GPUs."""

    def __init__(self, cluster: SlurmCluster, folder: Path) -> None:
        self.cluster, self.folder = cluster, folder
        self.daemons = Daemons(cluster)
        self._count = 0
        self._training: Training | None = None

    def kill(self, number: int, draw: random.Random, daemons: Sequence[str]) -> list[str]:
        """One kill, and all that must not have come of it; what the verb's outcome was."""
        verb, crash = draw.choice(VERBS), crash_of(draw, daemons, self.cluster.nodes)
        delay_s = draw.choice((0.0, 0.1, 0.3, 0.6, 1.0, 2.0, 4.0))
        stranger = self.cluster.submit("--partition=low", "--job-name=fallow-top-up", *STRANGER)
        self._runs(stranger)
        training = self._ready()
        if verb != "grow":
            self._grown(training)
        answers, other = self._with_kill(training, verb, crash, delay_s)
        self.daemons.until_all_answer()
        late = self.cluster.submit("--partition=low", "--job-name=fallow-top-up", *STRANGER)
        is_over = verb == "end" or crash.daemon == LAUNCHER
        self._until("no top-up that nobody knows", lambda: self._is_clean(training, is_over), (verb, crash))
        if is_over:
            self._training = None
            if crash.daemon != LAUNCHER:
                assert "could not be saved" not in training.text, (crash, training.text)
            if crash.daemon in APART:
                assert training.state(training.job) == "SPECIAL_EXIT", (crash, training.logs())
            self._cancel(training.job)
        else:
            step = training.written.last()["step"]
            self._until("steps", lambda: training.written.last()["step"] > step + 3, (verb, crash))
        assert not training.written.repeated(), (verb, crash)
        states = self._jobs()
        for job in (late, stranger, *other):  # a controller that is killed may itself forget the newest
            known = states.get(job)
            assert known is None or known[1] in ("RUNNING", "PENDING"), (job, known, verb, crash)
        assert states.get(late) is not None, (late, verb, crash)
        self._cancel(late, stranger, *other)
        return [f"{verb}, {crash.daemon} killed: {answers}"]

    def _counts_anew(self) -> None:
        """Where Slurm counts GPUs as used that no job has, have it count anew, as its administrator does.

        It does after a crash of slurmctld while a job was being ended (22.05.8); nobody gets those GPUs then.
        """
        end_s = time.monotonic() + SETTLED_S
        while leaked := self._leaked():
            if time.monotonic() > end_s:
                print(f"      Slurm counts {leaked} GPUs that no job has", flush=True)
                self.cluster.ask("scontrol", "reconfigure")
                return
            time.sleep(0.5)

    def _leaked(self) -> int:
        """How many GPUs the node counts as used beyond those of its jobs; none while a job is COMPLETING."""
        used = re.search(r"GresUsed=gpu:h200:(\d+)", self.cluster.ask("scontrol", "-d", "show", "node", "n1"))
        told = self.cluster.ask(
            "squeue", "--noheader", "--states=R,CG", "--Format=StateCompact,tres-alloc:200"
        )
        if "CG" in told:
            return 0
        return int(used[1] if used else 0) - sum(map(int, re.findall(r"gres/gpu=(\d+)", told)))

    def end(self) -> None:
        """End what trains."""
        if self._training is not None:
            with suppress(OSError, AssertionError):
                self._training.ask("stop")

    def _ready(self) -> Training:
        """A training of one worker, without top-ups."""
        if self._training is not None and self._is_running(self._training):
            training = self._training
            self._until("no top-up", lambda: "error" not in training.ask("top-up", "0"), "before")
            return training
        self._count += 1
        folder = self.folder / f"t{self._count}"
        folder.mkdir()
        options = ("--partition=low", "--partition=normal")
        self._training = Training(
            self.cluster, folder, f"{options[0]} --gres=gpu:1", options[1], program=PROGRAM
        )
        self._training.until_world(1)
        return self._training

    def _grown(self, training: Training) -> None:
        answers: list[object] = []

        def is_grown() -> bool:
            answers[:] = [training.ask("top-up", "1")]
            is_so = answers == [{"top_ups": 1, "workers": 2}]
            if not is_so:
                self._counts_anew()
            return is_so

        self._until("a top-up", is_grown, answers, limit_s=150.0)

    def _with_kill(
        self, training: Training, verb: str, crash: Crash, delay_s: float
    ) -> tuple[str, list[str]]:
        answers: list[Any] = []
        other: list[str] = []

        def act() -> None:
            with suppress(OSError, ValueError, AssertionError):
                if verb == "taken back":
                    other.append(self.cluster.submit("--partition=normal", "--gres=gpu:1", *STRANGER))
                    return
                words = {"grow": ("top-up", "1"), "shrink": ("top-up", "0"), "end": ("stop",)}[verb]
                answers.append(training.ask(*words))

        thread = threading.Thread(target=act)
        thread.start()
        time.sleep(delay_s)
        self._crash(training, crash)
        thread.join()
        return str(answers[0]) if answers else "no answer", other

    def _crash(self, training: Training, crash: Crash) -> None:
        if crash.daemon == AGENT:
            _kill_all(str(training.folder), "fallow.agent")
        elif crash.daemon == LAUNCHER:
            _kill_all(str(training.folder), "fallow.controller.main")
        else:
            self.daemons.crash(crash.process, crash.away_s)

    def _is_running(self, training: Training) -> bool:
        return training.job in self._jobs() and training.state(training.job) == "RUNNING"

    def _is_clean(self, training: Training, is_over: bool) -> bool:
        """Whether Slurm has the top-ups that the training knows, and no others.

        One that is COMPLETING was told to end; where its slurmd was away meanwhile Slurm says so again later,
        after more than a minute (22.05.8). It counts as over once its processes are.
        """
        top_ups = {
            job
            for job, (name, state) in self._jobs().items()
            if name.startswith("fallow-top-up-") and state != "COMPLETING"
        }
        if not top_ups and _pids(str(training.folder), "fallow.agent"):
            return False
        if is_over:
            _, state = self._jobs().get(training.job, ("", "over"))
            return not top_ups and state in ("over", "SPECIAL_EXIT")  # held under its number: exit code 75
        known = {each["job"] for each in training.ask("status")["top_ups"]["jobs"] if not each["going"]}
        return top_ups == known and len(top_ups) <= 1

    def _runs(self, job: str) -> None:
        """Wait until it runs. After a kill Slurm may hold a job whose launch failed: it is let go."""
        end_s = time.monotonic() + LEAKED_S
        while self._jobs()[job][1] != "RUNNING":
            reason = self.cluster.ask("squeue", "--noheader", f"--jobs={job}", "--format=%r").strip()
            assert time.monotonic() < end_s, (job, reason)
            if "held" in reason:
                print(f"      Slurm holds {job}: {reason}", flush=True)
                self.cluster.ask("scontrol", "release", job)
            self._counts_anew()
            time.sleep(0.5)

    def _cancel(self, *jobs: str) -> None:
        there = self._jobs()
        if known := [job for job in jobs if job in there]:
            self.cluster.ask("scancel", *known)

    def _jobs(self) -> dict[str, tuple[str, str]]:
        """Name and state of each job that isn't over."""
        rows = self.cluster.ask("squeue", "--noheader", "--format=%A|%T|%j").splitlines()
        split = (row.split("|", 2) for row in rows)
        return {job: (name, state) for job, state, name in split}

    def _until(
        self, what: str, happens: Callable[[], bool], context: object, limit_s: float = LEAKED_S
    ) -> None:
        end_s = time.monotonic() + limit_s
        while not happens():
            assert time.monotonic() < end_s, (what, context, self._jobs(), self.folder)
            time.sleep(0.2)


def _kill_all(*marks: str) -> None:
    for pid in _pids(*marks):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _pids(*marks: str) -> list[int]:
    """Which Python has all of these in its command line or environment: srun has them too, and is none."""
    found = []
    for process in Path("/proc").iterdir():
        with suppress(OSError, ValueError):
            command = (process / "cmdline").read_text()
            is_python = "python" in Path(command.partition("\0")[0]).name
            if is_python and all(mark in command or mark in _around(process) for mark in marks):
                found.append(int(process.name))
    return found


def _around(process: Path) -> str:
    return (process / "environ").read_text(errors="replace")


@contextmanager
def growing(cluster: SlurmCluster, folder: Path) -> Iterator[Growing]:
    """On a cluster that is up; ``folder`` is for trainings."""
    made = Growing(cluster, folder)
    try:
        yield made
    finally:
        made.end()

"""``fallow run`` on a real service over a stand-in driver: queue, logs, orders, restarts, many at once."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from service.client.jobs import connect_acting
from service.errors import ClientError, UnknownJob
from tests.driver.driver import CompilerMissing, Driver, build
from tests.service.launcher.conftest import LIGHT, lives, until

LIMIT_S = 60.0
MANY = 20
"""Launchers at once; each is an interpreter to start, so fifty were tried by hand."""
CONFIG = """
[collect]
sources = ["nvml"]
tick_s = 1

[acting]
launcher_grace_s = 10
"""


class Typed:
    """A ``fallow run`` that somebody typed."""

    def __init__(self, machine: "Machine", name: str, process: "subprocess.Popen[bytes]", err: Path) -> None:
        self.machine, self.name, self.process, self._err = machine, name, process, err

    @property
    def id(self) -> str:
        """Its job's id, once it is submitted."""
        until(lambda: self.machine.id_of(self.name), f"{self.name} is submitted", LIMIT_S)
        return str(self.machine.id_of(self.name))

    def said(self) -> str:
        return self._err.read_text()

    def stands(self, stand: str) -> dict[str, Any]:
        return self.machine.stands(self.id, stand)

    def end(self) -> int:
        return self.process.wait(LIMIT_S)


class Machine:
    """A machine with GPUs, its service, and whoever types on it."""

    def __init__(self, folder: Path, driver: Driver) -> None:
        self.folder, self.data = folder, folder / "data"
        plain = {key: value for key, value in os.environ.items() if not key.startswith("FALLOW_")}
        state = {"XDG_STATE_HOME": str(folder / "state"), "FALLOW_DATA": str(self.data)}
        self.env = driver.environment(plain | LIGHT | state)
        self.data.mkdir(mode=0o700)
        (self.data / "fallow.toml").write_text(CONFIG)
        self.service: subprocess.Popen[bytes] | None = None
        self.jobs: list[subprocess.Popen[bytes]] = []

    def serve(self) -> None:
        log = (self.folder / "serve.log").open("ab")
        with log:
            self.service = subprocess.Popen(
                [sys.executable, "-m", "service.cli", "serve"], stdout=log, stderr=log, env=self.env
            )
        until(self.answers, "the service answers", LIMIT_S)

    def answers(self) -> bool:
        assert self.service is not None and self.service.poll() is None, (
            self.folder / "serve.log"
        ).read_text()
        try:
            self.client().whoami()
        except ClientError:
            return False
        return True

    def client(self) -> Any:
        return connect_acting(self.data)

    def kill_service(self) -> None:
        assert self.service is not None
        self.service.kill()
        self.service.wait()

    def run(self, *words: str) -> "Typed":
        """``fallow run`` with a name of its own, by which its id is found."""
        name = f"job-{len(self.jobs)}"
        words = ("--name", name, *words)
        err = (self.folder / f"err-{len(self.jobs)}").open("wb")
        with err:
            job = subprocess.Popen(
                [sys.executable, "-m", "service.cli", "run", *words],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=err,
                env=self.env,
                start_new_session=True,
            )
        self.jobs.append(job)
        return Typed(self, name, job, self.folder / f"err-{len(self.jobs) - 1}")

    def fallow(self, *words: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [sys.executable, "-m", "service.cli", *words],
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            env=self.env,
            check=False,
        )

    def id_of(self, name: str) -> str | None:
        return next((row.job for row in self.client().jobs() if row.submission.name == name), None)

    def rows(self, *words: str) -> list[dict[str, Any]]:
        done = self.fallow(*words, "--json")
        assert done.returncode == 0, done.stderr
        found: list[dict[str, Any]] = json.loads(done.stdout)
        return found

    def entry(self, job: str) -> dict[str, Any]:
        found: dict[str, Any] = self.client().job(job).sent
        return found

    def stands(self, job: str, stand: str) -> dict[str, Any]:
        until(lambda: self.state(job) == stand, f"{job} is {stand}", LIMIT_S)
        return self.entry(job)

    def state(self, job: str) -> str | None:
        """Where it stands; ``None`` before it is submitted."""
        try:
            return str(self.entry(job)["state"])
        except UnknownJob:
            return None


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    try:
        build()
    except CompilerMissing as missing:
        pytest.skip(str(missing))
    folder = tmp_path_factory.mktemp("machine")
    with Driver(folder, gpus=2) as driver:
        made = Machine(folder, driver)
        made.serve()
        yield made
        for job in made.jobs:
            if job.poll() is None:
                job.kill()
                job.wait()
        for entry in made.client().jobs():
            if entry.state != "ended" and entry.launcher is not None:
                with suppress(ProcessLookupError):
                    os.kill(entry.launcher.pid, signal.SIGKILL)
        assert made.service is not None
        made.service.terminate()
        made.service.wait(LIMIT_S)


def waits(path: Path) -> list[str]:
    return ["sh", "-c", f"until [ -e {path} ]; do sleep 0.05; done"]


def test_a_job_runs_on_what_it_was_leased_and_the_next_one_waits(machine: Machine, tmp_path: Path) -> None:
    first = machine.run("--gpus", "2", "--", *waits(tmp_path / "go"))
    held = first.stands("running")
    assert len(held["gpus"]) == 2
    assert {row.gpu for row in machine.client().leases()} == set(held["gpus"])
    second = machine.run("--gpus", "1", "--", "true")
    until(lambda: "in the queue" in second.said(), "it says its place", LIMIT_S)
    (row,) = machine.rows("queue")
    assert (row["job"], row["place"], row["name"]) == (second.id, 1, second.name)
    assert second.name in machine.fallow("queue").stdout
    (tmp_path / "go").touch()
    assert first.end() == 0
    assert second.end() == 0
    assert second.stands("ended")["exit_reason"] == "done"
    assert machine.client().leases() == []
    assert machine.rows("queue") == []
    newest = machine.rows("jobs", "--all")[:2]
    assert [(row["job"], row["state"]) for row in newest] == [(second.id, "ended"), (first.id, "ended")]
    assert machine.rows("jobs") == []


def test_a_detached_job_leaves_a_log_and_is_ended_by_its_number(machine: Machine) -> None:
    script = "printf 'a\\nb\\nc\\n'; echo to stderr >&2; exec sleep 600"
    done = machine.fallow("run", "--detach", "--", "sh", "-c", script)
    job, log = done.stdout.split()
    number = job.removeprefix("fallow:")
    assert (done.returncode, number.isdigit()) == (0, True)
    assert oct(Path(log).stat().st_mode)[-3:] == "600"
    machine.stands(job, "running")
    until(lambda: "to stderr" in Path(log).read_text(), "it has printed")
    assert machine.fallow("logs", number).stdout == "a\nb\nc\nto stderr\n"
    assert machine.fallow("logs", number, "-n", "2").stdout == "c\nto stderr\n"
    following = subprocess.Popen(
        [sys.executable, "-m", "service.cli", "logs", number, "-f"],
        stdout=subprocess.PIPE,
        text=True,
        env=machine.env,
    )
    assert machine.fallow("cancel", number, "--because", "enough seen").returncode == 0
    ended = machine.stands(job, "ended")
    assert ended["exit_reason"] == "cancelled"
    text, _ = following.communicate(timeout=LIMIT_S)
    assert text.startswith("a\nb\nc\nto stderr\n")
    assert "enough seen" in text
    assert not any(lives(pid) for pid in ended["report"]["pids"])


def test_a_log_that_is_not_there_is_said_so(machine: Machine) -> None:
    done = machine.fallow("logs", "77")
    assert done.returncode == 2
    assert "fallow run --detach" in done.stderr


def test_a_job_that_saves_itself_is_paused_and_resumed_by_its_owner(machine: Machine, tmp_path: Path) -> None:
    (tmp_path / "saves.sh").write_text(
        f"trap 'touch {tmp_path}/saved; exit 0' USR1\necho begun >>{tmp_path}/begun\n"
        f"until [ -e {tmp_path}/go ]; do sleep 0.05; done\n"
    )
    job = machine.run("--checkpoint-signal", "USR1", "--", "sh", str(tmp_path / "saves.sh"))
    job.stands("running")
    until((tmp_path / "begun").exists, "it runs")
    assert machine.fallow("pause", job.id, "--because", "lunch").returncode == 0
    paused = job.stands("paused")
    assert (paused["gpus"], (tmp_path / "saved").exists()) == ([], True)
    assert machine.client().leases() == []
    assert machine.fallow("resume", job.id).returncode == 0
    job.stands("running")
    until(lambda: (tmp_path / "begun").read_text().count("begun") == 2, "it runs again")
    (tmp_path / "go").touch()
    assert job.end() == 0
    page = machine.fallow("jobs", job.id).stdout
    assert "pause by user" in page
    assert "lunch" in page


def test_a_service_killed_under_a_running_job_finds_it_again(machine: Machine, tmp_path: Path) -> None:
    job = machine.run(
        "--", "sh", "-c", f"echo begun >>{tmp_path}/begun; until [ -e {tmp_path}/go ]; do sleep 0.05; done"
    )
    before = job.stands("running")
    machine.kill_service()
    until(lambda: "the job goes on" in job.said(), "it says so", LIMIT_S)
    machine.serve()
    until(lambda: machine.entry(job.id)["last_seen_ms"] is not None, "it is heard of", LIMIT_S)
    after = machine.entry(job.id)
    assert (after["state"], after["gpus"]) == ("running", before["gpus"])
    assert {row.gpu for row in machine.client().leases()} == set(before["gpus"])
    assert (tmp_path / "begun").read_text() == "begun\n"
    (tmp_path / "go").touch()
    assert job.end() == 0
    assert job.stands("ended")["exit_reason"] == "done"


def test_a_killed_launcher_ends_its_job_and_its_lease(machine: Machine) -> None:
    job = machine.run("--gpus", "2", "--", "sh", "-c", "sleep 600 & wait")
    held = job.stands("running")
    job.process.kill()
    job.process.wait()
    ended = job.stands("ended")
    assert ended["exit_reason"] == "lost"
    assert not any(lives(pid) for pid in held["report"]["pids"])
    assert machine.client().leases() == []


@pytest.mark.long
def test_many_launchers_at_once_each_run_once_and_never_two_on_a_gpu(
    machine: Machine, tmp_path: Path
) -> None:
    ledger = tmp_path / "ledger"
    ledger.mkdir()
    script = 'set -eC; : >"$0/$CUDA_VISIBLE_DEVICES"; : >"$0/ran-$FALLOW_JOB"; rm "$0/$CUDA_VISIBLE_DEVICES"'
    jobs = [machine.run("--", "sh", "-c", script, str(ledger)) for _ in range(MANY)]
    deadline = time.monotonic() + 240
    codes = [job.process.wait(max(1.0, deadline - time.monotonic())) for job in jobs]
    assert codes == [0] * MANY
    assert len(list(ledger.glob("ran-*"))) == MANY
    assert machine.client().leases() == []


TRAINING = """
import os, sys, time
from pathlib import Path
import torch
import fallow

folder = Path(sys.argv[1])
job = fallow.connect()
model = torch.nn.Linear(4, 1)
trainer = job.elastic(
    model, torch.optim.SGD(model.parameters(), lr=0.01), global_batch=8, max_micro_batch=8,
    checkpoint=folder / "checkpoint",
)
data = torch.utils.data.TensorDataset(torch.randn(64, 4), torch.randn(64, 1))
for step, batches in trainer.steps(data, total_steps=100_000):
    for x, y in batches:
        trainer.backward(torch.nn.functional.mse_loss(model(x), y))
    trainer.step()
    with (folder / "seen").open("a") as file:
        file.write(f"{step} {trainer.world_size} {os.environ['CUDA_VISIBLE_DEVICES']}\\n")
    if (folder / "go").exists():
        break
    time.sleep(0.05)
"""


@pytest.mark.long
def test_an_elastic_job_is_resized_in_place_and_paused_with_its_state(
    machine: Machine, tmp_path: Path
) -> None:
    pytest.importorskip("torch", reason="an elastic training needs torch: pip install torch")
    (tmp_path / "training.py").write_text(TRAINING)
    seen = tmp_path / "seen"
    words = ["--gpus", "1-2", "--elastic", "--", sys.executable, str(tmp_path / "training.py"), str(tmp_path)]
    job = machine.run(*words)
    job.stands("running")
    sizes = sizes_of(seen)
    until(lambda: sizes() != [], "it trains", LIMIT_S)
    controller = machine.entry(job.id)["report"]["pids"][0]
    for size in (1, 2, 1) if len(machine.entry(job.id)["gpus"]) == 2 else (2, 1):
        resized(job, size)
        until(lambda size=size: sizes()[-1] == size, f"it trains on {size}", LIMIT_S)
        assert len(machine.entry(job.id)["gpus"]) == size
    assert machine.entry(job.id)["report"]["pids"][0] == controller
    steps = [int(line.split()[0]) for line in seen.read_text().splitlines()]
    assert steps[0] == 0
    assert set(range(max(steps))) <= set(steps)
    assert machine.fallow("pause", job.id).returncode == 0
    job.stands("paused")
    reached = max(int(line.split()[0]) for line in seen.read_text().splitlines())
    count = len(seen.read_text().splitlines())
    assert machine.fallow("resume", job.id).returncode == 0
    job.stands("running")
    until(lambda: len(seen.read_text().splitlines()) > count, "it trains again", LIMIT_S)
    assert int(seen.read_text().splitlines()[count].split()[0]) == reached + 1
    (tmp_path / "go").touch()
    job.process.send_signal(signal.SIGTERM)
    job.end()


def sizes_of(seen: Path) -> Any:
    return lambda: [int(line.split()[1]) for line in seen.read_text().splitlines()] if seen.exists() else []


def resized(job: Typed, size: int) -> None:
    """Ask until the service takes the order: it may be about to resize the job by itself."""

    def taken() -> bool:
        if len(job.machine.entry(job.id)["gpus"]) == size:
            return True
        return job.machine.fallow("resize", job.id, str(size)).returncode == 0

    until(taken, f"resized to {size}", LIMIT_S)

"""The controller as people use it: started from a shell, asked, interrupted, killed, resumed."""

import json
import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed; pip install -c constraints.txt torch")

from tests.fallow.ledger import audit  # noqa: E402

ROOT = Path(__file__).parents[2]
SCRIPT = Path(__file__).with_name("crash_train.py")
DEADLINE_S = 90
ENDLESS = 100_000


class Unheard(Exception):
    """A controller that was asked gave no answer."""


class Shell:
    """``python -m fallow.controller`` as a person starts it, and the person."""

    def __init__(
        self,
        folder: Path,
        *options: str,
        program: Sequence[str] = ("-m", "fallow.controller"),
        **variables: str,
    ):
        self.folder, self.socket = folder, folder / "control"
        self.ledger, self.checkpoint = folder / "ledger", folder / "saved.pt"
        environment = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "LEDGER": str(self.ledger),
            "CHECKPOINT": str(self.checkpoint),
            "STEPS": str(ENDLESS),
            **variables,
        }
        self.log = (folder / "log").open("a+")
        words = [sys.executable, *program, "--socket", str(self.socket), *options]
        self.process = subprocess.Popen(
            [*words, "--", str(SCRIPT)], env=environment, stdout=self.log, stderr=self.log, cwd=folder
        )

    def ask(self, *words: str) -> dict[str, object]:
        asked = subprocess.run(
            [sys.executable, "-m", "fallow.controller", "--socket", str(self.socket), *words],
            capture_output=True,
            text=True,
            cwd=ROOT,
            timeout=DEADLINE_S,
            check=False,
        )
        if not asked.stdout:  # it was asked between making its socket and listening there, or while it ends
            raise Unheard(asked.stderr)
        answer: dict[str, object] = json.loads(asked.stdout)
        assert asked.returncode == (1 if "error" in answer else 0)
        return answer

    def status(self) -> dict[str, object]:
        nobody: dict[str, object] = {"members": [], "workers": {}}
        try:
            return self.ask("status") if self.socket.exists() else nobody
        except Unheard:
            return nobody

    def until(self, happens: Callable[[], bool]) -> None:
        deadline_s = time.monotonic() + DEADLINE_S
        while not happens():
            assert time.monotonic() < deadline_s, self.text
            time.sleep(0.05)

    def until_said(self, words: str) -> None:
        self.until(lambda: words in self.text)

    def until_steps(self, count: int) -> None:
        """Wait until that many steps were committed."""
        self.until(lambda: self.ledger.exists() and self.ledger.read_text().count('"commit"') >= count)

    @property
    def text(self) -> str:
        return (self.folder / "log").read_text()

    def pids(self) -> list[int]:
        """Every process of this training, by its ledger's path in the environment."""
        mine = f"LEDGER={self.ledger}".encode()
        found = []
        for entry in Path("/proc").iterdir():
            try:
                if entry.name.isdigit() and mine in (entry / "environ").read_bytes().split(b"\0"):
                    found.append(int(entry.name))
            except OSError:
                continue
        return found

    def until_gone(self) -> None:
        self.process.wait(DEADLINE_S)
        self.until(lambda: not self.pids())


@contextmanager
def shell(
    folder: Path, *options: str, program: Sequence[str] = ("-m", "fallow.controller"), **variables: str
) -> Iterator[Shell]:
    person = Shell(folder, *options, program=program, **variables)
    try:
        yield person
    finally:
        person.process.kill()
        for pid in person.pids():
            os.kill(pid, signal.SIGKILL)
        person.log.close()


def test_a_person_resizes_asks_and_reads_along(tmp_path: Path) -> None:
    with shell(tmp_path, "--min", "1", "--max", "3", "--workers", "2", STEPS="150") as person:
        person.until_said("generation 1: 2 workers (w0 w1)")
        assert stat.S_IMODE(person.socket.stat().st_mode) == 0o600
        assert person.ask("resize", "9") == {"target": 3}
        person.until_said("generation 2: 3 workers (w0 w1 w2), paused ")
        status = person.status()
        assert status["members"] == ["w0", "w1", "w2"]
        assert status["target"] == 3
        assert "release-caches, suspend or stop" in str(person.ask("dance")["error"])
        assert person.process.wait(DEADLINE_S) == 0, person.text
        assert not person.socket.exists()
        account = audit(person.ledger, 150, 331, 48)
        assert set(account.attempts.values()) == {1}
        person.until_gone()


@pytest.mark.parametrize(
    ("number", "code"),
    [
        (signal.SIGINT, 130),
        (signal.SIGTERM, 143),
        pytest.param(signal.SIGHUP, 143, marks=pytest.mark.long),  # handled as SIGTERM is, by the same line
        (None, 75),
    ],
)
def test_an_interrupted_training_is_saved_and_resumed_by_the_same_command(
    number: signal.Signals | None, code: int, tmp_path: Path
) -> None:
    with shell(tmp_path, "--workers", "2") as person:
        person.until_steps(20)
        if number is None:
            assert person.ask("stop") == {"stopping": True}
        else:
            person.process.send_signal(number)
        assert person.process.wait(DEADLINE_S) == code
        person.until_gone()
        assert "Traceback" not in person.text
        assert person.checkpoint.exists()
    if number is not None:
        return
    done = len(audit(person.ledger, None, 331, 48).losses)
    (tmp_path / "again").mkdir()
    with shell(tmp_path / "again", STEPS=str(done + 5), CHECKPOINT=str(person.checkpoint)) as person:
        assert person.process.wait(DEADLINE_S) == 0, person.text
        commits = [json.loads(line)["step"] for line in person.ledger.read_text().splitlines()]
        assert min(commits) == done, "it goes on where it stopped"


def test_who_asks_twice_need_not_wait_for_the_step(tmp_path: Path) -> None:
    with shell(tmp_path, CRASH="w0/amid-step/3/hang") as person:
        person.until_steps(3)
        person.process.send_signal(signal.SIGINT)
        person.until_said("stopping at the next step boundary")
        person.process.send_signal(signal.SIGINT)
        assert person.process.wait(DEADLINE_S) == 130
        person.until_gone()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_workers_that_lose_their_controller_save_and_say_how_to_go_on(
    number: signal.Signals, tmp_path: Path
) -> None:
    with shell(tmp_path, "--workers", "2", "--spare", "1") as person:
        person.until_said("generation 1: 2 workers")
        person.until(lambda: list(person.status()["workers"].values()).count("ready") == 1)  # type: ignore[attr-defined]
        person.until_steps(20)
        person.process.send_signal(number)
        person.until(lambda: person.text.count("is gone") == 3)
        assert "Traceback" not in person.text
        assert f"saved to {person.checkpoint}: start the same command again" in person.text
        assert "had not joined yet and ends" in person.text, "the spare"
        audit(person.ledger, None, 331, 48)
        person.process.kill()
        person.until_gone()


def test_a_training_that_fails_says_why(tmp_path: Path) -> None:
    with shell(tmp_path, CRASH="*/amid-step/4/raise") as person:
        assert person.process.wait(DEADLINE_S) == 1
        assert "the training stopped: no worker that holds the training state is left alive" in person.text
        assert "ValueError: sample 17 of w0 is spoiled" in person.text.splitlines()[-1]


def test_a_second_controller_does_not_take_the_socket_of_a_first(tmp_path: Path) -> None:
    with shell(tmp_path) as person:
        person.until_said("resize with")
        words = [sys.executable, "-m", "fallow.controller", "--socket", str(person.socket), "--", str(SCRIPT)]
        second = subprocess.run(
            words, cwd=ROOT, capture_output=True, text=True, check=False, timeout=DEADLINE_S
        )
        assert second.returncode == 2
        assert "listens at" in second.stderr
        assert "Traceback" not in second.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--min", "3", "--max", "2", "--", str(SCRIPT)], "1 <= min <= max"),
        (["--workers", "5", "--max", "2", "--", str(SCRIPT)], "lies outside"),
        (["--spare", "-1", "--", str(SCRIPT)], "0 or more"),
        (["--", "no_such_script.py"], "no such script"),
        (["--", "-m"], "-m needs a module"),
        ([], "give a training after --"),
        (["resize", "3", "--", str(SCRIPT)], "either a training"),
        (["--listen", "127.0.0.1:99999", "--", str(SCRIPT)], "no port from 0 to 65535"),
        (["--listen", "127.0.0.1:²", "--", str(SCRIPT)], "is not HOST:PORT"),
        (["--listen", "0.0.0.0:29777", "--", str(SCRIPT)], "with an address of this machine"),
        (["--start-timeout", "inf", "--", str(SCRIPT)], "'inf' is no number of seconds above 0"),
    ],
)
def test_wrong_usage_is_told_before_anything_starts(arguments: list[str], message: str) -> None:
    words = [sys.executable, "-m", "fallow.controller", *arguments]
    told = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False, timeout=DEADLINE_S)
    assert told.returncode == 2
    assert message in told.stderr


def test_workers_see_the_variables_of_torchrun_and_modules_run_too(tmp_path: Path) -> None:
    (tmp_path / "shown.py").write_text(
        "import os, json, sys, torch, fallow\n"
        "keys = 'RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT'.split()\n"
        "line = f'SHOWN {json.dumps([os.environ[key] for key in keys])} {sys.argv[1:]}\\n'\n"
        "os.write(1, line.encode())  # whole: the other worker writes to the same end\n"
        "model = torch.nn.Linear(2, 2)\n"
        "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
        "trainer = fallow.connect().elastic(model, optimizer, global_batch=4, max_micro_batch=4)\n"
        "for _, batches in trainer.steps(torch.utils.data.TensorDataset(torch.ones(8, 2)), 3):\n"
        "    for (x,) in batches:\n"
        "        trainer.backward(model(x).mean())\n"
        "    trainer.step()\n"
    )
    words = [sys.executable, "-m", "fallow.controller", "--workers", "2", "--", "-m", "shown", "--flag"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    run = subprocess.run(
        words, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=DEADLINE_S
    )
    assert run.returncode == 0, run.stderr
    shown = [line for line in run.stdout.splitlines() if line.startswith("SHOWN")]
    assert len(shown) == 2
    for rank, line in enumerate(sorted(shown)):
        assert f'["{rank}", "2", "{rank}", "2", "127.0.0.1", ' in line
        assert line.endswith("['--flag']")

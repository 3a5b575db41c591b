"""``fallow run`` at a pseudo-terminal: one live line, keys that reach the job once, job control."""

import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from advisor.jobs.model import PauseCommand, StartCommand
from collector.model import GpuUuid
from tests.service.launcher.conftest import LIGHT, until
from tests.service.launcher.wire_service import LIMIT_S, WireService

A = GpuUuid("GPU-a")

COUNTER = """
import signal, sys, time
def count(*_):
    print("interrupted", flush=True)
signal.signal(signal.SIGINT, count)
print("ready", flush=True)
for line in sys.stdin:
    print("got " + line.strip(), flush=True)
    if line.strip() == "quit":
        sys.exit(9)
"""


class Terminal:
    """A program in a session of its own at a pseudo-terminal."""

    def __init__(self, words: list[str], env: dict[str, str]) -> None:
        environment = {key: value for key, value in os.environ.items() if not key.startswith("FALLOW_")}
        pid, self.keys = pty.fork()
        if pid == 0:
            os.execvpe(words[0], words, environment | LIGHT | env)
        self.pid = pid
        self.shown = ""
        self.status: int | None = None

    def type(self, text: str) -> None:
        os.write(self.keys, text.encode())

    def shows(self, text: str, times: int = 1) -> None:
        deadline = time.monotonic() + LIMIT_S
        while self.shown.count(text) < times:
            assert time.monotonic() < deadline, f"{text!r} is not in {self.shown!r}"
            self._read(0.1)

    def end(self) -> int:
        deadline = time.monotonic() + LIMIT_S
        while self.status is None:
            assert time.monotonic() < deadline, f"it goes on: {self.shown!r}"
            self._read(0.05)
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.status = os.waitstatus_to_exitcode(status)
        return self.status

    def close(self) -> None:
        if self.status is None:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self.keys)

    def _read(self, limit_s: float) -> None:
        readable, _, _ = select.select([self.keys], [], [], limit_s)
        if readable:
            try:
                self.shown += os.read(self.keys, 65536).decode(errors="replace")
            except OSError:  # nobody has the terminal open any more
                time.sleep(limit_s)


Sit = Callable[..., Terminal]


@pytest.fixture
def sit(service: WireService) -> Iterator[Sit]:
    made: list[Terminal] = []

    def start(*words: str) -> Terminal:
        made.append(Terminal(list(words), service.env))
        return made[-1]

    yield start
    for each in made:
        each.close()


def run(*words: str) -> list[str]:
    return [sys.executable, "-m", "service.cli", "run", *words]


@pytest.fixture
def counter(tmp_path: Path) -> list[str]:
    (tmp_path / "counter.py").write_text(COUNTER)
    return [sys.executable, str(tmp_path / "counter.py")]


def test_a_waiting_job_has_one_line_that_is_redrawn_in_its_place(service: WireService, sit: Sit) -> None:
    terminal = sit(*run("--", "true"))
    service.place(3, 7, "2 free GPUs")
    terminal.shows("3 of 7 in the queue: 2 free GPUs")
    service.place(2, 7, "1 free GPU")
    terminal.shows("2 of 7")
    service.tell(StartCommand(number=1, gpus=(A,)))
    assert terminal.end() == 0
    assert "\n" not in terminal.shown
    assert terminal.shown.endswith("\r\x1b[K")


def test_the_job_has_the_terminal(service: WireService, sit: Sit, counter: list[str]) -> None:
    terminal = sit(*run("--interactive", "--", *counter))
    service.tell(StartCommand(number=1, gpus=(A,)))
    terminal.shows("ready")
    terminal.type("hello\n")
    terminal.shows("got hello")
    assert service.submissions[0]["kind"] == "interactive"
    service.until(lambda: service.reports[-1]["attached"], "it says that somebody sits there")
    assert 0 <= service.reports[-1]["quiet_s"] < 600
    terminal.type("quit\n")
    assert terminal.end() == 9


def test_ctrl_c_reaches_the_job_once_and_the_job_decides(
    service: WireService, sit: Sit, counter: list[str]
) -> None:
    terminal = sit(*run("--", *counter))
    service.tell(StartCommand(number=1, gpus=(A,)))
    terminal.shows("ready")
    for count in (1, 2):
        terminal.type("\x03")
        terminal.shows("interrupted", count)
        terminal.type(f"after {count}\n")
        terminal.shows(f"got after {count}")
    assert terminal.shown.count("interrupted") == 2
    terminal.type("quit\n")
    assert terminal.end() == 9


def test_ctrl_c_ends_the_launcher_of_a_job_that_dies_of_it(service: WireService, sit: Sit) -> None:
    terminal = sit(*run("--", "sh", "-c", "echo ready; exec sleep 600"))
    service.tell(StartCommand(number=1, gpus=(A,)))
    terminal.shows("ready")
    terminal.type("\x03")
    assert terminal.end() == -signal.SIGINT
    assert service.reports[-1]["exit_reason"] == "cancelled"


def test_ctrl_c_of_a_waiting_job_cancels_it(service: WireService, sit: Sit) -> None:
    terminal = sit(*run("--", "true"))
    service.place(1, 1, "a GPU")
    terminal.shows("in the queue")
    terminal.type("\x03")
    assert terminal.end() == -signal.SIGINT
    assert service.reports[-1]["exit_reason"] == "cancelled"


def test_ctrl_z_stops_the_job_and_fg_goes_on_with_it(
    service: WireService, sit: Sit, counter: list[str]
) -> None:
    terminal = sit("bash", "--norc", "--noprofile", "-i")
    terminal.type("PS1='at the prompt> '\n")
    terminal.shows("at the prompt> ", 2)
    terminal.type(" ".join(run("--", *counter)) + "\n")
    service.tell(StartCommand(number=1, gpus=(A,)))
    terminal.shows("ready")
    worker = service.handled(1)["pids"][0]
    terminal.type("\x1a")
    terminal.shows("Stopped")
    until(lambda: state(worker) == "T", "the job is stopped")
    terminal.type("fg\n")
    until(lambda: state(worker) in "SR", "the job goes on")
    terminal.type("hello\n")
    terminal.shows("got hello")
    terminal.type("quit\n")
    terminal.shows("at the prompt> ", 4)
    terminal.type("echo ended with $?\n")
    terminal.shows("ended with 9")
    terminal.type("exit\n")
    terminal.end()


def test_a_key_lets_a_paused_interactive_job_go_on(service: WireService, sit: Sit, tmp_path: Path) -> None:
    saves = (  # a signal that came just before input() began to read would be seen at the next key only
        "import signal, sys, time",
        "signal.signal(signal.SIGUSR1, lambda *_: sys.exit(0))",
        "print('ready')",
        "while True: time.sleep(0.05)",
    )
    (tmp_path / "saves.py").write_text("\n".join(saves))
    words = [sys.executable, "-u", str(tmp_path / "saves.py")]
    terminal = sit(*run("--interactive", "--checkpoint-signal", "USR1", "--", *words))
    service.tell(StartCommand(number=1, gpus=(A,)))
    terminal.shows("ready")
    service.tell(PauseCommand(number=2))
    service.handled(2)
    terminal.shows("press Enter")
    assert service.orders == []
    terminal.type("\n")
    service.until(lambda: service.orders == ["/v1/jobs/fallow%3A1/resume"], "it asks for devices again")
    assert service.nonces == {service.submissions[0]["nonce"]}


def test_ctrl_c_ends_a_shell_loop_around_the_launcher(service: WireService, sit: Sit) -> None:
    command = " ".join(run("--", "sleep", "600"))
    terminal = sit("bash", "-c", f"while :; do echo begins; {command}; done")
    service.tell(StartCommand(number=1, gpus=(A,)))
    service.handled(1)
    terminal.type("\x03")
    assert terminal.end() in (-signal.SIGINT, 128 + signal.SIGINT)
    assert terminal.shown.count("begins") == 1


def state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def test_nohup_is_respected(service: WireService, tmp_path: Path) -> None:
    out = tmp_path / "out"
    environment = {key: value for key, value in os.environ.items() if not key.startswith("FALLOW_")}
    with out.open("wb") as file:
        job = subprocess.Popen(
            ["nohup", *run("--", "sh", "-c", f"until [ -e {tmp_path}/finish ]; do sleep 0.02; done")],
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            env=environment | LIGHT | service.env,
        )
    try:
        service.tell(StartCommand(number=1, gpus=(A,)))
        pid = service.handled(1)["pids"][0]
        job.send_signal(signal.SIGHUP)
        os.kill(pid, signal.SIGHUP)
        (tmp_path / "finish").touch()
        assert job.wait(LIMIT_S) == 0
    finally:
        job.kill()
        job.wait()

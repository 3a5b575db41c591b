"""Real processes under a real guard: started, signalled, swept; killed guards and launchers leave nobody."""

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest

from service.launcher import tree
from service.launcher.crew import AllEnded, Ended, News, SignalAnswer, Started, Supervisor, Unstartable
from tests import headless

LIMIT_S = 30.0
T = TypeVar("T")

FAMILY = """
import os, signal, subprocess, sys, time
from pathlib import Path
stubborn = "--stubborn" in sys.argv
if stubborn:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = os.fork()
if child == 0:
    os.setsid()
    if os.fork():
        os._exit(0)
    Path(sys.argv[1]).write_text(str(os.getpid()))
    time.sleep(600)
    os._exit(0)
os.waitpid(child, 0)
while True:
    time.sleep(600)
"""
"""A worker with a grandchild that left its session: what daemons do."""


@pytest.fixture
def crew() -> Iterator[Supervisor]:
    made = Supervisor()
    yield made
    made.close()


class Heard:
    """News as they come, none lost between two waits."""

    def __init__(self, crew: Supervisor):
        self.crew = crew
        self.all: list[News] = []
        self._read = 0

    def next(self, kind: type[T]) -> T:
        deadline = time.monotonic() + LIMIT_S
        while True:
            for at in range(self._read, len(self.all)):
                if isinstance(found := self.all[at], kind):
                    self._read = at + 1
                    return found
            readable, _, _ = select.select([self.crew], [], [], max(0.0, deadline - time.monotonic()))
            assert readable, f"no {kind.__name__} within {LIMIT_S:g} s, only {self.all}"
            self.all.extend(self.crew.news())


def started(heard: Heard, words: list[str], **env: str) -> int:
    heard.crew.start(0, words, {**os.environ, **env}, signal.SIGKILL)
    return heard.next(Started).pid


def until(holds: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + LIMIT_S
    while not holds():
        assert time.monotonic() < deadline, f"not within {LIMIT_S:g} s: {what}"
        time.sleep(0.01)


def state(pid: int) -> str:
    """As the kernel shows it; empty where there is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""


def lives(pid: int) -> bool:
    return state(pid) not in ("", "Z", "X")


def family(folder: Path, *flags: str) -> tuple[list[str], Path]:
    script, told = folder / "family.py", folder / "daemon"
    script.write_text(FAMILY)
    return [sys.executable, str(script), str(told), *flags], told


def daemon(told: Path) -> int:
    until(lambda: told.exists() and told.read_text() != "", "the daemon runs")
    return int(told.read_text())


def test_a_workers_exit_code_is_told(crew: Supervisor) -> None:
    heard = Heard(crew)
    started(heard, ["sh", "-c", "exit 37"])
    assert heard.next(Ended) == Ended(worker=0, code=37)


def test_a_worker_that_a_signal_ended_says_which(crew: Supervisor) -> None:
    heard = Heard(crew)
    os.kill(started(heard, ["sleep", "600"]), signal.SIGKILL)
    assert heard.next(Ended).code == -signal.SIGKILL


def test_a_command_that_is_not_there_is_an_answer_not_a_crash(crew: Supervisor) -> None:
    heard = Heard(crew)
    crew.start(0, ["no-such-program-here"], dict(os.environ), signal.SIGKILL)
    assert "No such file" in heard.next(Unstartable).why
    started(heard, ["true"])
    assert heard.next(Ended).code == 0


def test_a_worker_gets_its_environment_and_nothing_of_ours_stays_open(
    crew: Supervisor, tmp_path: Path
) -> None:
    heard = Heard(crew)
    told = tmp_path / "told"
    listing = f"echo $MARK >{told}; ls /proc/self/fd >>{told}"
    subprocess.run(["sh", "-c", listing], env={**os.environ, "MARK": "plain"}, close_fds=False, check=True)
    plain = told.read_text().split()[1:]
    started(heard, ["sh", "-c", listing], MARK="leased")
    heard.next(Ended)
    mark, *open_files = told.read_text().split()
    assert mark == "leased"
    assert open_files == plain


def test_a_worker_starts_with_no_signal_blocked_or_ignored(crew: Supervisor) -> None:
    heard = Heard(crew)
    pid = started(heard, ["sleep", "600"])
    status = Path(f"/proc/{pid}/status").read_text()
    masks = {
        line[:6]: int(line.split()[1], 16) for line in status.splitlines() if line[:6] in ("SigBlk", "SigIgn")
    }
    assert masks["SigBlk"] == 0
    assert masks["SigIgn"] & (1 << (signal.SIGPIPE - 1)) == 0


def test_nothing_lives_on_after_a_sweep_not_even_what_left_its_session(
    crew: Supervisor, tmp_path: Path
) -> None:
    heard = Heard(crew)
    words, told = family(tmp_path)
    pid = started(heard, words)
    left = daemon(told)
    crew.sweep(5.0)
    assert heard.next(AllEnded) == AllEnded(guard_died=False)
    assert not lives(pid)
    assert not lives(left)


def test_a_worker_whose_first_thread_has_ended_is_swept_too(crew: Supervisor) -> None:
    """The kernel shows it as a zombie, and its other threads have the GPU."""
    heard = Heard(crew)
    pid = started(heard, [sys.executable, "-c", headless.program()])
    until(lambda: state(pid) == "Z", "its first thread has ended")
    assert pid in tree.descendants(os.getpid())
    crew.sweep(0.2)
    assert heard.next(AllEnded) == AllEnded(guard_died=False)
    assert not Path(f"/proc/{pid}").exists()


def test_what_ignores_the_request_to_end_is_killed_after_its_patience(
    crew: Supervisor, tmp_path: Path
) -> None:
    heard = Heard(crew)
    words, told = family(tmp_path, "--stubborn")
    pid = started(heard, words)
    left = daemon(told)
    crew.sweep(0.2)
    heard.next(AllEnded)
    assert (
        heard.next(Ended).code == -signal.SIGKILL
        if not any(isinstance(e, Ended) for e in heard.all)
        else True
    )
    assert not lives(pid)
    assert not lives(left)


def test_a_stopped_process_is_swept_too(crew: Supervisor) -> None:
    heard = Heard(crew)
    pid = started(heard, ["sleep", "600"])
    os.kill(pid, signal.SIGSTOP)
    crew.sweep(5.0)
    heard.next(AllEnded)
    assert not lives(pid)


def test_a_killed_guard_takes_its_workers_along_and_what_they_left_is_ended(tmp_path: Path) -> None:
    crew = Supervisor()
    heard = Heard(crew)
    words, told = family(tmp_path)
    pid = started(heard, words)
    left = daemon(told)
    assert crew.guard_pid is not None
    os.kill(crew.guard_pid, signal.SIGKILL)
    assert heard.next(AllEnded) == AllEnded(guard_died=True)
    assert not lives(pid)
    assert not lives(left)


LAUNCHER = """
import os, select, signal, sys
from service.launcher.crew import Supervisor, Started
crew = Supervisor()
crew.start(0, sys.argv[1:], dict(os.environ), signal.SIGKILL)
while not (news := crew.news()):
    continue
print(news[0].pid, crew.guard_pid, crew.keeper_pid, flush=True)
select.select([], [], [])
"""


def launched(words: list[str]) -> "tuple[subprocess.Popen[str], int, int, int]":
    """A launcher in a group of its own: with its worker's, its guard's and its keeper's pid."""
    launcher = subprocess.Popen(
        [sys.executable, "-c", LAUNCHER, *words],
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path.cwd(),
        process_group=0,
    )
    assert launcher.stdout is not None
    pid, guard, keeper = map(int, launcher.stdout.readline().split())
    return launcher, pid, guard, keeper


@pytest.mark.parametrize("flags", [(), ("--stubborn",)])
@pytest.mark.parametrize("how", ["both", "group"])
def test_launcher_and_guard_killed_at_the_same_instant_leave_nothing(
    tmp_path: Path, flags: tuple[str, ...], how: str
) -> None:
    words, told = family(tmp_path, *flags)
    launcher, pid, guard, keeper = launched(words)
    left = daemon(told)
    if how == "group":
        os.killpg(launcher.pid, signal.SIGKILL)
    else:
        for each in (launcher.pid, guard):
            os.kill(each, signal.SIGSTOP)
        for each in (guard, launcher.pid):
            os.kill(each, signal.SIGKILL)
    launcher.wait()
    until(lambda: not any(map(lives, (pid, guard, left, keeper))), "all that the launcher had are gone")


def test_a_killed_keeper_changes_nothing_for_the_job_and_its_end(tmp_path: Path) -> None:
    crew = Supervisor()
    heard = Heard(crew)
    words, told = family(tmp_path)
    pid = started(heard, words)
    left, guard = daemon(told), crew.guard_pid
    os.kill(crew.keeper_pid, signal.SIGKILL)
    until(lambda: not lives(crew.keeper_pid), "the keeper is gone")
    assert lives(pid) and lives(left) and guard is not None and lives(guard)
    crew.sweep(5.0)
    heard.next(AllEnded)
    crew.close()
    assert not any(map(lives, (pid, left, guard)))


@pytest.mark.parametrize("flags", [(), ("--stubborn",)])
def test_a_killed_launcher_takes_everything_along(tmp_path: Path, flags: tuple[str, ...]) -> None:
    words, told = family(tmp_path, *flags)
    launcher, pid, guard, keeper = launched(words)
    left = daemon(told)
    launcher.kill()
    launcher.wait()
    until(lambda: not any(map(lives, (pid, guard, left, keeper))), "all that the launcher had are gone")


CATCHER = """
import signal, sys, time
from pathlib import Path
signal.signal(signal.SIGUSR1, lambda *_: Path(sys.argv[1]).write_text("asked"))
Path(sys.argv[1]).write_text("ready")
while True:
    time.sleep(600)
"""


def test_a_signal_finds_the_one_who_listens_behind_a_shell(crew: Supervisor, tmp_path: Path) -> None:
    heard = Heard(crew)
    script, told = tmp_path / "catcher.py", tmp_path / "told"
    script.write_text(CATCHER)
    pid = started(heard, ["sh", "-c", f'"{sys.executable}" "{script}" "{told}"; exit 3'])
    until(lambda: told.exists() and told.read_text() == "ready", "it listens")
    crew.ask(signal.SIGUSR1)
    assert heard.next(SignalAnswer).heard
    until(lambda: told.read_text() == "asked", "the listener was asked")
    assert lives(pid)
    assert len(tree.listeners(pid, signal.SIGUSR1)) == 1


def test_a_signal_that_nobody_listens_to_is_not_sent(crew: Supervisor) -> None:
    heard = Heard(crew)
    pid = started(heard, ["sleep", "600"])
    crew.ask(signal.SIGUSR1)
    assert not heard.next(SignalAnswer).heard
    assert lives(pid)


COUNTER = """
import os, signal, sys, time
from pathlib import Path
told = Path(sys.argv[1])
if "--apart" in sys.argv:
    os.setsid()
def count(*_):
    with told.open("a") as file:
        file.write("x")
signal.signal(signal.SIGTERM, count)
told.write_text("r")
while True:
    time.sleep(600)
"""
GROUP = """
import os, select, signal, sys
from service.launcher.crew import Supervisor
crew = Supervisor()
def forward(number, frame):
    crew.signal(number, unless_heard=True)
    with open(os.environ["FORWARDED"], "a") as file:
        file.write("f")
signal.signal(signal.SIGTERM, forward)
crew.start(0, sys.argv[1:], dict(os.environ), signal.SIGKILL)
while True:
    try:
        crew.news()
    except InterruptedError:
        pass
"""


@pytest.mark.parametrize(("to_group", "flags"), [(True, ()), (False, ()), (True, ("--apart",))])
def test_a_signal_reaches_a_worker_once_sent_to_one_or_to_the_group(
    tmp_path: Path, to_group: bool, flags: tuple[str, ...]
) -> None:
    script, told, forwarded = (tmp_path / name for name in ("counter.py", "told", "forwarded"))
    script.write_text(COUNTER)
    forwarded.touch()
    launcher = subprocess.Popen(
        [sys.executable, "-c", GROUP, sys.executable, str(script), str(told), *flags],
        cwd=Path.cwd(),
        env={**os.environ, "FORWARDED": str(forwarded)},
        start_new_session=True,
    )
    try:
        until(lambda: told.exists() and told.read_text() == "r", "the worker listens")
        for count in (1, 2, 3):
            send = os.killpg if to_group else os.kill
            send(launcher.pid, signal.SIGTERM)
            until(lambda count=count: told.read_text() == "r" + "x" * count, f"it heard {count}")
            until(lambda count=count: forwarded.read_text() == "f" * count, "two at once would be one")
        os.kill(launcher.pid, signal.SIGTERM)
        until(lambda: told.read_text() != "rxxx", "the fourth")
        assert told.read_text() == "rxxxx"
    finally:
        launcher.kill()
        launcher.wait()

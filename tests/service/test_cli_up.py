"""``fallow up`` as a real process: both programs start, both stop, and one never outlives the other."""

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.request import urlopen

import pytest

from service.client import running
from tests.service.conftest import SMALL, Running, start, until, verb

pytestmark = pytest.mark.process


class Up:
    """A running ``fallow up`` and what it printed so far."""

    def __init__(self, data: Path, *words: str) -> None:
        data.mkdir(parents=True, exist_ok=True)
        (data / "fallow.toml").write_text(SMALL)
        self.data = data
        self.begin("--data", str(data), "--source", "simulated", *words)

    @classmethod
    def bare(cls, **variables: str) -> "Up":
        """Without a flag, in an environment that names nothing but these."""
        made = cls.__new__(cls)
        made.begin(env=variables | {"PATH": os.environ["PATH"]})
        return made

    def begin(self, *words: str, env: Mapping[str, str] | None = None) -> None:
        command = [sys.executable, "-m", "service.cli", "up", *words]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(
            command, stdout=pipe, stderr=pipe, text=True, start_new_session=True, env=env
        )
        self.lines: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def text(self) -> str:
        return "".join(self.lines)

    def url(self) -> str:
        def told() -> bool:
            assert self.process.poll() is None, self.complaints()
            return any("Fallow is up at" in line for line in self.lines)

        until("the address is printed", told)
        line = next(line for line in self.lines if "Fallow is up at" in line)
        return line.split(" at ")[1].split()[0]

    def children(self) -> list[int]:
        found = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text()
        return [int(pid) for pid in found.split()]

    def end(self, how: signal.Signals = signal.SIGINT) -> int:
        if self.process.poll() is None:
            self.process.send_signal(how)
        status = self.process.wait(timeout=40)
        self._reader.join()
        return status

    def complaints(self) -> str:
        assert self.process.stderr is not None
        return self.process.stderr.read()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line)


@pytest.fixture
def up(tmp_path: Path) -> Iterator[Up]:
    made = Up(tmp_path / "data")
    yield made
    made.end()


def environment(pid: int) -> str:
    return Path(f"/proc/{pid}/environ").read_text()


def test_a_dashboard_that_may_act_is_given_a_code_of_its_own_and_the_service_is_not(tmp_path: Path) -> None:
    made = Up(tmp_path / "data", "--allow-acting")
    try:
        made.url()
        until("the link is printed", lambda: any("/?code=" in line for line in made.lines))
        line = next(line for line in made.lines if "/?code=" in line)
        code = line.split("/?code=")[1].strip()
        assert len(code) >= 43
        held = [code in environment(pid) for pid in made.children()]
        assert sorted(held) == [False, True]
    finally:
        made.end()


def test_a_dashboard_that_only_reads_is_given_none(up: Up) -> None:
    up.url()
    assert not any("code=" in line for line in up.lines)
    assert not any("FALLOW_DASHBOARD_CODE" in environment(pid) for pid in up.children())


@pytest.mark.parametrize("how", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.long)])
def test_both_answer_once_the_address_is_printed_and_both_stop(up: Up, how: signal.Signals) -> None:
    with urlopen(up.url(), timeout=10) as page:
        assert page.status == 200
    assert running(up.data) is not None
    children = up.children()
    assert len(children) == 2
    assert up.end(how) == 0
    assert sum("Fallow is up at" in line for line in up.lines) == 1
    assert running(up.data) is None
    assert not any(is_alive(pid) for pid in children)
    assert "Traceback" not in up.complaints()


def test_up_says_what_each_source_answers_and_so_does_doctor(up: Up) -> None:
    up.url()
    assert "  simulated: answers" in up.text() and "  4 GPUs measured" in up.text()
    found = verb("doctor", data=up.data).stdout
    assert "✓ simulated" in found and "4 GPUs measured" in found


def test_a_source_that_nobody_answers_is_no_fallow_that_is_up(tmp_path: Path) -> None:
    up = Up.__new__(Up)
    up.data = tmp_path / "data"
    up.begin("--data", str(up.data), "--source", "dcgm=http://127.0.0.1:9", "--tick", "1")
    try:
        until("it says so", lambda: "Nothing is measured" in up.text(), limit_s=60)
        assert re.search(r"dcgm: cannot connect to http://127.0.0.1:9\S*: Connection refused", up.text())
        assert "  0 GPUs measured" in up.text() and "Fallow is up" not in up.text()
        done = verb("doctor", data=up.data)
        assert done.returncode == 1 and "✗ dcgm" in done.stdout and "✗ measured" in done.stdout
    finally:
        up.end()


def test_death_of_the_service_stops_the_dashboard_and_is_said(up: Up) -> None:
    up.url()
    said = running(up.data)
    assert said is not None
    dashboard = [pid for pid in up.children() if pid != said.pid]
    os.kill(said.pid, signal.SIGKILL)
    assert up.process.wait(timeout=40) == 2
    assert "the service ended by itself" in up.complaints()
    assert not any(is_alive(pid) for pid in dashboard)


def test_killing_up_outright_ends_both(up: Up) -> None:
    up.url()
    children = up.children()
    up.process.kill()
    up.process.wait(timeout=10)
    until("both have ended", lambda: not any(is_alive(pid) for pid in children))
    assert running(up.data) is None


def test_service_that_runs_already_is_used_and_left_running(tmp_path: Path) -> None:
    first: Running = start(tmp_path / "data")
    try:
        until("the service answers", lambda: running(first.data) is not None)
        up = Up(tmp_path / "data")
        up.url()
        assert len(up.children()) == 1
        assert up.end() == 0
        assert any("runs already" in line for line in up.lines)
        assert running(first.data) is not None
    finally:
        first.stop()


def test_the_machines_service_is_shown_where_nothing_is_named(tmp_path: Path) -> None:
    door = tmp_path / "run" / "fallow" / "fallow.sock"
    machines = start(tmp_path / "data", config=SMALL.replace("[api]", f"[api]\nsocket = '{door}'"))
    try:
        until("the service answers", lambda: running(machines.data) is not None)
        home = {"HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path / "state")}
        up = Up.bare(XDG_RUNTIME_DIR=str(tmp_path / "run"), **home)
        up.url()
        assert any(f"Using the machine's service at unix:{door}" in line for line in up.lines)
        (dashboard,) = up.children()
        assert f"FALLOW_SOCKET={door}" in environment(dashboard)
        assert "FALLOW_DATA=" not in environment(dashboard)
        assert up.end() == 0 and running(machines.data) is not None
        assert not (tmp_path / "state").exists()
    finally:
        machines.stop()


def test_service_that_cannot_start_is_said_in_its_own_words(tmp_path: Path) -> None:
    first = start(tmp_path / "first")
    try:
        until("the service answers", lambda: running(first.data) is not None)
        taken = first.url.rsplit(":", 1)[1]
        up = Up(tmp_path / "second", "--port", taken)
        assert up.process.wait(timeout=40) == 2
        complaints = up.complaints()
        assert f"port {taken} on 127.0.0.1 is in use" in complaints
        assert "the service ended by itself" in complaints
    finally:
        first.stop()


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return False
    return state != "Z"

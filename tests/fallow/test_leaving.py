"""A machine that is asked to leave: its workers end their step and hand over, and nobody waits for them."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed; pip install -c constraints.txt torch")

from fallow import protocol  # noqa: E402
from fallow.protocol import AgentId  # noqa: E402
from fallow.workers.hosts import Hosts, Offer, encode_offer  # noqa: E402
from tests.fallow.steps_written import Written, everything_of, signal_all  # noqa: E402

ROOT = Path(__file__).parents[2]
SCRIPT = Path(__file__).with_name("leaving_train.py")
DEADLINE_S = 150


class Fleet:
    """A controller and agents, each a process of its own, on this machine's loopback."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.written = Written(folder / "steps")
        self.log_path = folder / "controller.log"
        self.control = folder / "control"
        self.processes: list[subprocess.Popen[bytes]] = []

    def start(self, name: str, *words: str, **variables: str) -> subprocess.Popen[bytes]:
        more = {"PYTHONPATH": str(ROOT), "FALLOW_TOKEN": "of this test", "LEDGER": str(self.written.path)}
        with (self.folder / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", *words],
                env={**os.environ, **more, **variables},
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self.processes.append(process)
        return process

    def drive(self, *options: str, **variables: str) -> subprocess.Popen[bytes]:
        words = ("--listen", "127.0.0.1:0", "--slots", "1", "--socket", str(self.control), *options)
        process = self.start("controller", "fallow.controller", *words, "--", str(SCRIPT), **variables)
        self.until(lambda: "machines join" in self.text)
        return process

    def offer(self, name: str, *options: str) -> subprocess.Popen[bytes]:
        where = re.search(r"fallow\.agent (127\.0\.0\.1:\d+)", self.text)
        assert where is not None, self.text
        return self.start(name, "fallow.agent", where[1], "--slots", "1", "--name", name, *options)

    def ask(self, *words: str) -> str:
        line = [sys.executable, "-m", "fallow.controller", "--socket", str(self.control), *words]
        done = subprocess.run(line, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
        return done.stdout

    @property
    def text(self) -> str:
        return self.log_path.read_text()

    def until(self, happens: Callable[[], bool]) -> None:
        end_s = time.monotonic() + DEADLINE_S
        while not happens():
            assert time.monotonic() < end_s, self.logs()
            assert self.processes[0].poll() is None, self.logs()
            time.sleep(0.02)

    def logs(self) -> str:
        return "\n".join(f"{path.name}:\n{path.read_text()}" for path in self.folder.glob("*.log"))

    def until_world(self, workers: int) -> None:
        """Wait until so many compute together, and have done some steps."""
        self.until(lambda: bool(self.written.last()["world"] == workers))
        before = self.written.last()["step"]
        self.until(lambda: bool(self.written.last()["step"] > before + 5))

    def close(self) -> None:
        for process in self.processes:
            for pid in everything_of(process.pid):
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    continue
            process.wait()


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    made = Fleet(tmp_path)
    yield made
    made.close()


def test_a_machine_told_to_leave_hands_over_at_a_step_and_nobody_waits(fleet: Fleet) -> None:
    driver = fleet.drive("--workers", "2", "--max", "2")
    fleet.until(lambda: "generation 1" in fleet.text)
    going = fleet.offer("n1")
    fleet.until_world(2)
    told_s = time.time()
    signal_all(going.pid, signal.SIGTERM)  # as Slurm ends a step: agent, parent of the workers, workers
    fleet.until_world(1)
    pause_s = fleet.written.longest_pause_s(told_s)
    print(f"longest time without a step: {pause_s:.2f} s")
    assert going.wait(DEADLINE_S) == 0, fleet.logs()
    assert "recovers" not in fleet.text, fleet.text
    assert not fleet.written.repeated()
    assert "n1 leaves" in fleet.text and "n1 has left" in fleet.text
    signal_all(driver.pid, signal.SIGTERM)  # the same of the controller's own step: all stop at one boundary
    assert driver.wait(DEADLINE_S) == 143, fleet.logs()
    assert "recovers" not in fleet.text, fleet.text


@pytest.mark.long
def test_a_worker_that_never_ends_its_step_is_killed_after_the_deadline_and_that_is_told(
    fleet: Fleet,
) -> None:
    fleet.drive("--workers", "2", "--max", "2")
    fleet.until(lambda: "generation 1" in fleet.text)
    stuck = fleet.offer("n1", "--leave-timeout", "1")
    fleet.until_world(2)
    told_s = time.time()
    os.kill(everything_of(stuck.pid)[-1], signal.SIGSTOP)  # its worker
    signal_all(stuck.pid, signal.SIGTERM)
    assert stuck.wait(DEADLINE_S) == 143, fleet.logs()
    fleet.until_world(1)
    pause_s = fleet.written.longest_pause_s(told_s)
    print(f"longest time without a step, a worker stuck: {pause_s:.2f} s")
    assert "n1 has left" in fleet.text and "out of reach" not in fleet.text
    assert fleet.text.count("recovers") == 1, fleet.text


@pytest.mark.long
def test_a_machine_that_was_killed_is_given_up_soon(fleet: Fleet) -> None:
    fleet.drive("--workers", "2", "--max", "2")
    fleet.until(lambda: "generation 1" in fleet.text)
    agent = fleet.offer("n1")
    fleet.until_world(2)
    told_s = time.time()
    signal_all(agent.pid, signal.SIGKILL)
    fleet.until(lambda: "n1 is out of reach" in fleet.text)
    fleet.until_world(1)
    pause_s = fleet.written.longest_pause_s(told_s)
    print(f"longest time without a step, a machine killed: {pause_s:.2f} s")
    assert pause_s < 15, "its silence alone takes 20 s to be believed"
    assert not fleet.written.repeated()


@pytest.mark.long
def test_a_machine_that_is_frozen_ends_no_training_and_joins_anew(fleet: Fleet) -> None:
    fleet.drive("--workers", "2", "--max", "2", FALLOW_STEP_TIMEOUT_S="40")
    fleet.until(lambda: "generation 1" in fleet.text)
    agent = fleet.offer("n1")
    fleet.until_world(2)
    signal_all(agent.pid, signal.SIGSTOP)  # no connection says so: the sum with it waits for its full time
    fleet.until(lambda: "n1 is out of reach" in fleet.text)
    fleet.until_world(1)
    signal_all(agent.pid, signal.SIGCONT)
    fleet.until(lambda: fleet.text.count("n1 joined") == 2)
    fleet.until_world(2)
    assert not fleet.written.repeated()


class Store:
    """The controller's end of a store in which machines leave their offers and pulses."""

    def __init__(self) -> None:
        self.values: dict[str, bytes] = {}

    def set(self, key: str, value: str, /) -> None:
        self.values[key] = value.encode()

    def get(self, key: str, /) -> bytes | None:
        return self.values.get(key)


@pytest.mark.quick
def test_a_machine_that_leaves_takes_nobody_and_is_told_apart_from_its_namesake() -> None:
    store, lines = Store(), list[str]()
    hosts = Hosts(Offer(name="here", slots=1, host=""), lambda _: None, ["train.py"], lines.append)  # type: ignore[arg-type, return-value]
    for number, agent in enumerate(("a", "b"), 1):
        store.set(
            protocol.offer_key(number), encode_offer(AgentId(agent), Offer(name="n1", slots=2, host=""))
        )
        store.set(protocol.agent_pulse_key(AgentId(agent)), protocol.pulse(1, False))
    assert hosts.look(store) == frozenset() and hosts.room() == 5
    assert [machine.offer.name for machine in hosts.guests()] == ["n1", "n1.2"]
    hosts.guests()[1].start({protocol.ENV_MEMBER: "w7", "WORLD_SIZE": "1"})
    hosts.drop({"n1.2"})
    assert store.values[protocol.request_key(AgentId("b"), 2)] == b'{"leave": true}'
    assert hosts.look(store) == {"w7"} and hosts.room() == 3
    store.set(protocol.agent_pulse_key(AgentId("a")), protocol.pulse(2, True))  # a signal told this one
    assert hosts.look(store) == {"w7"} and hosts.room() == 1
    for agent in ("a", "b"):
        store.set(protocol.agent_pulse_key(AgentId(agent)), protocol.LEFT)
    assert hosts.look(store) == frozenset() and not hosts.guests()
    assert lines[-2:] == ["n1 has left", "n1.2 has left"]


@pytest.mark.quick
def test_the_first_signal_asks_a_copy_of_it_is_the_same_and_a_second_ends() -> None:
    code = (
        "import os, signal, time\n"
        "from fallow.workers import leave_signal\n"
        "leave_signal.AGAIN_S = 0.2\n"
        "leave = leave_signal.LeaveSignal()\n"
        "leave.hear(signal.SIGTERM)\n"
        "os.kill(os.getpid(), signal.SIGTERM)\n"
        "os.kill(os.getpid(), signal.SIGTERM)\n"
        "assert leave.asked and not leave.asked_again\n"
        "while time.monotonic() < leave.asked_s + 0.2: pass\n"
        "print('lives', flush=True)\n"
        "os.kill(os.getpid(), signal.SIGTERM)\n"
        "print('too long', flush=True)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (-signal.SIGTERM, "lives\n"), done.stderr

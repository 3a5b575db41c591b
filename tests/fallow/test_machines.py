"""Several machines: network namespaces with a cable between them, a gate that strangers don't pass."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed; pip install -c constraints.txt torch")

from fallow.secret import Secret  # noqa: E402
from fallow.workers.hosts import AGENT_SILENCE_S  # noqa: E402
from fallow.workers.relay import HELLO, Refused, Relay, RelayServer, enter  # noqa: E402
from tests.fallow.ledger import audit  # noqa: E402

ROOT = Path(__file__).parents[2]
SCRIPT = Path(__file__).with_name("crash_train.py")
DEADLINE_S = 120
PORT = 29777
TOKEN = "a token of this test"
STRANGER = 65_533
"""An account that owns nothing here."""


def echo() -> socket.socket:
    """A server on loopback that sends everything back."""
    server = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                guest, _ = server.accept()
            except OSError:
                return
            threading.Thread(target=bounce, args=(guest,), daemon=True).start()

    def bounce(guest: socket.socket) -> None:
        while part := guest.recv(65536):
            guest.sendall(part)
        guest.close()

    threading.Thread(target=serve, daemon=True).start()
    return server


def test_who_knows_the_token_is_led_through_and_who_does_not_is_not() -> None:
    server = echo()
    secret = Secret.new()
    gate = RelayServer(("127.0.0.1", 0), server.getsockname(), "right", secret)
    relay = Relay(("127.0.0.1", gate.port), "right")
    host, port = relay.address.split(":")
    sent = os.urandom(3_000_000)
    with socket.create_connection((host, int(port))) as inside:
        threading.Thread(target=inside.sendall, args=(sent,), daemon=True).start()
        got = b""
        while len(got) < len(sent):
            got += inside.recv(65536)
    assert got == sent
    entered = enter(("127.0.0.1", gate.port), "right")
    entered.connection.close()
    assert entered.secret.key == secret.key
    with pytest.raises(Refused):
        enter(("127.0.0.1", gate.port), "wrong")
    gate.close()
    relay.close()
    server.close()


def test_a_stranger_who_says_nothing_or_nonsense_reaches_nothing() -> None:
    reached: list[bool] = []
    target = socket.create_server(("127.0.0.1", 0))

    def note() -> None:
        target.accept()
        reached.append(True)

    threading.Thread(target=note, daemon=True).start()
    gate = RelayServer(("127.0.0.1", 0), target.getsockname(), "right", Secret.new())
    with socket.create_connection(("127.0.0.1", gate.port)) as stranger:
        stranger.sendall(b"GET / HTTP/1.1\r\n\r\n" + bytes(100))
        stranger.settimeout(10)
        got = b"."
        while got:
            try:
                got = stranger.recv(4096)
            except ConnectionResetError:
                break
    assert not reached
    gate.close()


def test_a_false_gate_does_not_learn_the_token_and_is_refused() -> None:
    false = socket.create_server(("127.0.0.1", 0))
    heard: list[bytes] = []

    def pretend() -> None:
        guest, _ = false.accept()
        guest.sendall(HELLO + bytes(32))
        heard.append(guest.recv(4096))
        guest.sendall(bytes(64))

    threading.Thread(target=pretend, daemon=True).start()
    with pytest.raises(Refused, match="does not know our token"):
        enter(false.getsockname(), "the secret")
    assert b"the secret" not in heard[0]


def heard_by(relay: Relay, account: int | None = None) -> bytes:
    """What a process of this or another account hears through a relay to which it says 32 bytes."""
    host, port = relay.address.split(":")
    code = (
        "import os, socket, sys\n"
        "'x'.encode('idna')\n"  # loaded while the interpreter's own files can be read
        "if len(sys.argv) > 3: os.setuid(int(sys.argv[3]))\n"
        "with socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=10) as line:\n"
        "    try:\n"
        "        line.sendall(b'a' * 32)\n"
        "        sys.stdout.buffer.write(line.recv(32))\n"
        "    except OSError: pass\n"
    )
    told = [] if account is None else [str(account)]
    words = [sys.executable, "-c", code, host, port, *told]
    return subprocess.run(words, capture_output=True, timeout=60, check=True).stdout


@pytest.mark.skipif(os.geteuid() != 0, reason="taking another account needs root")
def test_other_accounts_of_a_machine_are_not_led_through_its_relay() -> None:
    server = echo()
    gate = RelayServer(("127.0.0.1", 0), server.getsockname(), "right", Secret.new())
    relay = Relay(("127.0.0.1", gate.port), "right")
    assert heard_by(relay) == b"a" * 32
    assert heard_by(relay, account=STRANGER) == b""
    for end in (gate, relay, server):
        end.close()


def test_a_gate_of_another_version_says_so() -> None:
    older = socket.create_server(("127.0.0.1", 0))

    def greet() -> None:
        guest, _ = older.accept()
        guest.sendall(b"FALLOW1\n" + bytes(32))

    threading.Thread(target=greet, daemon=True).start()
    with pytest.raises(Refused, match="another version of fallow"):
        enter(older.getsockname(), "the secret")
    older.close()


class Machine:
    """A network namespace that stands for a machine."""

    def __init__(self, name: str, folder: Path):
        self.name, self.log_path = name, folder / f"{name}.log"
        self._log = self.log_path.open("a+")
        self.processes: list[subprocess.Popen[bytes]] = []

    def start(self, *words: str, **variables: str) -> subprocess.Popen[bytes]:
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "FALLOW_TOKEN": TOKEN, **variables}
        line = ["ip", "netns", "exec", self.name, sys.executable, "-m", *words]
        process = subprocess.Popen(line, env=environment, stdout=self._log, stderr=self._log)
        self.processes.append(process)
        return process

    @property
    def text(self) -> str:
        return self.log_path.read_text()

    def close(self) -> None:
        for process in self.processes:
            process.kill()
            process.wait()
        self._log.close()


class Site:
    """Two machines and the cable between them."""

    def __init__(self, folder: Path):
        tag = f"fw{os.getpid() % 10000}"
        self.near, self.far = Machine(f"{tag}a", folder), Machine(f"{tag}b", folder)
        self.ledger, self.checkpoint = folder / "ledger", folder / "saved.pt"
        self._cables = (f"{tag}c", f"{tag}d")
        for machine in (self.near, self.far):
            ip("netns", "add", machine.name)
            ip("-n", machine.name, "link", "set", "lo", "up")
        ip("link", "add", self._cables[0], "type", "veth", "peer", "name", self._cables[1])
        for machine, cable, last in ((self.near, self._cables[0], 1), (self.far, self._cables[1], 2)):
            ip("link", "set", cable, "netns", machine.name)
            ip("-n", machine.name, "addr", "add", f"10.99.0.{last}/24", "dev", cable)
            ip("-n", machine.name, "link", "set", cable, "up")

    def cable(self, state: str) -> None:
        """Pull the cable, or put it back."""
        ip("-n", self.far.name, "link", "set", self._cables[1], state)

    def drive(self, *options: str, **variables: str) -> subprocess.Popen[bytes]:
        words = ["fallow.controller", "--listen", f"10.99.0.1:{PORT}", *options, "--", str(SCRIPT)]
        more = {"LEDGER": str(self.ledger), "CHECKPOINT": str(self.checkpoint), "STEPS": "100000"}
        more["FALLOW_STEP_TIMEOUT_S"] = "10"
        return self.near.start(*words, **{**more, **variables})

    def offer(self, slots: int, **variables: str) -> subprocess.Popen[bytes]:
        more = {"LEDGER": str(self.ledger), "STEPS": "100000", "FALLOW_STEP_TIMEOUT_S": "10"}
        return self.far.start(
            "fallow.agent", f"10.99.0.1:{PORT}", "--slots", str(slots), **{**more, **variables}
        )

    def until(self, happens: Callable[[], bool]) -> None:
        deadline_s = time.monotonic() + DEADLINE_S
        while not happens():
            assert time.monotonic() < deadline_s, f"near:\n{self.near.text}\nfar:\n{self.far.text}"
            time.sleep(0.05)

    def steps(self) -> int:
        if not self.ledger.exists():
            return 0
        whole = self.ledger.read_text().splitlines()
        return max((json.loads(line)["step"] for line in whole if '"commit"' in line), default=0)

    def close(self) -> None:
        for machine in (self.near, self.far):
            machine.close()
            pids = subprocess.run(
                ["ip", "netns", "pids", machine.name], capture_output=True, text=True, check=False
            )
            for pid in pids.stdout.split():
                os.kill(int(pid), signal.SIGKILL)
            ip("netns", "del", machine.name)


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    if shutil.which("ip") is None:
        pytest.skip("ip is not installed; on Debian: apt-get install iproute2")
    if os.geteuid() != 0:
        pytest.skip("network namespaces need root")
    probe = subprocess.run(["ip", "netns", "add", f"fwp{os.getpid()}"], capture_output=True, check=False)
    if probe.returncode != 0:
        pytest.skip(f"network namespaces are not to be had here: {probe.stderr.decode().strip()}")
    ip("netns", "del", f"fwp{os.getpid()}")
    place = Site(tmp_path)
    yield place
    place.close()


def test_a_training_spreads_over_two_machines_and_comes_home(site: Site, tmp_path: Path) -> None:
    control = tmp_path / "control"
    driver = site.drive("--slots", "1", "--max", "3", "--workers", "3", "--socket", str(control))
    site.until(lambda: "generation 1: 1 worker (w0)" in site.near.text)
    agent = site.offer(2)
    site.until(lambda: ": 3 workers (w0 w" in site.near.text)
    ask(site, control, "resize", "1")
    site.until(lambda: ": 1 worker (w0), paused" in site.near.text)
    before = site.steps()
    site.until(lambda: site.steps() > before + 20)
    ask(site, control, "stop")
    assert driver.wait(DEADLINE_S) == 75, site.near.text
    assert agent.wait(DEADLINE_S) == 0, site.far.text
    assert "the training is over" in site.far.text
    assert site.checkpoint.exists()
    account = audit(site.ledger, None, 331, 48)
    assert set(account.attempts.values()) == {1}


def test_a_machine_that_does_not_know_the_token_cannot_join(site: Site) -> None:
    site.drive("--slots", "1")
    site.until(lambda: "generation 1" in site.near.text)
    stranger = site.offer(1, FALLOW_TOKEN="guessed")
    assert stranger.wait(DEADLINE_S) == 1
    assert "does not know our token" in site.far.text
    assert "joined" not in site.near.text


def test_a_cable_that_is_out_for_a_moment_changes_nothing(site: Site) -> None:
    site.drive("--slots", "1", "--workers", "2", "--max", "2")
    site.until(lambda: "generation 1" in site.near.text)
    site.offer(1)
    site.until(lambda: "2 workers (w0 w1)" in site.near.text)
    site.cable("down")
    time.sleep(2)
    site.cable("up")
    before = site.steps()
    site.until(lambda: site.steps() > before + 20)
    assert "generation 3" not in site.near.text
    assert set(audit(site.ledger, None, 331, 48).attempts.values()) == {1}


@pytest.mark.long
def test_a_machine_that_is_cut_off_is_given_up_and_comes_back_with_the_cable(site: Site) -> None:
    site.drive("--slots", "1", "--workers", "2", "--max", "2")
    site.until(lambda: "generation 1" in site.near.text)
    site.offer(1)
    site.until(lambda: "2 workers (w0 w1)" in site.near.text)
    site.cable("down")
    site.until(lambda: "is out of reach" in site.near.text)
    site.until(lambda: "a group of 1 worker recovers" in site.near.text)
    site.until(lambda: "lost the controller" in site.far.text)
    assert "is gone" in site.far.text, "the worker there said why it ended"
    before = site.steps()
    site.until(lambda: site.steps() > before + 20)
    site.cable("up")
    site.until(lambda: "2 workers (w0 w" in site.near.text.split("a group of 1 worker recovers")[1])
    before = site.steps()
    site.until(lambda: site.steps() > before + 20)
    assert "Traceback" not in site.near.text + site.far.text
    audit(site.ledger, None, 331, 48)


@pytest.mark.long
def test_workers_wait_no_longer_for_a_machine_that_is_cut_off_than_its_kernel_is_silent(site: Site) -> None:
    patient = {"FALLOW_STEP_TIMEOUT_S": "120"}  # the usual limit of a step
    site.drive("--slots", "1", "--workers", "2", "--max", "2", **patient)
    site.until(lambda: "generation 1" in site.near.text)
    site.offer(1, **patient)
    site.until(lambda: "2 workers (w0 w1)" in site.near.text)
    before = site.steps()
    site.until(lambda: site.steps() > before + 20)
    site.cable("down")
    cut_s, before = time.monotonic(), site.steps()
    site.until(lambda: "a group of 1 worker recovers" in site.near.text)
    site.until(lambda: site.steps() > before + 20)
    without_s = time.monotonic() - cut_s
    print(f"{without_s:.1f} s from the cut to the twentieth step after it")
    assert without_s < AGENT_SILENCE_S, site.near.text
    audit(site.ledger, None, 331, 48)


def ask(site: Site, control: Path, *words: str) -> None:
    line = [sys.executable, "-m", "fallow.controller", "--socket", str(control), *words]
    subprocess.run(line, check=True, cwd=ROOT, capture_output=True, timeout=DEADLINE_S)

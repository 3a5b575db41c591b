"""What another account of the machine can do to a training: keep words from it, and nothing else."""

import os
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed; pip install -c constraints.txt torch")
import torch.distributed as dist  # noqa: E402

from fallow.control_server import Answer, ControlSocket, Waiting, ask  # noqa: E402
from fallow.controller.controller import Controller  # noqa: E402
from fallow.process_group import group as groups  # noqa: E402
from fallow.process_group import peer_proof  # noqa: E402
from fallow.process_group.address_store import Meeting  # noqa: E402
from fallow.process_group.collectives import Group, GroupBroken  # noqa: E402
from fallow.secret import Secret  # noqa: E402
from fallow.workers.pool import WorkerPool  # noqa: E402
from tests.fallow.crew import LIMITS, run, training, until_resized  # noqa: E402
from tests.fallow.ranks import CPU  # noqa: E402
from tests.fallow.stranger import ACCOUNT  # noqa: E402

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]
DEADLINE_S = 120
STEPS = 60
OTHER = ACCOUNT - 1
MEETING = "generation/1"
SECRET = "fallow-secret"
"""What the kernel calls the memory behind the descriptor."""
SEQUENCES = range(4)
"""gloo numbers the peers that a port waits for, from 0 on."""
ROUNDS = 14
"""Each goes one way or the other: all go the same way once in 16,000 times."""
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="taking another account needs root")
SCRIPT = """
import os, time, torch, fallow
from pathlib import Path

model = torch.nn.Linear(2, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
trainer = fallow.connect().elastic(model, optimizer, global_batch=4, max_micro_batch=2)
data = torch.utils.data.TensorDataset(torch.ones(8, 2))
for step, batches in trainer.steps(data, int(os.environ["STEPS"])):
    for (x,) in batches:
        trainer.backward(model(x).mean())
    done = trainer.step()
    if done is not None and trainer.rank == 0:
        with Path(os.environ["DONE"]).open("a") as file:
            file.write(f"{step}\\n")
    while step == 20 and done is not None and not Path(os.environ["GO"]).exists():
        time.sleep(0.02)
"""


@contextmanager
def stranger(
    what: str, *arguments: str, until: str | None = None, account: int = ACCOUNT
) -> Iterator[subprocess.Popen[str]]:
    """Another account at work; entered when it has printed the line ``until``, ended with the block."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.fallow.stranger", str(account), what, *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "TORCH_CPP_LOG_LEVEL": "ERROR"},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        if until is not None:
            assert process.stdout is not None
            assert process.stdout.readline().strip() == until
        yield process
    finally:
        process.kill()
        process.communicate()


def said(what: str, *arguments: str, account: int = ACCOUNT) -> str:
    """All that another account prints while it does something, to its end."""
    with stranger(what, *arguments, account=account) as process:
        return process.communicate(timeout=DEADLINE_S)[0]


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """One that every account can write to; those of pytest are closed to others."""
    folder = Path(tempfile.mkdtemp(prefix="fallow-test-"))
    folder.chmod(0o777)
    yield folder
    shutil.rmtree(folder)


class Training:
    """A driven training of real processes that rests at step 20 until ``go``."""

    def __init__(self, folder: Path):
        self.done, self.go, self.told = folder / "done", folder / "go", list[str]()
        (folder / "train.py").write_text(SCRIPT)
        variables = {"STEPS": str(STEPS), "DONE": str(self.done), "GO": str(self.go), "PYTHONPATH": str(ROOT)}
        self.nursery = WorkerPool([str(folder / "train.py")], {**variables, "OMP_NUM_THREADS": "1"})
        self.controller = Controller(
            self.nursery.spawn, workers=1, maximum=2, limits=LIMITS, tell=self.told.append
        )
        self.attack: threading.Thread | None = None

    def steps(self) -> list[int]:
        return [int(line) for line in self.done.read_text().splitlines()] if self.done.exists() else []

    def run(self, attack: "threading.Thread") -> int:
        """To its end; ``attack`` runs at step 20, and a second worker is asked for after it."""
        deadline_s = time.monotonic() + 2 * DEADLINE_S

        def poll(controller: Controller) -> None:
            assert time.monotonic() < deadline_s, controller.journal
            if not attack.ident and 20 in self.steps():
                attack.start()
            elif attack.ident and not attack.is_alive() and not self.go.exists():
                controller.resize(2)
                self.go.touch()

        try:
            return self.controller.run(poll)
        finally:
            self.nursery.close()


@needs_root
def test_a_stranger_who_publishes_a_plan_and_hands_over_a_pickle_changes_nothing(tmp_path: Path) -> None:
    training, marker, heard = Training(tmp_path), tmp_path / "ran", list[str]()
    port = training.controller.address.rsplit(":", 1)[1]
    attack = threading.Thread(target=lambda: heard.append(said("take_in", port, f"touch {marker}")))
    assert training.run(attack) == 0, training.controller.journal
    assert "attacked" in heard[0]
    assert "not taken in" in heard[0]
    assert not marker.exists()
    assert sorted(set(training.steps())) == training.steps() == list(range(STEPS)), "no step lost or repeated"
    told = [line for line in training.told if "another account on this machine" in line]
    assert [line.split("'")[1] for line in told] == ["lost/1/w0"], "what the controller reads, and once"


@needs_root
def test_the_secret_is_nowhere_that_another_account_can_look(tmp_path: Path) -> None:
    training, found, heard = Training(tmp_path), dict[str, bytes](), list[str]()
    key = training.controller.secret.key

    def look() -> None:
        (worker,) = training.controller.processes.values()
        for name, pid in (("worker", worker.pid), ("parent", training.nursery.parent_pid)):  # type: ignore[attr-defined]
            process = Path(f"/proc/{pid}")
            for file in ("environ", "cmdline"):
                found[f"{file} of the {name}"] = (process / file).read_bytes()
            open_files = [each for each in (process / "fd").iterdir() if SECRET in str(each.readlink())]
            for each in open_files:
                found[f"{SECRET} of the {name}"] = each.read_bytes()
            heard.append(said("peek", *map(str, open_files), str(process / "environ")))

    assert training.run(threading.Thread(target=look)) == 0, training.controller.journal
    assert found.pop(f"{SECRET} of the worker") == key, "where the worker reads it, and we as root"
    assert len(found) == 4
    for where, words in found.items():
        assert key not in words, where
        assert key.hex().encode() not in words, where
    assert [told.count("refused") for told in heard] == [2, 1], "the descriptor, and the environments"
    assert "read" not in "".join(heard)


class Rank(threading.Thread):
    """One rank of a group of two, connecting; ``result`` is what it came to."""

    def __init__(self, rank: int, port: int, secret: Secret, proves: Secret | None = None):
        super().__init__(daemon=True)
        self.rank, self.port, self.secret = rank, port, secret
        self._proves = proves or secret
        self.result: object = None
        self.start()

    def run(self) -> None:
        line = dist.TCPStore("127.0.0.1", self.port, is_master=False, timeout=timedelta(seconds=20))
        meeting = Meeting(line, self.secret, MEETING)
        try:
            group = groups.connect(meeting, self.rank, 2, CPU, "127.0.0.1", prove=self.prove)
            own = torch.full((3,), float(self.rank + 1))
            group.all_reduce([own])
            self.result = own.tolist()
            group.abort()
        except GroupBroken as broken:
            self.result = broken

    def prove(self, group: Group) -> None:
        peer_proof.prove(group, self._proves, MEETING)


def ports() -> set[int]:
    """Where this process listens on IPv4: the store's port is an IPv6 one."""
    inodes = set()
    for each in Path("/proc/self/fd").iterdir():
        try:
            inodes.add(str(each.readlink()).removeprefix("socket:[").removesuffix("]"))
        except OSError:
            continue  # closed meanwhile
    lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return {int(line[1].split(":")[1], 16) for line in lines if line[3] == "0A" and line[9] in inodes}


def silence(sequence: int) -> bytes:
    """The number of a peer that is waited for, and nothing after it."""
    return struct.pack("<q", sequence)


def noise(sequence: int) -> bytes:
    return struct.pack("<q", sequence) + os.urandom(4096)


def false_messages(sequence: int) -> bytes:
    """gloo's own messages (transport/tcp/pair.h), of every kind, longer than what is waited for."""
    kinds = [
        struct.pack("<6Q", 48 + 32, kind, 0, 0, 1 << 40, (1 << 64) - 16) + bytes(32) for kind in range(5)
    ]
    return struct.pack("<q", sequence) + b"".join(kinds)


def fragments(sequence: int) -> bytes:
    return b"ab" if sequence else b""


def met_by_a_stranger(words: Callable[[int], bytes]) -> list[object]:
    """What two ranks come to when somebody connected to the first one's port before the second one did.

    Any account may: the kernel doesn't ask who connects to a port, so this one needn't be another.
    """
    host = dist.TCPStore(
        "127.0.0.1", 0, is_master=True, wait_for_workers=False, timeout=timedelta(seconds=20)
    )
    secret, before, held = Secret.new(), ports(), list[socket.socket]()
    first = Rank(0, host.port, secret)
    deadline_s = time.monotonic() + DEADLINE_S
    while not (new := ports() - before):
        assert time.monotonic() < deadline_s, first.result
        time.sleep(0.002)
    for port in new:
        for sequence in SEQUENCES:
            held.append(socket.create_connection(("127.0.0.1", port), timeout=5))
            held[-1].sendall(words(sequence))
    second = Rank(1, host.port, secret)
    for rank in (first, second):
        rank.join(DEADLINE_S)
    for line in held:
        line.close()
    return [first.result, second.result]


@pytest.mark.parametrize("words", [silence, noise, false_messages, fragments])
def test_who_takes_a_peers_place_in_gloo_breaks_the_group_and_is_never_in_it(
    words: Callable[[int], bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which of two waits and which connects, their ports decide: so it is tried until both will have been."""
    monkeypatch.setattr(groups, "CONNECT_TIMEOUT", timedelta(seconds=2))
    broken = 0
    for _ in range(ROUNDS):
        results = met_by_a_stranger(words)
        if all(isinstance(result, GroupBroken) for result in results):
            broken += 1
        else:
            assert results == [[3.0, 3.0, 3.0]] * 2
        if broken:
            break
    assert broken or words is fragments, "half of the time the stranger is taken for the second rank"


class Intruder(threading.Thread):
    """Connects to whatever this process opens, as every peer that may be waited for, ``at_most`` so often."""

    def __init__(self, at_most: int):
        super().__init__(daemon=True)
        self.taken, self._left, self._known = list[socket.socket](), at_most, ports()

    def run(self) -> None:
        while self._left:
            for port in ports() - self._known:
                self._known.add(port)
                self._left = max(0, self._left - 1)
                for sequence in SEQUENCES:
                    with suppress(OSError):  # closed meanwhile
                        self.taken.append(socket.create_connection(("127.0.0.1", port), timeout=5))
                        self.taken[-1].sendall(silence(sequence))
            time.sleep(0.001)


def test_a_training_grows_once_the_stranger_lets_it_and_loses_no_step(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(groups, "CONNECT_TIMEOUT", timedelta(seconds=2))
    intruder = Intruder(at_most=4)  # two ports an attempt
    intruder.start()
    grows = {5: 2}
    done = run(training(60, after_step=until_resized(grows), schedule=False), workers=1, script=grows)
    assert done.exit_code == 0, done.journal
    assert intruder.taken
    steps = done.outcomes[0].steps
    assert [step.number for step in steps] == list(range(60))
    assert steps[-1].world_size == 2, done.journal
    for line in intruder.taken:
        line.close()


def test_a_rank_that_speaks_gloo_and_does_not_know_the_secret_is_named() -> None:
    host = dist.TCPStore(
        "127.0.0.1", 0, is_master=True, wait_for_workers=False, timeout=timedelta(seconds=20)
    )
    secret = Secret.new()
    ranks = [Rank(0, host.port, secret), Rank(1, host.port, secret, proves=Secret.new())]
    for rank in ranks:
        rank.join(DEADLINE_S)
    for other, rank in ((1, ranks[0]), (0, ranks[1])):
        assert isinstance(rank.result, GroupBroken)
        assert f"who connected as rank {other} does not know the job's secret" in str(rank.result)


def test_what_a_stranger_left_for_gloo_to_read_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """gloo would take the first eight bytes for a length; the rank's own value comes later and counts."""
    host = dist.TCPStore(
        "127.0.0.1", 0, is_master=True, wait_for_workers=False, timeout=timedelta(seconds=20)
    )
    secret = Secret.new()
    for forged in (b"\xff" * 64, os.urandom(178), b"", Secret.new().seal(f"{MEETING}/0/1", 1, bytes(178))):
        host.set(f"{MEETING}/0/1", forged)
        first = Rank(0, host.port, secret)
        first.join(0.3)
        assert first.is_alive(), "it waits for a value of this job's"
        second = Rank(1, host.port, secret)
        for rank in (first, second):
            rank.join(DEADLINE_S)
        assert [first.result, second.result] == [[3.0, 3.0, 3.0]] * 2
        for key in host.list_keys():
            host.delete_key(key)


@needs_root
def test_nobody_but_the_trainings_account_and_root_may_steer_it(open_folder: Path) -> None:
    """Even where the socket's mode lets others in: somebody may have changed it."""
    asked = list[str]()

    def answers(words: Sequence[str]) -> Answer | Waiting:
        asked.append(" ".join(words))
        return {"done": True}

    control = ControlSocket(open_folder / "control", answers)
    control.path.chmod(0o666)
    heard = list[str]()
    person = threading.Thread(target=lambda: heard.append(said("steer", str(control.path), "stop")))
    person.start()
    while person.is_alive():
        control.poll()
        person.join(0.01)
    assert "only the account that runs this training" in heard[0]
    assert asked == []
    root = threading.Thread(target=lambda: heard.append(ask(control.path, ["status"])))
    root.start()
    while root.is_alive():
        control.poll()
        root.join(0.01)
    assert heard[1:] == ['{"done": true}']
    control.close()


@needs_root
def test_an_answer_of_another_account_is_none(open_folder: Path) -> None:
    """A launcher that believed it would take an unsaved training for a saved one, and end it."""
    false = str(open_folder / "control")
    with stranger("listen", false, until="listening"):
        told = said("steer", false, "suspend", account=OTHER)
    assert told.startswith("refused: ")
    assert "account 65533 listens there, not ours" in told

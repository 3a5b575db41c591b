"""A training that is moved from device to device by name, asked for its caches, and suspended.

Devices are opaque names here, as on any machine without a GPU; what a worker sees is what it would be given.
"""

import json
import os
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed; pip install -c constraints.txt torch")

from fallow import protocol  # noqa: E402
from fallow.workers.hosts import Machine, Offer, Seating  # noqa: E402
from tests.fallow.ledger import audit  # noqa: E402
from tests.fallow.test_driving import Shell, shell  # noqa: E402

A, B, C = "GPU-aaaa", "GPU-bbbb", "MIG-cccc"


def seen(person: Shell) -> dict[str, str]:
    """What every living worker of the training sees as its devices, from its own environment."""
    found = {}
    for pid in person.pids():
        try:
            words = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        except OSError:
            continue
        variables = dict(word.decode().split("=", 1) for word in words if b"=" in word)
        if protocol.ENV_MEMBER in variables:
            found[variables[protocol.ENV_MEMBER]] = variables.get("CUDA_VISIBLE_DEVICES", "")
    return found


def devices(person: Shell) -> dict[str, str | None]:
    told: list[dict[str, Any]] = person.status()["devices"]  # type: ignore[assignment]
    assert all(seat["kept"] for seat in told)
    return {seat["device"]: seat["worker"] for seat in told}


def test_each_worker_sees_its_device_alone_and_who_leaves_a_device_has_ended(tmp_path: Path) -> None:
    options = ("--cold", "--devices", f"{A},{B}", "--max", "3", "--failures", "2")
    with shell(tmp_path, *options) as person:
        person.until_said("generation 1: 2 workers (w0 w1)")
        assert seen(person) == {"w0": A, "w1": B}
        assert person.ask("devices", B) == {"devices": [B], "workers": 1}
        assert seen(person) == {"w1": B}, "w0 has ended when the answer comes"
        assert person.ask("devices", f"{A},{B},{C}") == {"devices": [A, B, C], "workers": 3}
        assert seen(person) == {"w1": B, "w2": A, "w3": C}
        assert devices(person) == {A: "w2", B: "w1", C: "w3"}
        assert person.ask("devices", f"{A},{C}") == {"devices": [A, C], "workers": 2}
        assert seen(person) == {"w2": A, "w3": C}
        assert person.ask("stop") == {"stopping": True}
        assert person.process.wait(90) == 75, person.text
        account = audit(person.ledger, None, 331, 48)
        assert set(account.attempts.values()) == {1}, "no step was done twice"


def test_a_training_moves_to_another_device_without_losing_a_step(tmp_path: Path) -> None:
    with shell(tmp_path, "--cold", "--devices", A, "--max", "2") as person:
        person.until_steps(10)
        assert person.ask("devices", C) == {"devices": [C], "workers": 1}
        assert list(seen(person).values()) == [C]
        person.ask("stop")
        person.process.wait(90)
        account = audit(person.ledger, None, 331, 48)
        assert set(account.attempts.values()) == {1}


def test_a_device_on_which_nothing_starts_is_given_up_and_the_training_stays(tmp_path: Path) -> None:
    crash = {"CRASH": " ".join(f"w{n}/start/*/raise" for n in range(1, 5))}
    with shell(tmp_path, "--devices", A, "--max", "2", "--failures", "2", **crash) as person:
        person.until_steps(5)
        answer = person.ask("devices", C)
        assert answer["devices"] == [A]
        assert f"the training stays on {A}: 2 attempts in a row failed" in str(answer["error"])
        assert "is spoiled" in str(answer["error"]), "with the exception that the worker died of"
        assert devices(person) == {A: "w0"}
        steps = person.ledger.read_text().count('"commit"')
        person.until_steps(steps + 10)
        more = person.ask("devices", f"{A},{B}")
        assert more["devices"] == [A], "w3 and w4 fail as well"
        assert person.ask("devices", B) == {"devices": [B], "workers": 1}, "w5 starts"


def test_an_order_that_is_overtaken_says_so(tmp_path: Path) -> None:
    import socket

    with shell(tmp_path, "--devices", A, "--max", "2", CRASH="w1/start/0/sleep") as person:
        person.until_steps(3)
        with socket.socket(socket.AF_UNIX) as first:
            first.connect(str(person.socket))
            first.sendall(f"devices {A},{B}\n".encode())
            person.until(lambda: "w1" in person.status()["workers"])  # type: ignore[operator]
            assert person.ask("devices", A) == {"devices": [A], "workers": 1}
            told = json.loads(first.makefile().read())
        assert told == {"error": "another order of devices has come since", "devices": [A]}
        assert devices(person) == {A: "w0"}
        assert person.status()["members"] == ["w0"]


def test_senseless_devices_are_refused_and_change_nothing(tmp_path: Path) -> None:
    senseless = {
        f"{A},{A}": "named twice",
        f"{A},{B},{C}": "outside --min 1 --max 2",
        ",": "outside --min 1 --max 2",
    }
    with shell(tmp_path, "--devices", A, "--max", "2") as person:
        person.until_steps(1)
        for asked, why in senseless.items():
            assert why in str(person.ask("devices", asked)["error"]), asked
            assert devices(person) == {A: "w0"}, asked


def test_without_devices_none_can_be_named(tmp_path: Path) -> None:
    with shell(tmp_path, CUDA_VISIBLE_DEVICES="") as person:
        person.until_steps(1)
        assert "start it with --devices" in str(person.ask("devices", A)["error"])


def test_status_says_what_a_scheduler_wants_to_know(tmp_path: Path) -> None:
    with shell(tmp_path, "--devices", f"{A},{B}", "--max", "2") as person:
        person.until(lambda: "2" in person.status().get("step_s", {}))  # type: ignore[operator]
        person.ask("devices", A)
        person.until(lambda: {"1", "2"} <= person.status()["step_s"].keys())  # type: ignore[attr-defined]
        person.ask("devices", f"{A},{B}")
        status = person.status()
        assert all(0 < seconds < 60 for seconds in status["step_s"].values())  # type: ignore[attr-defined]
        assert isinstance(status["step"], int)
        assert status["step"] + status["steps_left"] == 100_000  # type: ignore[operator]
        assert 0 <= status["resize_s"] < 60  # type: ignore[operator]
        assert status["memory_held_bytes"] is None, "no GPU, nothing measured"
        assert status["can_save"] is True
        assert status["checkpoint_ms"] is None
        pids: dict[str, int] = status["pids"]  # type: ignore[assignment]
        assert set(pids.values()) < set(person.pids())


def test_caches_are_released_at_a_step_boundary_by_every_member(tmp_path: Path) -> None:
    with shell(tmp_path, "--workers", "2", "--max", "2") as person:
        person.until_steps(3)
        nothing = {"before_bytes": None, "after_bytes": None, "freed_bytes": 0}
        assert person.ask("release-caches") == {"workers": {"w0": nothing, "w1": nothing}}


def test_a_suspended_training_is_saved_before_it_stops(tmp_path: Path) -> None:
    with shell(tmp_path, "--workers", "2", "--max", "2") as person:
        person.until_steps(5)
        answer = person.ask("suspend")
        assert answer["stopping"] is True
        assert answer["saved_bytes"] > 0  # type: ignore[operator]
        assert person.process.wait(90) == 75, person.text
        assert person.checkpoint.exists()


def test_what_cannot_be_saved_is_not_suspended_and_goes_on(tmp_path: Path) -> None:
    with shell(tmp_path, CHECKPOINT=str(tmp_path / "folder" / "saved.pt")) as person:
        person.until_steps(5)
        (tmp_path / "folder").write_text("a file where a folder should be")
        answer = person.ask("suspend")
        assert "could not be saved, and goes on" in str(answer["error"])
        person.until_steps(person.ledger.read_text().count('"commit"') + 5)
        assert person.status()["stopping"] is False


def test_a_stop_that_could_not_save_does_not_pass_for_one_that_did(tmp_path: Path) -> None:
    with shell(
        tmp_path, "--workers", "2", "--max", "2", CHECKPOINT=str(tmp_path / "folder" / "saved.pt")
    ) as person:
        person.until_steps(5)
        (tmp_path / "folder").write_text("a file where a folder should be")
        person.ask("stop")
        assert person.process.wait(90) == 1, person.text
        last = person.text.splitlines()[-1]
        assert "stopped: stopped on request; it could not be saved then: w1 ended with 1" in last, (
            "each of them tried"
        )


def test_who_gives_up_waiting_does_not_suspend_the_training_later(tmp_path: Path) -> None:
    import socket

    with shell(tmp_path, CRASH="w0/amid-step/10/sleep") as person:
        person.until_steps(10)
        with socket.socket(socket.AF_UNIX) as hasty:
            hasty.connect(str(person.socket))
            hasty.sendall(b"suspend\n")
            person.until(lambda: not person.status()["stopping"])
        person.until_steps(20)
        assert person.status()["stopping"] is False


class Sitter:
    """A worker that ends when told."""

    def __init__(self) -> None:
        self.code: int | None = None

    def poll(self) -> int | None:
        return self.code

    def terminate(self) -> None:
        self.code = -15

    def kill(self) -> None:
        self.code = -9

    def wait(self, timeout: float | None = None) -> int:
        return self.code or 0


def test_a_slot_is_free_when_its_worker_has_ended_and_not_before() -> None:
    started: list[tuple[dict[str, str], Sitter]] = []

    def spawn(variables: Any) -> Sitter:
        started.append((dict(variables), Sitter()))
        return started[-1][1]

    machine = Machine(Offer(name="here", slots=2, host="", devices=(A, B)), spawn)
    for member in ("w0", "w1"):
        machine.start({"WORLD_SIZE": "2", protocol.ENV_MEMBER: member})
    assert machine.free() == 0
    assert machine.assign([B, C]) == {"w0"}
    assert machine.seating() == (
        Seating(device=B, member=protocol.MemberId("w1"), kept=True),
        Seating(device=C, member=None, kept=True),
        Seating(device=A, member=protocol.MemberId("w0"), kept=False),
    )
    assert machine.free() == 1
    machine.start({"WORLD_SIZE": "2", protocol.ENV_MEMBER: "w2"})
    assert started[-1][0]["CUDA_VISIBLE_DEVICES"] == C
    assert started[-1][0]["FALLOW_SLOT"] not in (started[0][0]["FALLOW_SLOT"], started[1][0]["FALLOW_SLOT"])
    assert machine.assign([A]) == {"w1", "w2"}, "it comes back before its old worker has left"
    assert machine.free() == 0
    started[0][1].kill()
    assert machine.free() == 1
    assert os.environ.get("CUDA_VISIBLE_DEVICES") != A

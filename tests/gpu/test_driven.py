"""How steps of two workers drive a training: whom they kill, on which devices, what is kept, how it ends."""

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fallow.control_server import ControlSocket
from fallow.controller.controller import STOP_PATIENCE_S
from tests.gpu import driven, place
from tests.gpu.answers import Figure, Missing, told
from tests.gpu.driven import Driven, changes, pair_of, story
from tests.gpu.parts import each_apart
from tests.gpu.steps.nccl import two_of_one_gpu

pytestmark = pytest.mark.quick


def test_the_pair_is_who_the_controller_has_now_by_birth_and_not_by_pid() -> None:
    """Pids begin anew at their end; w0 is dead and w3 starts, and neither is a member."""
    status = {
        "members": ["w10", "w2"],
        "workers": {"w2": "member", "w10": "member", "w3": "starting"},
        "pids": {"w2": 4_194_000, "w10": 310, "w3": 311},
    }
    assert pair_of(status) == {"older": 4_194_000, "younger": 310}


class Played:
    """A training of two that does what it is told, and who of them is killed."""

    def __init__(self, folder: Path, *words: str, **settings: Any) -> None:
        self.told, self.process = list[str](), subprocess.Popen(["true"])
        self.process.wait()
        PLAYED.append(self)

    def until(self, what: str, holds: Callable[[Any], bool]) -> list[Any]:
        return []

    def join(self) -> float:
        self.told.append("join")
        return 1.0

    def grow(self) -> float:
        self.told.append("grow")
        return 1.0

    def shrink(self) -> float:
        self.told.append("shrink")
        return 1.0

    def kill(self, *, younger: bool) -> tuple[float, str]:
        self.told.append(f"kill the {'younger' if younger else 'older'}")
        return 1.0, "older" if younger else "younger"


PLAYED: list[Played] = []


def test_each_of_the_two_is_killed_once_and_who_goes_on_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driven, "Driven", Played)
    figures = {figure["name"]: figure for figure in changes("0,0", {})}
    wanted = ["join", "shrink", "grow", "kill the younger", "grow", "kill the older"]
    assert PLAYED[-1].told == wanted
    assert all(figure["held"] is not False for figure in figures.values())
    assert figures["who goes on after the death of the younger worker"]["value"] == "older"
    assert figures["who goes on after the death of the older worker"]["value"] == "younger"


def test_who_was_killed_in_anothers_place_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    class Wrong(Played):
        def kill(self, *, younger: bool) -> tuple[float, str]:
            return 1.0, "younger" if younger else "older"

    monkeypatch.setattr(driven, "Driven", Wrong)
    held = [figure["held"] for figure in changes("0,0", {}) if figure["name"].startswith("who goes on")]
    assert held == [False, False]


def test_what_was_seen_before_a_training_breaks_is_kept(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Breaking(Played):
        def kill(self, *, younger: bool) -> tuple[float, str]:
            raise subprocess.TimeoutExpired(["controller"], 1.0)

    monkeypatch.setattr(driven, "Driven", Breaking)
    figures = each_apart(
        {"changes": lambda: changes("0,0", {}), "after": lambda: [told("what comes after", 3)]}
    )
    names = [figure["name"] for figure in figures]
    assert names[:2] == [
        "a forked worker: from its birth until it could join",
        "from the order to the first step of one",
    ]
    assert names[-2:] == ["changes: done", "what comes after"]
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines() if line.startswith("{")]
    assert [len(line["figures"]) for line in lines] == list(range(1, len(figures) + 1)), "each at once"


def test_a_controller_that_hangs_over_nccl_keeps_what_was_seen_of_it() -> None:
    def play(devices: str, environment: dict[str, str]) -> Iterator[Figure]:
        yield told("plain: grown", 1.0, "s")
        raise subprocess.TimeoutExpired(["controller"], 50.0)

    first, second = two_of_one_gpu((2, 30, 1), play)
    assert first["name"] == "plain: grown"
    assert "do not meet over NCCL" in second["value"]


@pytest.mark.parametrize(
    ("visible", "twice", "both"),
    [
        (None, "0,0", "0,1"),
        ("3", "3,3", None),
        ("2,5,7", "2,2", "2,5"),
        ("MIG-1a", "MIG-1a,MIG-1a", None),
        ("GPU-a, GPU-b", "GPU-a,GPU-a", "GPU-a,GPU-b"),
    ],
)
def test_workers_get_the_devices_that_the_run_was_given(
    monkeypatch: pytest.MonkeyPatch, visible: str | None, twice: str, both: str | None
) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert place.devices(0, 0) == twice
    asked: list[str] = []
    list(two_of_one_gpu((2, 30, 1), lambda devices, environment: asked.append(devices) or ()))
    assert asked == [twice]
    if both is not None:
        assert place.devices(0, 1) == both
        return
    with pytest.raises(Missing, match="names 1 devices, and 2 are needed"):
        place.devices(0, 1)


@pytest.mark.parametrize(
    ("visible", "asked"), [(None, 0), ("0", 0), ("3,1", 3), ("MIG-1a", "MIG-1a"), ("GPU-a,GPU-b", "GPU-a")]
)
def test_the_driver_is_asked_for_the_device_that_the_run_was_given(
    monkeypatch: pytest.MonkeyPatch, visible: str | None, asked: object
) -> None:
    import pynvml

    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    monkeypatch.setattr(pynvml, "nvmlInit", lambda: None)
    monkeypatch.setattr(pynvml, "nvmlDeviceGetHandleByIndex", lambda index: index)
    monkeypatch.setattr(pynvml, "nvmlDeviceGetHandleByUUID", lambda uuid: uuid)
    assert place.nvml_handle() == asked


@pytest.mark.parametrize(("younger", "stays"), [(True, "older"), (False, "younger")])
def test_who_is_to_be_killed_is_killed_and_no_other(tmp_path: Path, younger: bool, stays: str) -> None:
    """Two real processes, of which the controller's status says which is which."""
    training = Driven.__new__(Driven)
    training.log, training.socket = tmp_path / "log", tmp_path / "socket"
    sleeps = {name: subprocess.Popen(["sleep", "60"]) for name in ("w10", "w2")}
    by_age = {"older": sleeps["w2"], "younger": sleeps["w10"]}
    status = {"members": ["w10", "w2"], "pids": {name: each.pid for name, each in sleeps.items()}}
    control, over = ControlSocket(training.socket, lambda words: status), threading.Event()

    def serve() -> None:
        while not over.is_set():
            control.poll()
            alone = [each.pid for each in by_age.values() if each.poll() is None]
            if len(alone) == 1:
                row = {"pid": alone[0], "world": 1, "at_s": time.monotonic()}
                (tmp_path / "new").write_text(json.dumps(row) + "\n")
                (tmp_path / "new").replace(training.log)
            time.sleep(0.01)

    training.process = subprocess.Popen(["sleep", "60"])  # as the controller, which goes on
    serving = threading.Thread(target=serve)
    serving.start()
    try:
        assert training.kill(younger=younger)[1] == stays
        assert [which for which, each in by_age.items() if each.poll() is None] == [stays]
    finally:
        over.set()
        serving.join()
        control.close()
        for each in (*sleeps.values(), training.process):
            each.kill()
            each.wait()


STUBBORN = """
import signal, sys, time
wanted, came = int(sys.argv[1]), []
signal.signal(signal.SIGTERM, lambda *_: came.append(1) or (len(came) >= wanted > 0 and sys.exit(143)))
print("ready", flush=True)
while True:
    time.sleep(0.01)
"""


@pytest.mark.parametrize(("suffice", "well", "code"), [(1, True, 143), (2, False, 143), (0, False, -9)])
def test_a_training_has_ended_when_its_figures_are_read_whatever_it_does(
    monkeypatch: pytest.MonkeyPatch, suffice: int, well: bool, code: int
) -> None:
    """Its folder goes with it: a worker that lives on writes into nothing."""
    monkeypatch.setattr(driven, "END_S", 0.3)
    monkeypatch.setattr(driven, "AT_ONCE_S", 0.3)
    training = Driven.__new__(Driven)
    words = [sys.executable, "-c", STUBBORN, str(suffice)]
    training.process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    assert training.process.stdout is not None
    assert training.process.stdout.readline() == "ready\n"
    begun_s = time.monotonic()
    assert training.end() is well
    assert training.process.returncode == code
    assert time.monotonic() - begun_s < 60
    training.process.stdout.close()


def test_a_training_is_given_the_time_that_its_controller_gives_its_workers() -> None:
    assert driven.END_S > STOP_PATIENCE_S


def test_a_story_counts_what_was_committed(monkeypatch: pytest.MonkeyPatch) -> None:
    class Told(Played):
        def rows(self) -> list[dict[str, Any]]:
            return [{"step": step, "loss": 2.0 - step / 100} for step in range(driven.STEPS - 1)]

    monkeypatch.setattr(driven, "Driven", Told)
    figures = {figure["name"]: figure["held"] for figure in story("0,0", {})}
    assert figures["plain: steps that were committed"] is False, "one of them is missing"
    assert figures["plain: the controller's status"] is True

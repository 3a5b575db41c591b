"""What a controller puts into a folder of its own goes when the controller goes, however it ends."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed; pip install -c constraints.txt torch")

ROOT = Path(__file__).parents[2]
SCRIPT = Path(__file__).with_name("crash_train.py")
DEADLINE_S = 90
ENDLESS = 100_000


class Started:
    """A controller with the whole of its temporary files in ``place``, and a token to make up."""

    def __init__(self, folder: Path, *options: str, steps: int):
        self.place, self._log = folder / "temporary", folder / "log"
        self.place.mkdir()
        known = {name: value for name, value in os.environ.items() if name != "FALLOW_TOKEN"}
        ours = {"TMPDIR": str(self.place), "STEPS": str(steps), "LEDGER": str(folder / "ledger")}
        words = [sys.executable, "-m", "fallow.controller", *options, "--", str(SCRIPT)]
        with self._log.open("w") as log:
            self.process = subprocess.Popen(
                words, env={**known, "PYTHONPATH": str(ROOT), **ours}, stdout=log, stderr=log, cwd=folder
            )

    @property
    def text(self) -> str:
        return self._log.read_text()

    def folders(self) -> list[Path]:
        return list(self.place.glob("fallow-*"))

    def until(self, happens: Callable[[], bool]) -> None:
        deadline_s = time.monotonic() + DEADLINE_S
        while not happens():
            assert time.monotonic() < deadline_s, self.text
            assert self.process.poll() is None, self.text
            time.sleep(0.02)

    def end(self) -> int:
        try:
            return self.process.wait(DEADLINE_S)
        finally:
            self.process.kill()


def test_a_training_that_came_to_its_end_leaves_no_folder_and_no_token(tmp_path: Path) -> None:
    started = Started(tmp_path, "--listen", "127.0.0.1:0", steps=3)
    started.until(lambda: "the token in " in started.text)
    assert [entry.name for entry in started.folders()[0].glob("fallow-token-*")]
    assert started.end() == 0, started.text
    assert not started.folders()


@pytest.mark.parametrize(
    ("number", "code", "early"),
    [(signal.SIGINT, 130, True), (signal.SIGTERM, 143, True), (signal.SIGINT, 130, False)],
)
def test_an_interrupted_controller_leaves_no_folder(
    number: signal.Signals, code: int, early: bool, tmp_path: Path
) -> None:
    started = Started(tmp_path, steps=ENDLESS)
    started.until(lambda: bool(started.folders()) if early else "generation 1" in started.text)
    started.process.send_signal(number)
    assert started.end() == code, started.text
    assert "Traceback" not in started.text
    assert not started.folders()


@pytest.mark.parametrize("socket", ["/proc/control", "x" * 200])
def test_a_controller_that_cannot_listen_leaves_no_folder(socket: str, tmp_path: Path) -> None:
    started = Started(tmp_path, "--socket", socket, steps=3)
    assert started.end() == 2, started.text
    assert "cannot listen" in started.text
    assert not started.folders()


def test_a_controller_that_cannot_let_machines_in_leaves_no_folder(tmp_path: Path) -> None:
    started = Started(tmp_path, "--listen", "192.0.2.1:7", steps=3)
    assert started.end() == 2, started.text
    assert "cannot listen at 192.0.2.1:7" in started.text
    assert not started.folders()


def test_a_token_beside_a_socket_of_ones_own_goes_with_the_controller(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    socket = tmp_path / "mine" / "control"
    started = Started(tmp_path, "--socket", str(socket), "--listen", "127.0.0.1:0", steps=3)
    assert started.end() == 0, started.text
    assert f"the token in {tmp_path / 'mine'}" in started.text
    assert not list((tmp_path / "mine").iterdir())

"""The MPS daemon of a run is ended with the run, whatever it does; here a script stands in for it."""

import os
import subprocess
import time
from pathlib import Path

import pytest

from tests.gpu import mps

pytestmark = pytest.mark.quick

STANDIN = """#!/bin/sh
case "$1" in
-d) setsid "$0" serve > /dev/null 2>&1 < /dev/null &
    {start} ;;
serve) trap '' {deaf}
    while :; do sleep 0.1; done ;;
*) {quit} ;;
esac
"""


@pytest.fixture
def folders(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Where daemons were begun."""
    begun: list[str] = []
    made = mps.tempfile.TemporaryDirectory

    class Noted(made):  # type: ignore[misc, valid-type]
        def __enter__(self) -> str:
            begun.append(super().__enter__())
            return begun[-1]

    monkeypatch.setattr(mps.tempfile, "TemporaryDirectory", Noted)
    monkeypatch.setattr(mps, "QUIT_S", 0.3)
    monkeypatch.setattr(mps, "ENDS_S", 0.5)
    return begun


def standin(folder: Path, monkeypatch: pytest.MonkeyPatch, **how: str) -> None:
    program = folder / mps.CONTROL
    program.write_text(STANDIN.format(**{"start": "true", "deaf": "HUP", "quit": "sleep 9"} | how))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")


def servers(folder: str) -> list[str]:
    """Processes of that daemon, by an independent look."""
    listed = subprocess.run(["ps", "axeww", "-o", "args"], capture_output=True, text=True, check=True).stdout
    return [line for line in listed.splitlines() if f"={folder}" in line and " serve" in line]


@pytest.mark.parametrize("deaf", ["HUP", "TERM"], ids=["ends by SIGTERM", "is deaf to it"])
def test_a_daemon_that_does_not_quit_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folders: list[str], deaf: str
) -> None:
    standin(tmp_path, monkeypatch, deaf=deaf)
    other = {**os.environ, "CUDA_MPS_PIPE_DIRECTORY": str(tmp_path)}
    subprocess.run([mps.CONTROL, "-d"], env=other, check=True)
    try:
        with mps.daemon() as variables:
            assert variables["CUDA_MPS_PIPE_DIRECTORY"] == folders[-1]
            _until(lambda: len(servers(folders[-1])) == 1)
        assert servers(folders[-1]) == []
        assert len(servers(str(tmp_path))) == 1, "another one's daemon is left alone"
    finally:
        mps._sweep(str(tmp_path))


def test_a_daemon_that_hangs_as_it_starts_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folders: list[str]
) -> None:
    standin(tmp_path, monkeypatch, start="sleep 9")
    monkeypatch.setattr(mps, "START_S", 1.0)
    with pytest.raises(subprocess.TimeoutExpired), mps.daemon():
        pytest.fail("it did not start")
    assert servers(folders[-1]) == []


def _until(holds: object) -> None:
    until_s = time.monotonic() + 20
    while not holds():  # type: ignore[operator]
        assert time.monotonic() < until_s
        time.sleep(0.02)

"""A launcher in a real process, on a line to a service that says what the test wants."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from tests.service.launcher.wire_service import LIMIT_S, WireService

LIGHT = {"PYTHONDONTWRITEBYTECODE": "1"}


class Launched:
    """``fallow run`` in a process; its output in files, so that nothing blocks."""

    def __init__(
        self,
        service: WireService,
        folder: Path,
        words: tuple[str, ...],
        env: dict[str, str],
        *,
        before: Sequence[str] = (),
        cwd: Path | None = None,
    ) -> None:
        self.service = service
        self.out, self.err = folder / "out", folder / "err"
        environment = {key: value for key, value in os.environ.items() if not key.startswith("FALLOW_")}
        state = {"XDG_STATE_HOME": str(folder / "state")}
        with self.out.open("wb") as out, self.err.open("wb") as err:
            self.process = subprocess.Popen(
                [*before, sys.executable, "-m", "service.cli", "run", *words],
                cwd=cwd,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                env=environment | LIGHT | service.env | state | env,
                start_new_session=True,
            )

    def end(self) -> int:
        return self.process.wait(LIMIT_S)

    def said(self) -> str:
        return self.err.read_text()

    def printed(self) -> str:
        return self.out.read_text()

    def hears(self, text: str) -> None:
        until(lambda: text in self.said(), f"{text!r} in {self.said()!r}")


Launch = Callable[..., Launched]


@pytest.fixture
def service() -> Iterator[WireService]:
    made = WireService()
    yield made
    made.stop()


@pytest.fixture
def launch(service: WireService, tmp_path: Path) -> Iterator[Launch]:
    """``launch("--restarts", "1", "--", "true")``; whatever still runs at the end is killed.

    ``before`` are words of a command that starts it, such as a shell that closes a stream first.
    """
    made: list[Launched] = []

    def start(
        *words: str,
        env: dict[str, str] | None = None,
        before: Sequence[str] = (),
        cwd: Path | None = None,
    ) -> Launched:
        folder = tmp_path / f"launcher-{len(made)}"
        folder.mkdir()
        made.append(Launched(service, folder, words, env or {}, before=before, cwd=cwd))
        return made[-1]

    yield start
    for each in made:
        if each.process.poll() is None:
            each.process.send_signal(signal.SIGCONT)
            each.process.kill()
            each.process.wait()


def until(holds: Callable[[], object], what: str, limit_s: float = LIMIT_S) -> None:
    deadline = time.monotonic() + limit_s
    while not holds():
        assert time.monotonic() < deadline, f"not within {limit_s:g} s: {what}"
        time.sleep(0.01)


def lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False

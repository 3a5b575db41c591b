"""A machine with two GPUs of the stand-in driver, its service and launchers, and who reaches its socket."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from advisor.jobs.model import JobRecord, Report
from advisor.tags import as_now
from service.client.jobs import ActingClient
from service.client.transport import UNIX, Wire
from service.errors import ClientError
from tests.driver.driver import Driver
from tests.service.launcher.conftest import LIGHT, until

LIMIT_S = 60.0
CONFIG = """
[collect]
sources = ["nvml"]
tick_s = 1
inventory_every_s = 1
[acting]
every_s = 1
silent_s = 3
launcher_grace_s = 5
[api]
socket = "{socket}"
"""


class Site:
    """``code`` is the checkout that the service and new launchers are run from; ``None``: this one."""

    def __init__(self, folder: Path, driver: Driver, place: Path) -> None:
        self.folder, self.driver, self.socket = folder, driver, place / "s.sock"
        self.data = folder / "data"
        self.code: Path | None = None
        self.data.mkdir(mode=0o700)
        (self.data / "fallow.toml").write_text(CONFIG.format(socket=self.socket))
        state = {"XDG_STATE_HOME": str(folder / "state"), "FALLOW_DATA": str(self.data)}
        self.env = driver.environment({**os.environ, **LIGHT, **state})
        self.service: subprocess.Popen[bytes] | None = None
        self.started: list[subprocess.Popen[bytes]] = []
        self.gpus = [driver.gpu(slot).uuid for slot in range(2)]

    def serve(self) -> None:
        with (self.folder / "serve.log").open("ab") as log:
            command = [sys.executable, "-m", "service.cli", "serve"]
            self.service = subprocess.Popen(command, stdout=log, stderr=log, env=self.env, cwd=self.code)
        until(self._answers, "the service answers", LIMIT_S)

    def stop(self, how: signal.Signals = signal.SIGKILL) -> None:
        if self.service is not None:
            self.service.send_signal(how)
            self.service.wait(LIMIT_S)

    def restart(self) -> None:
        self.stop()
        self.serve()

    def close(self) -> None:
        """End all that was started here."""
        for each in self.started:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(each.pid, signal.SIGKILL)
            each.wait()
        self.stop()

    def client(self) -> ActingClient:
        return ActingClient(Wire(url=f"{UNIX}{self.socket}", token=None, timeout_s=20))

    def log(self) -> str:
        return (self.folder / "serve.log").read_text()

    def said(self, name: str) -> str:
        """What the launcher of the job of that name has told its user."""
        return (self.folder / f"{name}.err").read_text()

    def run(self, name: str, *words: str, before: tuple[str, ...] = ()) -> str:
        """``fallow run``; its job's id."""
        with (self.folder / f"{name}.err").open("wb") as err:
            command = [*before, sys.executable, "-m", "service.cli", "run", "--name", name, *words]
            made = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=err,
                env=self.env,
                cwd=self.code,
                start_new_session=True,
            )
        self.started.append(made)
        return str(until_some(lambda: self.named(name), f"{name} is submitted"))

    def named(self, name: str) -> str | None:
        rows = self.client().jobs()
        return next((row.job for row in rows if row.submission.name == name), None)

    def stands(self, job: str, state: str) -> dict[str, Any]:
        until(lambda: self.row(job)["state"] == state, f"{job} is {state}", LIMIT_S)
        return self.row(job)

    def row(self, job: str) -> dict[str, Any]:
        """What the service says of a job; an older one's in today's words."""
        found = as_now(JobRecord, self.client().job(job).sent)
        if found["report"] is not None:
            found["report"] = as_now(Report, found["report"])
        return found

    def holders(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for row in self.client().leases():
            found.setdefault(row.gpu, []).append(row.job)
        return found

    def _answers(self) -> bool:
        assert self.service is not None and self.service.poll() is None, self.log()
        with contextlib.suppress(ClientError):
            return bool(self.client().whoami().name)
        return False


def until_some(look: Callable[[], Any], what: str) -> Any:
    """What ``look`` returns, once it is something."""
    found: list[Any] = []

    def looked() -> bool:
        found[:] = [look()]
        return bool(found[0])

    until(looked, what, LIMIT_S)
    return found[0]

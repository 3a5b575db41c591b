"""A real service in a real process on loopback, and what tests need to speak with it."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from http.client import HTTPConnection
from io import StringIO
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from service import data_folder as client_place
from service.cli import main
from service.client import Client, connect, running
from tests.shared_services import stopped_behind_its_last_user

SMALL = """
[collect]
tick_s = 1

[simulated]
nodes = 2
gpus_per_node = 2
backfill_days = 1

[prices.per_gpu_hour]
"*" = 2.0

[api]
send_timeout_s = 2
query_timeout_s = 20
"""
START_LIMIT_S = 60

EVENT = re.compile(r"\S+Z info    ")
"""How a line of the log begins that says what happened, and complains of nothing."""


@dataclass
class Running:
    """A service that a test started."""

    data: Path
    process: "subprocess.Popen[str]"

    @property
    def url(self) -> str:
        said = client_place.announced(self.data)
        assert said is not None
        return said.url

    @property
    def token(self) -> str:
        return client_place.token_file(self.data).read_text().strip()

    def client(self) -> Client:
        return connect(self.data)

    def get(self, path: str, **headers: str) -> tuple[int, dict[str, str], bytes]:
        """Status, headers and body of a GET with exactly these headers."""
        address = self.url.removeprefix("http://")
        connection = HTTPConnection(address, timeout=30)
        try:
            connection.request("GET", path, headers=headers)
            answer = connection.getresponse()
            return answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read()
        finally:
            connection.close()

    def bearer(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"}

    def stop(self, how: signal.Signals = signal.SIGTERM) -> tuple[str, str]:
        """End it; what it printed, and what it complained of: its log without plain events."""
        if self.process.poll() is None:
            self.process.send_signal(how)
        said, logged = self.process.communicate(timeout=30)
        return said, "".join(line for line in logged.splitlines(keepends=True) if not EVENT.match(line))


def fallow(*words: str, data: Path | None = None, **more: Any) -> "subprocess.CompletedProcess[str]":
    """A verb in a real process; its output as text."""
    command = [sys.executable, "-m", "service.cli", *words, *(["--data", str(data)] if data else [])]
    environment = {key: value for key, value in os.environ.items() if not key.startswith("FALLOW_")}
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=60,
        env=environment | more.pop("env", {}),
        check=False,
        **more,
    )


class Screen(StringIO):
    """A terminal as far as it is asked whether it is one; how wide it is says $COLUMNS."""

    def isatty(self) -> bool:
        return True


ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def shown(*words: str, columns: int, data: Path) -> list[str]:
    """The lines that a verb shows on a terminal of so many columns, without colours."""
    screen = Screen()
    variables = {"FALLOW_DATA": str(data), "COLUMNS": str(columns), "LINES": "50", "TERM": "xterm"}
    outer = {key: value for key, value in os.environ.items() if not key.startswith("FALLOW_")}
    with patch.dict(os.environ, outer | variables, clear=True), redirect_stdout(screen):
        assert main(words) in (0, 1)
    return [line.rstrip() for line in ESCAPES.sub("", screen.getvalue()).splitlines()]


def verb(
    *words: str, data: Path | None = None, env: Mapping[str, str] | None = None
) -> "subprocess.CompletedProcess[str]":
    """A verb in this process, which saves starting one: for what it says, not for how a process ends."""
    outer = {key: value for key, value in os.environ.items() if not key.startswith("FALLOW_")}
    said, complained = StringIO(), StringIO()
    with (
        patch.dict(os.environ, outer | dict(env or {}), clear=True),
        redirect_stdout(said),
        redirect_stderr(complained),
    ):
        try:
            status = main([*words, *(["--data", str(data)] if data else [])])
        except SystemExit as ended:
            status = int(ended.code or 0)
    return subprocess.CompletedProcess(list(words), status, said.getvalue(), complained.getvalue())


def start(data: Path, words: Sequence[str] = ("--source", "simulated"), config: str = SMALL) -> Running:
    """A service on ``data``, not yet answering."""
    data.mkdir(parents=True, exist_ok=True)
    if config:
        (data / "fallow.toml").write_text(config)
    process = subprocess.Popen(
        [sys.executable, "-m", "service.cli", "serve", "--data", str(data), *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={key: value for key, value in os.environ.items() if not key.startswith("FALLOW_")},
    )
    return Running(data=data, process=process)


def until(what: str, holds: Callable[[], bool], limit_s: float = START_LIMIT_S) -> None:
    """Wait for something to become so; fails, naming it, when it does not."""
    deadline = time.monotonic() + limit_s
    while not holds():
        assert time.monotonic() < deadline, f"not within {limit_s:g} s: {what}"
        time.sleep(0.05)


def is_well(service: Running) -> bool:
    assert service.process.poll() is None, service.process.communicate()
    if running(service.data) is None:
        return False
    status, _, body = service.get("/healthz")
    return status == 200 and json.loads(body)["last_tick_ms"] is not None


@pytest.fixture(scope="session")
def service(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """One service for all tests that only read it."""
    made = start(tmp_path_factory.mktemp("service") / "data")
    with stopped_behind_its_last_user(request, lambda: stop_well(made)):
        until("the service is well", lambda: is_well(made))
        yield made


def stop_well(made: Running) -> None:
    """Stop a service, which ends well and complains of nothing."""
    _, complaints = made.stop()
    assert "Traceback" not in complaints, complaints
    assert made.process.returncode == 0

"""One real service whose Unix socket everybody may reach, and callers of every kind before its doors."""

import json
import os
import shutil
import socket
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

from collector.clock import SystemClock
from service.api import tokens
from service.client.jobs import ActingClient
from service.client.transport import UNIX, UnixConnection, Wire
from service.control.interface import Role
from tests.service.conftest import Running, is_well, start, stop_well, until
from tests.shared_services import stopped_behind_its_last_user

CONFIG = """
[collect]
tick_s = 1
[simulated]
nodes = 1
gpus_per_node = 2
backfill_days = 0
[api]
socket = "{socket}"
operators = ["daemon"]
send_timeout_s = 2
receive_timeout_s = 2
[limits]
never_fitting = "wait"
"""
DAY_MS = 86_400_000
ALICE, BOB, DAEMON = 4001, 4002, 1
"""Two uids that no account has, and that of the account ``daemon``, which the configuration names."""


@dataclass
class Door:
    """A running service, and the secrets of those who may ask it over TCP."""

    running: Running
    socket: Path
    secrets: dict[str, str] = field(default_factory=dict)

    def wire(self, who: str | None = None) -> Wire:
        """Over TCP with somebody's token; over the Unix socket as whom the kernel sees for ``None``."""
        url = f"{UNIX}{self.socket}" if who is None else self.running.url
        return Wire(url=url, token=None if who is None else self.secrets.get(who, who), timeout_s=20)

    def client(self, who: str | None = None) -> ActingClient:
        return ActingClient(self.wire(who))

    def ask(
        self, method: str, path: str, *, who: str | None = None, body: object = None, **headers: str
    ) -> tuple[int, Any]:
        """Status and JSON of one request, sent as it is; ``body`` may be raw bytes."""
        connection: HTTPConnection
        if who is None:
            connection = UnixConnection(self.socket, 20)
        else:
            connection = HTTPConnection(self.running.url.removeprefix("http://"), timeout=20)
            if who:
                headers = {"Authorization": f"Bearer {self.secrets.get(who, who)}", **headers}
        sent = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        if sent is not None:
            headers = {"Content-Type": "application/json", **headers}
        try:
            connection.request(method, path, body=sent, headers=headers)
            answer = connection.getresponse()
            text = answer.read()
        finally:
            connection.close()
        is_json = (answer.getheader("content-type") or "").startswith("application/json")
        return answer.status, json.loads(text) if is_json else text


@pytest.fixture(scope="session")
def traversable() -> Iterator[Path]:
    """A folder that every user of the machine can pass, unlike pytest's own."""
    folder = Path(tempfile.mkdtemp(prefix="fallow-door-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="session")
def door(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, traversable: Path
) -> Iterator[Door]:
    path = traversable / "s.sock"
    data = tmp_path_factory.mktemp("door") / "data"
    made = start(data, config=CONFIG.format(socket=path))
    with stopped_behind_its_last_user(request, lambda: stop_well(made)):
        until("the service is well", lambda: is_well(made))
        found = Door(running=made, socket=path)
        now_ms = SystemClock().now_ms()
        for role in Role:
            _, found.secrets[role.value] = tokens.add(
                data, user=f"the-{role}", role=role, span_ms=DAY_MS, now_ms=now_ms
            )
        _, found.secrets["other"] = tokens.add(
            data, user="somebody-else", role=Role.USER, span_ms=DAY_MS, now_ms=now_ms
        )
        _, found.secrets["expired"] = tokens.add(
            data, user="the-operator", role=Role.OPERATOR, span_ms=1, now_ms=now_ms - 10
        )
        found.secrets["owner"] = made.token
        yield found


def as_uid(uid: int, call: Callable[[], Any]) -> Any:
    """What ``call`` returns in a child process that has become this user; its failure fails the test."""
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    ours, theirs = socket.socketpair()
    pid = os.fork()
    if pid == 0:
        ours.close()
        try:
            os.setgroups([])
            os.setresgid(uid, uid, uid)
            os.setresuid(uid, uid, uid)
            said = {"found": call()}
        except BaseException as error:
            said = {"failed": f"{type(error).__name__}: {error}"}
        theirs.sendall(json.dumps(said, default=lambda answer: answer.sent).encode())
        os._exit(0)
    theirs.close()
    text = b"".join(iter(lambda: ours.recv(65_536), b""))
    ours.close()
    os.waitpid(pid, 0)
    said = json.loads(text)
    assert "failed" not in said, said
    return said["found"]


def submission(**changes: object) -> dict[str, object]:
    """A job that this cluster never starts: it wants more than there is."""
    return {"command": ["sleep", "1"], "project": "vision", "min_gpus": 512, "max_gpus": 512, **changes}

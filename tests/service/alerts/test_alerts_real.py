"""Alerts of a service that runs: real mail, real HTTP, a real process that is killed; and the verb."""

import email
import json
import signal
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from email.message import Message as Mail
from pathlib import Path
from typing import Any

import pytest
from aiosmtpd.controller import Controller

from service.config.telling import DeliveryConfig
from tests.service.alerts.alert_parts import ANN
from tests.service.alerts.test_alerts_desk import idle, let_time_pass, office
from tests.service.conftest import fallow, is_well, start, until
from tests.service.delivery.servers import webhook

pytestmark = pytest.mark.process

CONFIG = """
[rehearsal]
speed = 60
since_ms = {now_ms}

[collect]
tick_s = 60

[simulated]
nodes = 4
backfill_days = 1

[delivery]
person = "json://127.0.0.1:9/{{user}}"

[delivery.routes]
ops = ["json://127.0.0.1:{port}/hook?cto=5&rto=5"]

[alerts]
to = ["ops"]
opens_after_s = 0
utilization_target_ratio = 1.0
dashboard_url = "http://gpus.example.org"

[alerts.ops]
most_per_hour = 3
"""


@dataclass(slots=True)
class Postbox:
    """A mail server's handler; ``refuse`` makes it turn mail away for now."""

    refuse: bool = False
    asked: int = 0
    mails: list[Mail] = field(default_factory=list)

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:
        self.asked += 1
        if self.refuse:
            return "451 try again later"
        self.mails.append(email.message_from_bytes(envelope.content))
        return "250 taken"


@pytest.fixture
def postbox() -> Iterator[tuple[Postbox, int]]:
    box = Postbox()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    door = Controller(box, hostname="127.0.0.1", port=port)
    door.start()
    try:
        yield box, port
    finally:
        door.stop()


def test_a_real_mail_names_what_it_is_about_and_arrives_once(
    tmp_path: Path, postbox: tuple[Postbox, int]
) -> None:
    box, port = postbox
    address = f"mailto://127.0.0.1:{port}/?from=fallow@lab.example&to=ops@lab.example&mode=insecure"
    (tmp_path / "fallow.toml").write_text(f'[delivery.routes]\nops = ["{address}"]\n')
    done = fallow("alerts", "--test", "ops", data=tmp_path)
    assert (done.returncode, "taken after" in done.stdout) == (0, True), done
    (mail,) = box.mails
    assert mail["Subject"] == "[Fallow] A test" and "ops@lab.example" in str(mail["To"])
    box.refuse = True
    done = fallow("alerts", "--test", "ops", "--json", data=tmp_path)
    (row,) = json.loads(done.stdout)
    assert (done.returncode, row["arrived"], len(box.mails)) == (1, False, 1)
    assert row["to"] == f"ops#0 (mailto://127.0.0.1:{port})"
    assert "451" in row["found"] or "mailto" in row["found"]


def test_a_mail_server_that_turns_mail_away_gets_it_once_when_it_is_back(
    tmp_path: Path, postbox: tuple[Postbox, int]
) -> None:
    box, port = postbox
    box.refuse = True
    person = f"mailto://127.0.0.1:{port}/?from=fallow@lab.example&to={{user}}@lab.example&mode=insecure"
    with office(tmp_path, delivery=DeliveryConfig(person=person), jobs=(idle(),)) as here:
        here.works()
        here.settles()
        assert (box.asked > 0, box.mails, here.rows()[0]["waiting"]) == (True, [], "user:ann")
        box.refuse = False
        let_time_pass(here.outbox)
        here.reborn()
        here.works()
        until("the mail comes", lambda: bool(box.mails))
        here.settles()
        assert here.rows()[0]["told"] == "user:ann"
    (mail,) = box.mails
    assert "ann@lab.example" in str(mail["To"])
    assert mail["Subject"] == f"[Fallow] ann's notebook ({ANN}) does nothing on H100 node1:0"
    parts = [part.get_payload(decode=True) for part in mail.walk() if not part.is_multipart()]
    text = b" ".join(part for part in parts if isinstance(part, bytes)).decode()
    for said in ("has done nothing on H100 node1:0", "What happens next:", f"fallow keep {ANN} --hours 4"):
        assert said in text


@pytest.mark.parametrize(
    ("receiver", "config", "status", "says"),
    [
        ("nobody", "", 2, "'nobody' is no route, project, person or address"),
        ("ops", '[delivery.routes]\nops = ["json://h?password=${NOT_SET}"]', 1, "needs $NOT_SET"),
        ("vision", '[delivery.projects]\nvision = "gone"', 1, "no route 'gone'"),
        ("nosuch://x", "", 1, "no address that Apprise knows"),
    ],
)
def test_a_test_that_cannot_arrive_says_why(
    tmp_path: Path, receiver: str, config: str, status: int, says: str
) -> None:
    (tmp_path / "fallow.toml").write_text(config)
    done = fallow("alerts", "--test", receiver, data=tmp_path)
    assert done.returncode == status
    assert says in done.stdout + done.stderr and "Traceback" not in done.stderr


@pytest.mark.long
def test_a_service_that_is_killed_tells_each_case_once_and_invented_people_nothing(tmp_path: Path) -> None:
    """A simulated cluster in a calendar that hurries: its cases are real ones, its people are not."""
    with webhook() as hook:
        config = CONFIG.format(port=hook.port, now_ms=time.time_ns() // 1_000_000)
        service = start(tmp_path, config=config)
        try:
            until("a word is out", lambda: bool(hook.taken))
        finally:
            service.stop(signal.SIGKILL)
        before = len(hook.taken)
        reborn = start(tmp_path, config=config)
        try:
            until("the service is well", lambda: is_well(reborn))
            until("all that may go out is out", lambda: len(hook.taken) >= 3)
            rows = json.loads(fallow("alerts", "--all", "--json", data=tmp_path).stdout)
            shown = fallow("alerts", data=tmp_path).stdout
        finally:
            _, complaints = reborn.stop()
    assert "Traceback" not in complaints, complaints
    singles = [str(each["message"]) for each in hook.taken if " alerts: " not in str(each["title"])]
    cases = [text.rpartition("Fallow, case ")[2] for text in singles]
    assert before >= 1 and len(singles) == len(set(singles)), cases
    assert rows and {row["kind"] for row in rows} & {"held-idle", "memory-hog", "low-utilization"}
    assert any(row["told"] == "ops" for row in rows)
    assert all("user:" not in str(row["told"]) + str(row["missed"]) + str(row["waiting"]) for row in rows)
    assert "next: " in shown and "told ops" in shown

"""Who asked for what, and what was refused, stands in the security log; reading and reports do not."""

import asyncio
import json
import logging
from typing import Any

import pytest

from service.api.audit import Audit
from service.api.gate import App, Message, Receive, Send
from service.api.identity import Peer
from service.control.interface import Caller, Role
from service.logs import SecurityLog

BO = Caller(name="bo", uid=1001, role=Role.USER, pid=7)


def answering(status: int, message: str = "", caller: Caller | None = BO) -> App:
    """An application that finds the caller as the gate does, and answers this."""

    async def app(scope: Message, receive: Receive, send: Send) -> None:
        if caller is not None:
            scope.setdefault("state", {})["caller"] = caller
        body = json.dumps({"error": "x", "message": message}).encode()
        await send({"type": "http.response.start", "status": status, "headers": []})
        await send({"type": "http.response.body", "body": body})

    return app


def asked(audit: Audit, app: App, method: str, path: str, **scope: Any) -> list[Message]:
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    async def receive() -> Message:
        return {"type": "http.disconnect"}

    whole = {"type": "http", "method": method, "path": path, "client": ("192.0.2.7", 4000), **scope}
    asyncio.run(audit.around(app)(whole, receive, send))
    return sent


@pytest.fixture
def audit(caplog: pytest.LogCaptureFixture) -> Audit:
    caplog.set_level(logging.INFO)
    return Audit(SecurityLog(lambda: 0.0))


def lines(caplog: pytest.LogCaptureFixture) -> list[tuple[str, dict[str, object]]]:
    return [(record.event, record.fields) for record in caplog.records]  # type: ignore[attr-defined]


def test_an_order_is_written_with_who_and_what(audit: Audit, caplog: pytest.LogCaptureFixture) -> None:
    asked(audit, answering(200), "POST", "/v1/jobs/fallow:3/cancel")
    ((event, fields),) = lines(caplog)
    assert event == "order"
    assert (fields["caller"], fields["uid"], fields["pid"]) == ("bo", 1001, 7)
    assert (fields["path"], fields["status"]) == ("/v1/jobs/fallow:3/cancel", 200)


def test_a_refused_order_is_a_warning_with_its_reason(audit: Audit, caplog: pytest.LogCaptureFixture) -> None:
    sent = asked(audit, answering(403, "fallow:3 is anna's"), "POST", "/v1/jobs/fallow:3/cancel")
    ((event, fields),) = lines(caplog)
    assert (event, fields["reason"]) == ("order-refused", "fallow:3 is anna's")
    assert caplog.records[0].levelno == logging.WARNING
    assert audit.refused == {403: 1}
    assert b"anna" in sent[1]["body"], "the answer itself is as it was"


@pytest.mark.parametrize(
    ("status", "event"), [(401, "identity-refused"), (421, "host-refused"), (503, "bound-reached")]
)
def test_whom_nobody_knows_is_written_by_address_or_uid(
    audit: Audit, caplog: pytest.LogCaptureFixture, status: int, event: str
) -> None:
    asked(audit, answering(status, caller=None), "GET", "/v1/jobs")
    asked(audit, answering(status, caller=None), "GET", "/v1/jobs", state={"peer": Peer(pid=9, uid=4001)})
    assert [(name, fields["caller"]) for name, fields in lines(caplog)] == [
        (event, "192.0.2.7"),
        (event, "uid 4001"),
    ]


@pytest.mark.parametrize(("method", "path"), [("GET", "/v1/jobs"), ("POST", "/v1/jobs/fallow:3/reports")])
def test_reading_and_reports_leave_no_line(
    audit: Audit, caplog: pytest.LogCaptureFixture, method: str, path: str
) -> None:
    asked(audit, answering(200), method, path)
    asked(audit, answering(404), method, path)
    assert lines(caplog) == []


def test_an_order_that_was_a_mistake_is_written_and_is_no_refusal(
    audit: Audit, caplog: pytest.LogCaptureFixture
) -> None:
    asked(audit, answering(409, "it is paused already"), "POST", "/v1/jobs/fallow:3/pause")
    ((event, fields),) = lines(caplog)
    assert (event, fields["reason"], audit.refused) == ("order-failed", "it is paused already", {})


def test_one_who_is_refused_without_end_is_counted_and_writes_few_lines(
    audit: Audit, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(500):
        asked(audit, answering(401, caller=None), "GET", "/v1/jobs")
    assert len(lines(caplog)) == 20
    assert audit.refused == {401: 500}

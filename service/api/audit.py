"""Who asked for what, and what was refused: one line of the security log for each order and each refusal.

Plain ASGI around everything else, so that it also sees what the gate refuses. Reading launchers' reports
and what nodes push are not orders and leave no line; the number of refusals by status is on ``/metrics``.
"""

import json
import logging
from collections import Counter
from collections.abc import Mapping

from starlette.types import Message, Receive, Send

from service.api.gate import NODE_TICKS, READING, REPORTS, App
from service.logs import SecurityLog

HEALTH = "/healthz"
"""Its 503 is the answer to the question, and refuses nobody anything."""

UNWRITTEN = (REPORTS, NODE_TICKS)
"""What is no order: what launchers and nodes say of themselves, some times a minute each."""

EVENTS = {401: "identity-refused", 403: "order-refused", 421: "host-refused", 413: "bound-reached"}
EVENTS |= {429: "bound-reached", 503: "bound-reached"}
"""What a refusal is called, by its status; other statuses of an order are its own mistakes."""

ORDERS_A_MINUTE = 600
"""Orders of one user that are written in a minute; more than a person or a script of theirs can mean."""

REASON_BYTES = 2_000
"""Of a refusal's body so much is kept to take its sentence from."""


class Audit:
    """The wrapper's memory: the security log, and refusals counted by status. Event loop alone."""

    def __init__(self, log: SecurityLog) -> None:
        self._log = log
        self._refused: Counter[int] = Counter()

    @property
    def refused(self) -> Mapping[int, int]:
        """Refused requests by HTTP status since the start."""
        return dict(self._refused)

    def around(self, app: App) -> App:
        """The same application; each answer to an order, and each refusal, is written down."""

        async def audited(scope: Message, receive: Receive, send: Send) -> None:
            if scope["type"] != "http":
                await app(scope, receive, send)
                return
            status, body = 0, b""

            async def noting(message: Message) -> None:
                nonlocal status, body
                if message["type"] == "http.response.start":
                    status = message["status"]
                elif status >= 400 and len(body) < REASON_BYTES:
                    body += message.get("body", b"")
                await send(message)

            try:
                await app(scope, receive, noting)
            finally:
                self._ended(scope, status, body)

        return audited

    def _ended(self, scope: Message, status: int, body: bytes) -> None:
        event = None if scope["path"] == HEALTH else EVENTS.get(status)
        if event is not None:
            self._refused[status] += 1
        is_order = scope["method"] not in READING and not scope["path"].endswith(UNWRITTEN)
        if event is None and not is_order:
            return
        if event is None:
            event = "order" if status < 400 else "order-failed"
        fields = {"method": scope["method"], "path": scope["path"][:200], "status": status}
        fields |= _caller_fields(scope)
        if status >= 400:
            fields["reason"] = _reason(body)
        caller = str(fields.pop("caller"))
        is_refusal = status in EVENTS
        self._log.write(
            event,
            caller,
            level=logging.WARNING if is_refusal else logging.INFO,
            **({} if is_refusal else {"most": ORDERS_A_MINUTE}),
            **fields,
        )


def _caller_fields(scope: Message) -> dict[str, object]:
    """Whom the gate found, else what the kernel says of the other end: a uid, or an address."""
    state = scope.get("state", {})
    caller, peer = state.get("caller"), state.get("peer")
    if caller is not None:
        return {"caller": caller.name, "uid": caller.uid, "role": str(caller.role), "pid": caller.pid}
    if peer is not None:
        return {"caller": f"uid {peer.uid}", "uid": peer.uid, "pid": peer.pid}
    client = scope.get("client")
    return {"caller": client[0] if client else "unknown"}


def _reason(body: bytes) -> str | None:
    try:
        document = json.loads(body)
    except ValueError:
        return None
    return str(document.get("message", ""))[:500] if isinstance(document, dict) else None

"""Stands before every request: who may come in, and how long a reader may dawdle.

Plain ASGI, so that it also holds for what FastAPI answers by itself (404, 405, the schema).
"""

import asyncio
import hmac
import json
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from typing import Any

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Message, Receive, Send], Awaitable[None]]

LOOPBACK_NAMES = ("localhost", "127.0.0.1", "[::1]")


@dataclass(frozen=True, slots=True, kw_only=True)
class GateRules:
    """The token, the paths that need none, and the host names this service answers to.

    A page in somebody's browser can make its own name resolve to 127.0.0.1 (DNS rebinding); asking for a
    known ``Host`` shuts that door. An empty ``hosts`` answers to any name.
    """

    token: str
    open_paths: frozenset[str]
    hosts: frozenset[str]
    send_timeout_s: float


def gate(app: App, rules: GateRules) -> App:
    """The same application behind the rules."""

    async def guarded(scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await app(scope, receive, send)
            return
        headers = {key.lower(): value.decode("latin-1") for key, value in scope["headers"]}
        patient = _patient(send, rules.send_timeout_s)
        refusal = _refusal(scope["path"], headers, rules)
        if refusal is not None:
            await _answer(patient, *refusal)
            return
        try:
            await app(scope, receive, patient)
        except TimeoutError:
            return  # the reader stopped reading: the server closes the connection

    return guarded


def _refusal(path: str, headers: dict[bytes, str], rules: GateRules) -> tuple[int, str, str] | None:
    host = headers.get(b"host", "").rsplit(":", 1)[0] if "]" not in headers.get(b"host", "") else "[::1]"
    if rules.hosts and host not in rules.hosts:
        return 421, "not-allowed", f"this service does not answer to the name {host!r}; see api.host"
    if path in rules.open_paths:
        return None
    scheme, _, given = headers.get(b"authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not given:
        return 401, "not-allowed", "a token is needed: Authorization: Bearer, with the content of DATA/token"
    if not hmac.compare_digest(given.strip().encode(), rules.token.encode()):
        return 401, "not-allowed", "the token is wrong; the right one stands in DATA/token of this service"
    return None


def _patient(send: Send, timeout_s: float) -> Send:
    async def bounded(message: Message) -> None:
        await asyncio.wait_for(send(message), timeout_s)

    return bounded


async def _answer(send: Send, status: int, kind: str, message: str) -> None:
    body = json.dumps({"error": kind, "message": message}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    if status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})

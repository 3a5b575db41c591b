"""Stands before every request: who may come in, how much they may bring, and how long they may dawdle.

Plain ASGI, so that it also holds for what FastAPI answers by itself (404, 405).
"""

import asyncio
import json
import logging
from dataclasses import dataclass, replace

from starlette.types import ASGIApp, Message, Receive, Send

from service.api.allowance import Allowance, Kind
from service.api.identity import Identity, Peer, Unknown
from service.api.persons import person_of
from service.control.errors import OverLimit
from service.control.interface import Caller, Role
from service.logs import log_event
from service.schemas.headers import ROLE_HEADER
from service.trust.hosts import LONGEST, is_known, is_own_page

log = logging.getLogger(__name__)

App = ASGIApp

MOST_BODY_BYTES = 1 << 20
CALLS_A_MIB = 59
"""A body is read where everybody's requests pass, for up to 40 ms: the longest counts as the 60 requests that
``limits.calls_per_minute`` allows at least, a usual one as hardly more than itself."""
READING = ("GET", "HEAD", "OPTIONS")
REPORTS = "/reports"
"""What a launcher says of its job is no order; what of it has to be kept is counted where that is known."""

NODE_TICKS = "/v1/nodes/ticks"

ANYBODY = Caller(name="anybody", uid=None, role=Role.VIEWER)


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestLimits:
    """How callers are told apart, the paths that need nobody's name, and the host names answered to.

    A page in somebody's browser can make its own name resolve to 127.0.0.1 (DNS rebinding); asking for a
    known ``Host`` shuts that door. An empty ``hosts`` answers to any name. No browser reaches a Unix socket.
    """

    identity: Identity
    open_paths: frozenset[str]
    hosts: frozenset[str]
    send_timeout_s: float
    receive_timeout_s: float
    allowance: Allowance


@dataclass(frozen=True, slots=True, kw_only=True)
class _Refused:
    status: int
    kind: str
    message: str
    retry_after_s: int | None = None


def gate(app: App, rules: RequestLimits) -> App:
    """The same application behind the rules; it finds the ``Caller`` in ``scope["state"]["caller"]``."""

    async def guarded(scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await app(scope, receive, send)
            return
        headers = {key.lower(): value.decode("latin-1") for key, value in scope["headers"]}
        patient = _patient(send, rules.send_timeout_s)
        result = _unwanted(headers, scope, rules) or await _caller(headers, scope, rules)
        if not isinstance(result, _Refused):
            scope.setdefault("state", {})["caller"] = result
        refused = _excess(result, scope, rules.allowance) or result
        if isinstance(refused, _Refused):
            await _answer(patient, refused)
            return
        try:
            await app(scope, _bounded(receive, rules.receive_timeout_s), patient)
        except TimeoutError:  # the reader stopped reading, or is too slow: nothing waits for the rest
            caller = scope.get("state", {}).get("caller", ANYBODY).name
            log_event(log, "answer-broken-off", caller=caller, path=scope["path"], reason="read too slowly")
            scope.get("state", {}).get("hang_up", lambda: None)()
            await asyncio.sleep(0)  # until the server knows it

    return guarded


def _unwanted(headers: dict[bytes, str], scope: Message, rules: RequestLimits) -> _Refused | None:
    host, origin = headers.get(b"host", ""), headers.get(b"origin")
    if _peer(scope) is None and rules.hosts and not is_known(host, rules.hosts):
        message = f"this service does not answer to the name {host[:LONGEST]!r}; see api.host"
        return _Refused(status=421, kind="not-allowed", message=message)
    if origin is not None and not is_own_page(origin, host):
        message = f"a page of {origin[:LONGEST]!r} may not use this service; it is asked by programs"
        return _Refused(status=403, kind="forbidden", message=message)
    if not scope["path"].isprintable():
        message = "a path holds no control characters, and nothing that cannot be seen"
        return _Refused(status=400, kind="bad-order", message=message)
    # No client of ours sends it, and two lengths in one request are what smuggling is made of
    # (docs/decisions/0061).
    if b"transfer-encoding" in headers:
        message = "a request's body is sent whole, with its Content-Length: it may not come in pieces"
        return _Refused(status=411, kind="bad-order", message=message)
    length = headers.get(b"content-length", "0")
    if length.isdigit() and int(length) > MOST_BODY_BYTES:
        return _Refused(
            status=413, kind="bad-order", message=f"a request's body holds {MOST_BODY_BYTES} bytes at most"
        )
    return None


async def _caller(headers: dict[bytes, str], scope: Message, rules: RequestLimits) -> Caller | _Refused:
    peer = _peer(scope)
    if peer is not None:
        return _as_viewer(await rules.identity.by_kernel(peer), headers)
    if scope["path"] in rules.open_paths:
        return ANYBODY
    caller = await rules.identity.by_token(headers)
    if isinstance(caller, Unknown):
        return _Refused(status=401, kind="not-allowed", message=caller.reason)
    return _as_viewer(caller, headers)


def _as_viewer(caller: Caller, headers: dict[bytes, str]) -> Caller:
    """The caller; as a viewer where the request asks to be taken for one, as the dashboard's do."""
    # A request may ask to be less than its sender is, never more.
    is_less = headers.get(ROLE_HEADER.lower().encode()) == Role.VIEWER
    return replace(caller, role=Role.VIEWER) if is_less and caller.role is not Role.NODE else caller


def _excess(caller: Caller | _Refused, scope: Message, allowance: Allowance) -> _Refused | None:
    """Why the request is more than its sender may ask, who is nobody but an address where none is known."""
    state = scope.get("state", {})
    if isinstance(caller, Caller) and caller is not ANYBODY:
        if caller.role is Role.OPERATOR:
            return None
        person = person_of(caller)
    else:
        person = state.get("person", "somebody")
    try:
        allowance.take(person, Kind.CALL, 1 + CALLS_A_MIB * _body_mib(scope))
        if (
            isinstance(caller, Caller) and caller.role is Role.NODE
        ):  # what it measured is no order of anybody's
            return None
        if scope["method"] not in READING and not scope["path"].endswith(REPORTS):
            allowance.take(person, Kind.ORDER)
            if isinstance(caller, Caller):  # of what is refused nothing is kept, and its length is anything
                allowance.take(person, Kind.KEPT, _body_mib(scope))
    except OverLimit as error:
        return _Refused(status=429, kind="over-limit", message=str(error), retry_after_s=error.retry_after_s)
    return None


def _body_mib(scope: Message) -> float:
    """How long an order says that it is; the longest there may be, where it comes in pieces."""
    headers = {name.lower(): value for name, value in scope["headers"]}
    length = headers.get(b"content-length", b"0")
    has_length = length.isdigit() and b"transfer-encoding" not in headers
    length_bytes = min(int(length), MOST_BODY_BYTES) if has_length else MOST_BODY_BYTES
    return length_bytes / (1 << 20)


def _peer(scope: Message) -> Peer | None:
    """The process at the other end, where the server has put it: on the Unix socket alone."""
    peer: Peer | None = scope.get("state", {}).get("peer")
    return peer


def _patient(send: Send, timeout_s: float) -> Send:
    async def bounded(message: Message) -> None:
        async with asyncio.timeout(timeout_s):
            await send(message)

    return bounded


def _bounded(receive: Receive, timeout_s: float) -> Receive:
    """The body, until it is too long or comes too slowly: then it is as if the sender had hung up."""
    remaining, is_complete = MOST_BODY_BYTES, False
    until_s: float | None = None

    async def bounded() -> Message:
        nonlocal remaining, is_complete, until_s
        if is_complete or remaining < 0:
            return await receive()
        if until_s is None:  # for all of it, or a byte now and then would hold the connection for days
            until_s = asyncio.get_running_loop().time() + timeout_s
        try:
            async with asyncio.timeout_at(until_s):
                message = await receive()
        except TimeoutError:
            remaining = -1
            return {"type": "http.disconnect"}
        remaining -= len(message.get("body", b""))
        is_complete = not message.get("more_body", False)
        return message if remaining >= 0 else {"type": "http.disconnect"}

    return bounded


async def _answer(send: Send, refused: _Refused) -> None:
    body = json.dumps({"error": refused.kind, "message": refused.message}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    if refused.retry_after_s is not None:
        headers.append((b"retry-after", str(refused.retry_after_s).encode()))
    if refused.status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    # Its body is never read, so nothing else may come over this connection.
    if refused.status in (411, 413):
        headers.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": refused.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})

"""Stands before the dashboard's server: which names it answers to, and which pages may talk to it.

Streamlit answers to any name and opens its socket to every page that is same-origin with it, which is every
page whose name was made to resolve to this machine (``service.trust.hosts``).
"""

import os
import socket
from collections.abc import Mapping, Set

from starlette.types import ASGIApp, Message, Receive, Send

from service.data_folder import HOSTS_VARIABLE
from service.trust.hosts import LONGEST, is_known, is_own_page

POLICY_VIOLATION = 1008
"""Before it is accepted, a WebSocket that is closed is answered with HTTP 403 (ASGI, websocket.close)."""


def listed_names(environment: Mapping[str, str]) -> frozenset[str]:
    """The names that the site's configuration allows beside the machine's own."""
    return frozenset(each.strip().lower() for each in environment.get(HOSTS_VARIABLE, "").split(",") if each)


def own_names() -> frozenset[str]:
    """What this machine calls itself; nobody is asked over the network."""
    name = socket.gethostname().lower()
    return frozenset({name, name.partition(".")[0]} - {""})


def objection(host: str | None, origin: str | None, listed: Set[str]) -> str | None:
    """Why a request is not answered, for whoever sent it; ``None``: it is."""
    if host is None or not is_known(host, listed | own_names()):
        return (
            f"this dashboard does not answer to the name {(host or '')[:LONGEST]!r}; open it as "
            "http://127.0.0.1:PORT, or list the name under [dashboard] hosts in fallow.toml"
        )
    if origin is not None and not is_own_page(origin, host, listed):
        return (
            f"a page of {origin[:LONGEST]!r} may not use this dashboard; a proxy's own name is listed under "
            "[dashboard] hosts in fallow.toml"
        )
    return None


def guarded(app: ASGIApp) -> ASGIApp:
    """The same application for known names and own pages alone; others get 421, and no WebSocket."""
    listed = listed_names(os.environ)

    async def answer(scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await app(scope, receive, send)
            return
        headers = {name.lower(): value.decode("latin-1") for name, value in scope["headers"]}
        why = objection(headers.get(b"host"), headers.get(b"origin"), listed)
        if why is None:
            await app(_as_own(scope, headers), receive, send)
        elif scope["type"] == "websocket":
            await receive()  # the request to connect, which ASGI has answered first
            await send({"type": "websocket.close", "code": POLICY_VIOLATION, "reason": ""})
        else:
            await _refuse(send, why)

    return answer


def _as_own(scope: Message, headers: Mapping[bytes, str]) -> Message:
    """The request with its own host as ``Origin``: Streamlit knows nothing of the names that a site lists."""
    if b"origin" not in headers:
        return scope
    own = (b"origin", f"{headers[b'origin'].partition(':')[0]}://{headers[b'host']}".encode("latin-1"))
    others = [each for each in scope["headers"] if each[0].lower() != b"origin"]
    return {**scope, "headers": [*others, own]}


async def _refuse(send: Send, why: str) -> None:
    body = f"{why}\n".encode()
    headers = [
        (b"content-type", b"text/plain; charset=utf-8"),
        (b"content-length", str(len(body)).encode()),
        (b"x-content-type-options", b"nosniff"),
    ]
    await send({"type": "http.response.start", "status": 421, "headers": headers})
    await send({"type": "http.response.body", "body": body})

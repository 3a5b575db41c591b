"""Lists of a Kubernetes API server, whole or not at all; and the requests of who changes one object.

A list is believed when each of its pages came with status 200, is a list by its own word, and bears the
resource version that the API server gives every list; the server authorizes a list as a whole, so one that
is empty then says that there is nothing. Anything else is ``NoAnswer``: forbidden (403), a page that is cut
off, or a continue token that has expired twice (410). A group that the cluster doesn't have (404) is
``None``.

A change is a JSON merge patch (RFC 7386); whoever gives it names the resource version that it was made of, so
that the server refuses it (409) where the object has changed since.

Sources: kubernetes.io, "Kubernetes API Concepts" (retrieving large results sets in chunks, updates to
existing resources), ListMeta.
"""

import json
import os
import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

PAGE = 500
"""Objects a page, as kubectl asks for."""
MOST_PAGES = 400
"""200,000 objects: more pods than a cluster may have (150,000; kubernetes.io, "Considerations for large
clusters")."""
TIMEOUT_S = 20.0
"""For one page of a list; beyond it the API server is taken for away, and the next look asks again."""
TRIES = 2
"""A list whose continue token expired is begun once more."""
MOST_BYTES = 64 << 20
"""Of one answer. etcd takes objects of 1.5 MiB at most, and pods have some 10 kB: a page of 500 has 5 MB."""
MERGE_PATCH = "application/merge-patch+json"
LONGEST = 300
"""Characters of a server's own message that are shown: it may quote a whole object."""

Object = Mapping[str, Any]


class NoAnswer(Exception):
    """Something could not be listed; the message says what, and what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A status and the object of the body; ``None`` where it is none."""

    status: int
    body: Object | None


Get = Callable[[str], Answer]
"""Asks for a path with its query. Raises ``NoAnswer`` where nobody answers."""
Patch = Callable[[str, Object], Answer]
"""Changes the object at a path by a merge patch. Raises ``NoAnswer`` where nobody answers: it may be done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """How an API server is asked, and how one of its objects is changed."""

    get: Get
    patch: Patch


def list_of(get: Get, path: str, kind: str) -> tuple[Object, ...] | None:
    """All objects of a list; ``None`` where the cluster has no such kind. Raises ``NoAnswer``."""
    for _ in range(TRIES):
        items = _pages(get, path, kind)
        if not isinstance(items, _Expired):
            return items
    raise NoAnswer(
        f"the list of {kind} was cut off twice: its continue token expired (410) while it was read"
    )


def groups_of(get: Get) -> dict[str, frozenset[str]]:
    """The versions of each API group that the cluster serves; any account may ask. Raises ``NoAnswer``."""
    answer = get("/apis")
    result = (answer.body or {}).get("groups")
    if answer.status != 200 or not isinstance(result, list):
        raise NoAnswer(f"the API server doesn't say which groups it has: HTTP {answer.status}{said(answer)}")
    return {
        str(group.get("name")): frozenset(str(each.get("version")) for each in group.get("versions") or ())
        for group in result
        if isinstance(group, Mapping)
    }


class _Expired:
    """A continue token that is too old: the list has to be begun anew."""


def _pages(get: Get, path: str, kind: str) -> tuple[Object, ...] | _Expired | None:
    items: list[Object] = []
    token = ""
    for _ in range(MOST_PAGES):
        after = f"&continue={quote(token, safe='')}" if token else ""
        answer = get(f"{path}?limit={PAGE}{after}")
        if answer.status == 404 and not token:
            return None
        if answer.status == 410 and token:
            return _Expired()
        page, token = _page(answer, kind)
        items += page
        if not token:
            return tuple(items)
    raise NoAnswer(f"there are more than {PAGE * MOST_PAGES} of {kind}")


def _page(answer: Answer, kind: str) -> tuple[list[Object], str]:
    if answer.status in (401, 403):
        raise NoAnswer(
            f"this account may not list {kind} of the whole cluster (HTTP {answer.status}{said(answer)}): "
            "`kubectl apply` the ClusterRole of packaging/kubernetes/fallow.yaml, or see docs/kubernetes.md"
        )
    if answer.status != 200 or answer.body is None:
        raise NoAnswer(f"{kind} could not be listed: HTTP {answer.status}{said(answer)}")
    meta, items = answer.body.get("metadata"), answer.body.get("items")
    is_list = str(answer.body.get("kind", "")).endswith("List") and isinstance(meta, Mapping)
    if not is_list or not isinstance(items, list) or not meta or not meta.get("resourceVersion"):
        raise NoAnswer(f"what answers for {kind} is no list of a Kubernetes API server")
    return [each for each in items if isinstance(each, Mapping)], str(meta.get("continue") or "")


def said(answer: Answer) -> str:
    """The server's own message as the end of a sentence; empty where it has none."""
    message = (answer.body or {}).get("message")
    text = "".join(each if each.isprintable() else " " for each in str(message))[:LONGEST]
    return f": {text}" if message else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """Where the API server is, and as whom it is asked. Files are read at every look: tokens are renewed."""

    url: str
    token_file: Path
    ca_file: Path | None


SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


def in_cluster(environment: Mapping[str, str] | None = None, folder: Path = SERVICE_ACCOUNT) -> Account:
    """The account of the pod that this is. Raises ``NoAnswer`` where it is none."""
    variables = os.environ if environment is None else environment
    host, port = variables.get("KUBERNETES_SERVICE_HOST"), variables.get("KUBERNETES_SERVICE_PORT", "443")
    if not host or not (folder / "token").exists():
        raise NoAnswer(
            "this is no pod with a service account; give the API server's address, a token and a CA "
            "(collect.kubernetes, kubernetes_token_file, kubernetes_ca_file)"
        )
    named = f"[{host}]" if ":" in host else host
    return Account(url=f"https://{named}:{port}", token_file=folder / "token", ca_file=folder / "ca.crt")


def account_of(url: str, token_file: str, ca_file: str = "") -> Callable[[], Account] | None:
    """As whom the API server at ``url`` is asked: the pod's own account where that is ``in-cluster``.

    ``None``: a token goes over https alone, and from a file.
    """
    if url == "in-cluster":
        return in_cluster
    if not url.startswith("https://") or not token_file:
        return None
    ca_path = Path(ca_file) if ca_file else None
    account = Account(url=url.rstrip("/"), token_file=Path(token_file), ca_file=ca_path)
    return lambda: account


def connected(account: Account, timeout_s: float = TIMEOUT_S) -> Iterator[Connection]:
    """One connection; a generator, to be used by ``contextlib.contextmanager``. Raises ``NoAnswer``."""
    import httpx

    try:
        token = account.token_file.read_text().strip()
        verify: ssl.SSLContext | bool = True
        if account.ca_file is not None:
            verify = ssl.create_default_context(cafile=str(account.ca_file))
    except (OSError, ValueError) as error:
        raise NoAnswer(f"the token or the CA of the API server cannot be read: {error}") from error
    headers = {"Authorization": f"Bearer {token}", "Accept": "application/json"}
    with httpx.Client(
        base_url=account.url, headers=headers, verify=verify, timeout=timeout_s, trust_env=False
    ) as client:

        def ask(method: str, path: str, body: Object | None = None) -> Answer:
            ends_at = time.monotonic() + timeout_s
            content = None if body is None else json.dumps(body).encode()
            kind = {} if body is None else {"Content-Type": MERGE_PATCH}
            try:
                with client.stream(method, path, content=content, headers=kind) as response:
                    result = _read(response.iter_bytes(), path, ends_at)
            except httpx.HTTPError as error:
                raise NoAnswer(f"{account.url} does not answer: {error or type(error).__name__}") from error
            return Answer(status=response.status_code, body=result)

        yield Connection(get=lambda path: ask("GET", path), patch=lambda path, body: ask("PATCH", path, body))


def _read(chunks: Iterator[bytes], path: str, ends_at: float) -> Object | None:
    """The object of the body; ``None``: it is none. Raises ``NoAnswer``: too long, or too slow."""
    body = bytearray()
    for chunk in chunks:
        body += chunk
        if len(body) > MOST_BYTES:
            raise NoAnswer(f"the answer for {path.partition('?')[0]} is longer than {MOST_BYTES >> 20} MiB")
        if time.monotonic() > ends_at:
            raise NoAnswer(f"the answer for {path.partition('?')[0]} takes too long")
    try:
        result = json.loads(bytes(body))
    except (ValueError, RecursionError):
        return None
    return result if isinstance(result, dict) else None

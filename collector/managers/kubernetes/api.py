"""Lists of a Kubernetes API server, whole or not at all.

A list is believed when each of its pages came with status 200, is a list by its own word, and bears the
resource version that the API server gives every list; the server authorizes a list as a whole, so one that
is empty then says that there is nothing. Anything else is ``NoAnswer``: forbidden (403), a page that is cut
off, or a continue token that has expired twice (410). A group that the cluster doesn't have (404) is
``None``.

Sources: kubernetes.io, "Kubernetes API Concepts" (retrieving large results sets in chunks), ListMeta.
"""

import os
import ssl
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
        raise NoAnswer(f"the API server doesn't say which groups it has: HTTP {answer.status}{_said(answer)}")
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
            f"this account may not list {kind} of the whole cluster (HTTP {answer.status}{_said(answer)}): "
            "`kubectl apply` the ClusterRole of packaging/kubernetes/fallow.yaml, or see docs/kubernetes.md"
        )
    if answer.status != 200 or answer.body is None:
        raise NoAnswer(f"{kind} could not be listed: HTTP {answer.status}{_said(answer)}")
    meta, items = answer.body.get("metadata"), answer.body.get("items")
    is_list = str(answer.body.get("kind", "")).endswith("List") and isinstance(meta, Mapping)
    if not is_list or not isinstance(items, list) or not meta or not meta.get("resourceVersion"):
        raise NoAnswer(f"what answers for {kind} is no list of a Kubernetes API server")
    return [each for each in items if isinstance(each, Mapping)], str(meta.get("continue") or "")


def _said(answer: Answer) -> str:
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


def asking(account: Account, timeout_s: float = TIMEOUT_S) -> Iterator[Get]:
    """One connection for one look; a generator, to be used by ``contextlib.contextmanager``."""
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

        def get(path: str) -> Answer:
            try:
                response = client.get(path)
            except httpx.HTTPError as error:
                raise NoAnswer(f"{account.url} does not answer: {error or type(error).__name__}") from error
            try:
                body = response.json()
            except ValueError:
                body = None
            return Answer(status=response.status_code, body=body if isinstance(body, dict) else None)

        yield get

"""Answers of a Ray dashboard, whole or not at all.

The state API (``/api/v0/...``) cuts lists off (10,000 entries at most, ``limit``) and says so by its counts,
and names what it couldn't ask in ``partial_failure_warning``: such a list is ``NoAnswer``, like one that the
GCS didn't give (HTTP 500). Answers are bounded in time and in size: a dashboard is a program of the
cluster's users' reach.

Sources: docs.ray.io, "State API" and "Ray Jobs REST API"; ``ray.util.state.common`` of 2.60.0; a real 2.60.0
whose GCS and raylet were stopped (27 November 2026).
"""

import json
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

MOST = 10_000
"""Entries of a list: more the dashboard refuses to give (RAY_MAX_LIMIT_FROM_API_SERVER)."""
ASK_S = 5
"""What the dashboard may take for the GCS, in whole seconds (``timeout`` of the state API)."""
TIMEOUT_S = 10.0
"""For one answer, from the first byte sent to the last read: with a stopped GCS lists fail after 2 s, and the
list of jobs never comes."""
MOST_BYTES = 64 << 20
"""Of one answer: a node with 7 workers takes 19 kB, so a thousand nodes of 16 workers some 30 MB."""
LONGEST = 300
"""Characters of the dashboard's own message that are shown."""

Object = Mapping[str, Any]


class NoAnswer(Exception):
    """Something could not be read; the message says what, and what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A status and the JSON of the body; ``None``: it is none. ``at_ms``: when, by the server's clock."""

    status: int
    body: Any
    at_ms: int | None = None


Get = Callable[[str], Answer]
"""Asks for a path with its query. Raises ``NoAnswer`` where nobody answers in time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """Where the dashboard is. The token's file is read at every look: tokens are renewed."""

    url: str
    token_file: Path | None = None
    ca_file: Path | None = None


def state_list(get: Get, kind: str, state: str, *, is_other: bool = False) -> tuple[Object, ...]:
    """All entries of a kind of the state API in this state, or in any other. Raises ``NoAnswer``."""
    query = [("detail", "1"), ("limit", str(MOST)), ("timeout", str(ASK_S))]
    query += [("filter_keys", "state"), ("filter_predicates", "!=" if is_other else "=")]
    query.append(("filter_values", state))
    words = kind.replace("_", " ")
    answer = get(f"/api/v0/{kind}?{urlencode(query)}")
    if answer.status in (401, 403):
        raise NoAnswer(
            f"the dashboard refuses to list {words} (HTTP {answer.status}): it wants a token; put Ray's "
            "(`ray get-auth-token`) into a file and name it by collect.ray_token_file"
        )
    body = answer.body if isinstance(answer.body, Mapping) else {}
    if answer.status != 200 or body.get("result") is not True:
        raise NoAnswer(f"{words} could not be listed: HTTP {answer.status}{_said(body)}")
    listed = part(part(body, "data"), "result")
    entries = listed.get("result")
    total, shown = listed.get("total"), listed.get("num_after_truncation")
    if not isinstance(entries, list) or not isinstance(total, int) or not isinstance(shown, int):
        raise NoAnswer(f"what answers for {words} is no state API of Ray as 2.60 has it")
    if warning := listed.get("partial_failure_warning"):
        raise NoAnswer(f"the list of {words} has holes: {bounded(str(warning))}")
    if shown < total or len(entries) >= MOST:
        raise NoAnswer(f"there are more than {min(shown, MOST)} {words}, and Ray lists no more of them")
    return tuple(entry for entry in entries if isinstance(entry, Mapping))


def data_of(get: Get, path: str, what: str) -> tuple[Object, int | None]:
    """The ``data`` of one of the dashboard's own answers, and when it was given. Raises ``NoAnswer``."""
    answer = get(path)
    body = answer.body if isinstance(answer.body, Mapping) else {}
    data = body.get("data")
    if answer.status != 200 or body.get("result") is not True or not isinstance(data, Mapping):
        raise NoAnswer(f"the dashboard doesn't tell {what}: HTTP {answer.status}{_said(body)}")
    return data, answer.at_ms


def jobs_of(get: Get) -> tuple[Object, ...]:
    """The list of jobs, submitted and not. Raises ``NoAnswer``."""
    answer = get("/api/jobs/")
    if answer.status != 200 or not isinstance(answer.body, list):
        said = _said(answer.body if isinstance(answer.body, Mapping) else {})
        raise NoAnswer(f"jobs could not be listed: HTTP {answer.status}{said}")
    return tuple(entry for entry in answer.body if isinstance(entry, Mapping))


def version_of(get: Get) -> str:
    """Ray's version. Raises ``NoAnswer`` where what answers is no dashboard of Ray."""
    answer = get("/api/version")
    version = answer.body.get("ray_version") if isinstance(answer.body, Mapping) else None
    if answer.status in (401, 403):
        raise NoAnswer(
            f"the dashboard wants a token (HTTP {answer.status}): put Ray's (`ray get-auth-token`) into a "
            "file and name it by collect.ray_token_file"
        )
    if answer.status != 200 or not isinstance(version, str) or not version:
        raise NoAnswer(
            f"what answers there is no dashboard of Ray (HTTP {answer.status} for /api/version): it needs "
            "`ray[default]` on the head, and the address of `ray start --dashboard-host`"
        )
    return bounded(version)


def part(of: Object, name: str) -> Object:
    """The object of that name; an empty one where there is none."""
    value = of.get(name)
    return value if isinstance(value, Mapping) else {}


def parts(of: Object, name: str) -> list[Object]:
    """The objects of the list of that name."""
    value = of.get(name)
    return [each for each in value if isinstance(each, Mapping)] if isinstance(value, list) else []


def number(value: object) -> float | None:
    """A number that is none of the words that Python's JSON knows beside them (NaN), and no bool."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value < 1e15 else None


def text(value: object) -> str:
    """A name, on one line and bounded; empty where it is none."""
    return bounded(value) if isinstance(value, str) else ""


def bounded(value: str) -> str:
    """Somebody else's words on one line."""
    return " ".join("".join(each if each.isprintable() else " " for each in value).split())[:LONGEST]


def _said(body: Object) -> str:
    message = body.get("msg")
    return f": {bounded(message)}" if isinstance(message, str) and message else ""


def asking(account: Account, timeout_s: float = TIMEOUT_S, most: int = MOST_BYTES) -> Iterator[Get]:
    """One connection for one look; a generator, to be used by ``contextlib.contextmanager``."""
    import ssl

    import httpx

    headers = {"Accept": "application/json"}
    verify: ssl.SSLContext | bool = True
    try:
        if account.token_file is not None:
            headers["Authorization"] = f"Bearer {account.token_file.read_text().strip()}"
        if account.ca_file is not None:
            verify = ssl.create_default_context(cafile=str(account.ca_file))
    except (OSError, ValueError) as error:
        raise NoAnswer(f"the token or the CA of Ray's dashboard cannot be read: {error}") from error
    with httpx.Client(
        base_url=account.url, headers=headers, verify=verify, timeout=timeout_s, trust_env=False
    ) as client:

        def get(path: str) -> Answer:
            ends_at = time.monotonic() + timeout_s
            try:
                with client.stream("GET", path) as response:
                    body = _read(response.iter_bytes(), path, ends_at, most)
            except httpx.HTTPError as error:
                raise NoAnswer(f"{account.url} does not answer: {error or type(error).__name__}") from error
            return Answer(
                status=response.status_code, body=body, at_ms=_date_ms(response.headers.get("date", ""))
            )

        yield get


def _read(chunks: Iterator[bytes], path: str, ends_at: float, most: int) -> Any:
    """The JSON of the body; ``None``: it is none. Raises ``NoAnswer``: too long, or too slow."""
    body = bytearray()
    for chunk in chunks:
        body += chunk
        if len(body) > most:
            raise NoAnswer(f"the answer for {path.partition('?')[0]} is longer than {most >> 20} MiB")
        if time.monotonic() > ends_at:
            raise NoAnswer(f"the answer for {path.partition('?')[0]} takes too long")
    try:
        return json.loads(bytes(body))
    except (ValueError, RecursionError):
        return None


def _date_ms(header: str) -> int | None:
    try:
        return round(parsedate_to_datetime(header).timestamp() * 1000)
    except ValueError:
        return None

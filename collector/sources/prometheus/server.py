"""A Prometheus server through its HTTP API: names, label values, and raw samples as they were scraped.

Raw means a range selector in an instant query (``metric[1h]``), not ``query_range``: that resamples on a grid
and fills up to five minutes of every hole with the last value. Here each sample has its own time and a gap is
a gap. Blocks; may be shared between threads, as httpx's client may.

    ImportFailed
      NotPrometheus      something else, or nothing, answers there
      Refused            it wants a token or a password, or another one
      ServerTrouble      it is a Prometheus, and could not answer even after retries
"""

import json
import random
import re
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import httpx
import numpy as np
import numpy.typing as npt

from collector.dcgm.fetch import place

_Columns = list[tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]]
_VALUES = re.compile(rb'"values":\[\[(.*?)\]\]', re.DOTALL)
_TOO_MUCH = ("too many samples", "maximum resolution", "timed out", "limit", "too long", "too large")
DISTRUST = "CERTIFICATE_VERIFY_FAILED"
UNAUTHORIZED = frozenset({401, 403})
NOT_A_PROMETHEUS = "Give the address of its web page, for example http://prometheus:9090"


class ImportFailed(Exception):
    """An import cannot go on; the message says what was asked, what was found, and what to do."""


class NotPrometheus(ImportFailed):
    """Something else, or nothing, answers at the URL."""


class Refused(ImportFailed):
    """The server wants other credentials."""


class ServerTrouble(ImportFailed):
    """The server could not answer."""


class TooMuch(ServerTrouble):
    """The server will not answer so much at once; half of it may do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """One series as it was scraped: times in UTC ms, values in the wire's unit."""

    name: str
    labels: Mapping[str, str]
    at_ms: npt.NDArray[np.int64]
    values: npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long to wait and how often to try again; the pause doubles, with jitter."""

    timeout_s: float = 120.0
    tries: int = 4
    pause_s: float = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """Where the server is and what it wants to see.

    ``headers`` choose what it shows (a tenant), so they are part of an origin's name. ``secrets`` are headers
    too, and are told nowhere. ``ca_pem`` is the certificate that its own is checked against.
    """

    url: str
    headers: Mapping[str, str] = field(default_factory=dict)
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    ca_pem: str | None = field(default=None, repr=False)
    patience: Patience = field(default_factory=Patience)


class PrometheusServer:
    """An open connection; use it in a ``with``."""

    def __init__(self, access: Access) -> None:
        self._patience = access.patience
        self._where = _place(access.url)
        self._partial: list[str] = []
        self._client = httpx.Client(
            base_url=access.url.rstrip("/"),
            headers={**access.headers, **access.secrets},
            timeout=access.patience.timeout_s,
            trust_env=False,
            verify=_trust(access),
        )

    def __enter__(self) -> "PrometheusServer":
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    @property
    def partial(self) -> tuple[str, ...]:
        """What the server remarked on each answer with samples that it could give in part only."""
        return tuple(self._partial)

    def names(self, selector: str, from_ms: int, to_ms: int) -> tuple[str, ...]:
        """The metric names among the series that ``selector`` (in braces) picks in the window."""
        return self.label_values("__name__", selector, from_ms, to_ms)

    def label_values(self, label: str, selector: str, from_ms: int, to_ms: int) -> tuple[str, ...]:
        """The values of a label among the series that ``selector`` picks in the window."""
        window = {"start": _seconds(from_ms), "end": _seconds(to_ms), "match[]": selector}
        answer, _ = _skeleton(self._get(f"/api/v1/label/{label}/values", window))
        return tuple(str(value) for value in answer["data"] or ())

    def labels(self, selector: str, from_ms: int, to_ms: int) -> tuple[Mapping[str, str], ...]:
        """The labels of each series that ``selector`` picks in the window."""
        window = {"start": _seconds(from_ms), "end": _seconds(to_ms), "match[]": selector}
        answer, _ = _skeleton(self._get("/api/v1/series", window))
        try:
            return tuple({str(k): str(v) for k, v in each.items()} for each in answer["data"] or ())
        except AttributeError as error:
            raise NotPrometheus(
                f"the answer to a query of labels is not a Prometheus' ({error}). {NOT_A_PROMETHEUS}"
            ) from error

    def scraped_from(self, selector: str, from_ms: int, to_ms: int) -> tuple[str, ...]:
        """The addresses from which the targets of the series that ``selector`` picks are scraped.

        Nothing where the server tells no targets, as long-term storages don't.
        """
        instances = set(self.label_values("instance", selector, from_ms, to_ms))
        try:
            answer = json.loads(self._get("/api/v1/targets", {"state": "active"}))
            addresses = {
                str(target["scrapeUrl"])
                for target in answer["data"]["activeTargets"]
                if target["labels"].get("instance") in instances
            }
        except (ImportFailed, ValueError, KeyError, TypeError, AttributeError):
            return ()
        return tuple(sorted(addresses))

    def counts(
        self, expression: str, from_ms: int, to_ms: int, step_ms: int
    ) -> tuple[tuple[int, float], ...]:
        """A query_range of an expression with a single series: (UTC ms, value) where there is one."""
        window = {"start": _seconds(from_ms), "end": _seconds(to_ms), "step": f"{step_ms / 1000:.3f}"}
        try:
            body = self._get("/api/v1/query_range", {"query": expression, **window})
        except TooMuch:
            if to_ms - from_ms < 2 * step_ms:
                raise
            middle = (from_ms + to_ms) // 2
            first = self.counts(expression, from_ms, middle, step_ms)
            return first + self.counts(expression, middle + 1, to_ms, step_ms)
        return tuple(
            (int(at), float(value))
            for series in _matrix(*_skeleton(body))
            for at, value in zip(series.at_ms, series.values, strict=True)
        )

    def samples(self, selector: str, from_ms: int, to_ms: int) -> list[Series]:
        """The raw samples with ``from_ms < at <= to_ms`` of every series that ``selector`` picks."""
        query = {"query": f"{selector}[{to_ms - from_ms}ms]", "time": _seconds(to_ms)}
        try:
            answer, values = _skeleton(self._get("/api/v1/query", query))
        except TooMuch:
            if to_ms - from_ms < 2000:
                raise
            middle = (from_ms + to_ms) // 2
            return [*self.samples(selector, from_ms, middle), *self.samples(selector, middle, to_ms)]
        if (remark := _remark(answer)) is not None:
            self._partial.append(remark)
        found = _matrix(answer, values)
        return [part for series in found if len((part := _after(series, from_ms)).at_ms)]

    def _get(self, path: str, query: Mapping[str, str]) -> bytes:
        for remaining in range(self._patience.tries - 1, -1, -1):
            try:
                return self._answer(self._client.get(path, params=dict(query)))
            except (httpx.TransportError, _Passing) as error:
                if not remaining or DISTRUST in str(error):
                    raise self._gave_up(error) from error
                nth = self._patience.tries - 1 - remaining
                time.sleep(self._patience.pause_s * 2**nth * random.uniform(0.5, 1.5))
            except httpx.InvalidURL as error:
                raise NotPrometheus(f"{self._where} is no URL ({error}). {NOT_A_PROMETHEUS}") from error
        raise AssertionError("at least one try is made")

    def _answer(self, response: httpx.Response) -> bytes:
        status = response.status_code
        if status == httpx.codes.OK:
            return response.content
        if status in UNAUTHORIZED:
            raise Refused(
                f"{self._where} answered HTTP {status}{_words_of(response)}: give a token or password that "
                "may query it, or the header that it asks for"
            )
        reason = _error_in(response)
        if reason is None and status < httpx.codes.INTERNAL_SERVER_ERROR:
            raise NotPrometheus(
                f"{self._where} answered HTTP {status}, which no Prometheus does. {NOT_A_PROMETHEUS}"
            )
        if reason is not None and any(sign in reason for sign in _TOO_MUCH):
            raise TooMuch(f"{self._where} refused a query as too large even in small pieces: {reason}")
        if status >= httpx.codes.INTERNAL_SERVER_ERROR:
            raise _Passing(f"HTTP {status} {reason or ''}".strip())
        raise ServerTrouble(f"{self._where} could not answer a query: HTTP {status} {reason}")

    def _gave_up(self, error: Exception) -> ImportFailed:
        tried = f"{self._patience.tries} tries"
        match error:
            case httpx.ConnectError() if DISTRUST in str(error):
                return Refused(
                    f"the certificate of {self._where} cannot be verified: {error}. Give the certificate of "
                    "the CA that signed it"
                )
            case httpx.ConnectError():
                return NotPrometheus(
                    f"cannot connect to {self._where} after {tried}: {error}. {NOT_A_PROMETHEUS}"
                )
            case _:
                return ServerTrouble(
                    f"{self._where} failed to answer after {tried}: {error or type(error).__name__}. What "
                    "was imported is kept; run the same command again to go on from there"
                )


def _place(url: str) -> str:
    """The address for messages. Raises NotPrometheus for a text that is none."""
    try:
        parts = urlsplit(url)
        if parts.scheme in ("http", "https") and parts.hostname and parts.port != 0 and url.isprintable():
            return place(url)
    except ValueError:
        pass
    raise NotPrometheus(f"{url!r} is no address of a server. {NOT_A_PROMETHEUS}")


def _trust(access: Access) -> ssl.SSLContext | bool:
    """The system's CAs, and the one that was given. Raises NotPrometheus for what is no certificate."""
    if access.ca_pem is None:
        return True
    try:
        context = ssl.create_default_context()
        context.load_verify_locations(cadata=access.ca_pem)
    except (ssl.SSLError, ValueError) as error:
        raise NotPrometheus(
            f"the CA given for {place(access.url)} is no certificate in PEM ({error})"
        ) from error
    return context


def _words_of(response: httpx.Response) -> str:
    """The first line of a plain answer, for a person: a proxy says what it misses."""
    if "html" in response.headers.get("content-type", ""):
        return ""
    line = next(iter(response.text[:200].splitlines()), "").strip()
    return f" ({line})" if line.isprintable() and line else ""


class _Passing(Exception):
    """A failure that may be over at the next try."""


def _seconds(ms: int) -> str:
    return f"{ms / 1000:.3f}"


def _after(series: Series, from_ms: int) -> Series:
    """Without the sample on the left edge, which Prometheus 2 includes and 3 does not."""
    if not len(series.at_ms) or series.at_ms[0] > from_ms:
        return series
    keep = series.at_ms > from_ms
    return Series(
        name=series.name, labels=series.labels, at_ms=series.at_ms[keep], values=series.values[keep]
    )


def _remark(answer: Mapping[str, Any]) -> str | None:
    """Why an answer is only a part: Thanos, and remote storage, warn of it; VictoriaMetrics marks it."""
    warnings = answer.get("warnings")
    if isinstance(warnings, list) and warnings:
        return str(warnings[0])
    return "" if answer.get("isPartial") is True else None


def _matrix(answer: Mapping[str, Any], values: _Columns) -> list[Series]:
    try:
        return [_series(item, values) for item in answer["data"]["result"]]
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise NotPrometheus(
            f"the answer to a query of samples is not a Prometheus' ({error!r}). {NOT_A_PROMETHEUS}"
        ) from error


def _series(item: Mapping[str, Any], values: _Columns) -> Series:
    labels = {str(name): str(value) for name, value in item["metric"].items()}
    at, wire = values[item["values"]] if isinstance(item["values"], int) else _slow(item["values"])
    name = labels.pop("__name__", "")
    return Series(name=name, labels=labels, at_ms=np.rint(at * 1000).astype(np.int64), values=wire)


def _skeleton(body: bytes) -> tuple[dict[str, Any], _Columns]:
    """The answer with its ``data``, with each series' values taken out of it and read in bulk.

    A quote inside a label value is escaped, so the pattern cannot match within one.
    """
    values: _Columns = []

    def take(match: re.Match[bytes]) -> bytes:
        flat = np.fromstring(match[1].replace(b"],[", b",").replace(b'"', b"").decode(), sep=",")
        values.append((flat[::2], flat[1::2]))
        return b'"values":%d' % (len(values) - 1)

    try:
        answer = json.loads(_VALUES.sub(take, body))
        if "data" not in answer:
            raise KeyError("data")
        return dict(answer), values
    except (ValueError, KeyError, TypeError) as error:
        raise NotPrometheus(f"the answer is not a Prometheus': {body[:80]!r}. {NOT_A_PROMETHEUS}") from error


def _slow(pairs: list[list[Any]]) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Values of an answer that is spaced out otherwise than Prometheus does it."""
    return np.array([pair[0] for pair in pairs], float), np.array([float(pair[1]) for pair in pairs], float)


def _error_in(response: httpx.Response) -> str | None:
    """What a Prometheus gives as its reason, ``None`` when it is not a Prometheus' answer."""
    try:
        answer = response.json()
    except ValueError:
        return None
    return str(answer.get("error", "")) if isinstance(answer, dict) and "status" in answer else None

"""Asks a running service over HTTP; the standard library's client, because a status line must be quick."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from service.client.errors import NotAllowed, ServiceDown, by_kind
from service.client.values import to_text

ARROW = "application/vnd.apache.arrow.stream"
JSON = "application/json"
EXPORT_TIMEOUT_S = 600.0


class HttpDoor:
    """A service at an address. Each call is one connection, so threads may share it."""

    def __init__(self, *, url: str, token: str | None, timeout_s: float) -> None:
        self.url: str | None = url.rstrip("/")
        self._address = url.rstrip("/")
        self._token = token
        self._timeout_s = timeout_s

    def arrow(self, name: str, params: dict[str, object]) -> Any:
        """The answer as a ``pyarrow.Table``; blocks until it is whole. Raises ``ClientError``."""
        import pyarrow as pa

        body = self._get(_query_path(name, params), accept=ARROW)
        with pa.ipc.open_stream(pa.py_buffer(body)) as stream:
            return stream.read_all()

    def rows(self, name: str, params: dict[str, object]) -> list[dict[str, Any]]:
        """The answer as the JSON objects the service sends; times are ISO 8601 text."""
        found: list[dict[str, Any]] = json.loads(self._get(_query_path(name, params), accept=JSON))
        return found

    def export(self, out: Path, kind: str, from_ms: int, to_ms: int) -> tuple[tuple[Path, int], ...]:
        """Write the span's files into ``out``; the files and their rows. Raises ``ClientError``, OSError."""
        import tarfile

        from service.api.export import unpack

        path = f"/v1/export?{urlencode({'format': kind, 'from_ms': from_ms, 'to_ms': to_ms})}"
        try:
            with self._asked(path, accept="application/x-tar", timeout_s=EXPORT_TIMEOUT_S) as response:
                if response.status != 200:
                    raise _refusal(self._address, response, response.read())
                with tarfile.open(fileobj=response, mode="r|") as stream:
                    return unpack(stream, out)
        except (HTTPException, tarfile.TarError) as error:
            raise ServiceDown(f"the export from {self._address} broke off ({error}); ask again") from error

    def post(self, path: str, given: dict[str, object]) -> dict[str, Any]:
        """The JSON answer to a JSON order. Raises ``ClientError``."""
        body = json.dumps({key: value for key, value in given.items() if value is not None}).encode()
        with self._asked(path, accept=JSON, timeout_s=self._timeout_s, body=body) as response:
            answer = response.read()
            if response.status != 200:
                raise _refusal(self._address, response, answer)
        found: dict[str, Any] = json.loads(answer)
        return found

    def get(self, path: str) -> dict[str, Any]:
        """A JSON answer. Raises ``ClientError``."""
        found: dict[str, Any] = json.loads(self._get(path, accept=JSON))
        return found

    def health(self) -> dict[str, Any]:
        """What the service says of its own state. Raises ``ServiceDown``."""
        try:
            found = json.loads(self._get("/healthz", accept=JSON))
        except ValueError:
            found = None
        if not isinstance(found, dict) or found.get("service") != "fallow":
            raise ServiceDown(f"{self._address} answers, but it is not a Fallow service; check the address")
        return found

    def close(self) -> None:
        """Nothing is held between calls."""

    def _get(self, path: str, *, accept: str) -> bytes:
        with self._asked(path, accept=accept, timeout_s=self._timeout_s) as response:
            try:
                body = response.read()
            except (OSError, HTTPException) as error:
                raise ServiceDown(_down(self._address, error)) from error
        if response.status == 200 or (response.status == 503 and path == "/healthz"):
            return body
        raise _refusal(self._address, response, body)

    @contextmanager
    def _asked(
        self, path: str, *, accept: str, timeout_s: float, body: bytes | None = None
    ) -> Iterator[HTTPResponse]:
        address = urlsplit(self._address)
        made = HTTPSConnection if address.scheme == "https" else HTTPConnection
        connection = made(address.hostname or "", address.port, timeout=timeout_s)
        headers = {"Accept": accept}
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        try:
            try:
                if body is not None:
                    headers["Content-Type"] = JSON
                method = "GET" if body is None else "POST"
                connection.request(method, f"{address.path}{path}", body=body, headers=headers)
                response = connection.getresponse()
            except (OSError, HTTPException) as error:
                raise ServiceDown(_down(self._address, error)) from error
            yield response
        finally:
            connection.close()


def _query_path(name: str, params: dict[str, object]) -> str:
    given = {key: _texts(value) for key, value in params.items() if value is not None}
    return f"/v1/query/{quote(name, safe='')}" + (f"?{urlencode(given, doseq=True)}" if given else "")


def _texts(value: object) -> str | list[str]:
    return [to_text(each) for each in value] if isinstance(value, list | tuple) else to_text(value)


def _down(url: str, error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return f"the service at {url} did not answer in time; is the machine overloaded? See `fallow doctor`"
    return f"no service answers at {url} ({error}); start one with `fallow serve`"


def _refusal(url: str, response: HTTPResponse, body: bytes) -> Exception:
    try:
        said = json.loads(body)
        return by_kind(str(said["error"]), str(said["message"]))
    except (ValueError, KeyError, TypeError):
        if response.status in (401, 403):
            return NotAllowed(f"the service at {url} refused the token")
        return ServiceDown(f"{url} answered {response.status} {response.reason}; is it a Fallow service?")

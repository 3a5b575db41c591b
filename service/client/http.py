"""Asks a running service over HTTP: named queries, exports, imports and health."""

import json
from collections.abc import Mapping
from http.client import HTTPException
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote, urlencode

from service.client.transport import Wire
from service.errors import ServiceDown
from service.schemas.answer import Row
from service.schemas.headers import ARROW, JSON
from service.schemas.values import to_text

if TYPE_CHECKING:
    import pyarrow as pa


EXPORT_TIMEOUT_S = 600.0
"""An export of months is written before its first byte comes."""

__all__ = ["ARROW", "JSON", "HttpTransport"]


class HttpTransport:
    """A service at an address. Each call is one connection, so threads may share it."""

    def __init__(self, *, url: str, token: str | None, timeout_s: float, only_looks: bool = False) -> None:
        self._wire = Wire(url=url, token=token, timeout_s=timeout_s, only_looks=only_looks)
        self.url: str | None = self._wire.url

    def arrow(self, name: str, params: dict[str, object]) -> "pa.Table":
        """The answer as a ``pyarrow.Table``; blocks until it is whole. Raises ``ClientError``."""
        import pyarrow as pa

        body = self._get(_query_path(name, params), accept=ARROW)
        with pa.ipc.open_stream(pa.py_buffer(body)) as stream:
            return stream.read_all()

    def rows(self, name: str, params: dict[str, object]) -> list[Row]:
        """The answer as the JSON objects the service sends; times are ISO 8601 text."""
        result: list[Row] = json.loads(self._get(_query_path(name, params), accept=JSON))
        return result

    def export(self, out: Path, kind: str, from_ms: int, to_ms: int) -> tuple[tuple[Path, int], ...]:
        """Write the span's files into ``out``; the files and their rows. Raises ``ClientError``, OSError."""
        import tarfile

        from service.schemas.export_archive import unpack

        path = f"/v1/export?{urlencode({'format': kind, 'from_ms': from_ms, 'to_ms': to_ms})}"
        try:
            with self._wire.asked(path, accept="application/x-tar", timeout_s=EXPORT_TIMEOUT_S) as response:
                if response.status != 200:
                    raise self._wire.refusal(response, response.read())
                with tarfile.open(fileobj=response, mode="r|") as stream:
                    return unpack(stream, out)
        except (HTTPException, tarfile.TarError) as error:
            raise ServiceDown(f"the export from {self.url} broke off ({error}); ask again") from error

    def post(self, path: str, body: Mapping[str, object]) -> Row:
        """The JSON answer to a JSON order. Raises ``ClientError``."""
        row: Row = self._wire.told(path, {key: value for key, value in body.items() if value is not None})
        return row

    def get(self, path: str) -> Row:
        """A JSON answer. Raises ``ClientError``."""
        row: Row = self._wire.told(path)
        return row

    def health(self) -> Row:
        """What the service says of its own state. Raises ``ServiceDown``."""
        try:
            result = json.loads(self._get("/healthz", accept=JSON))
        except ValueError:
            result = None
        if not isinstance(result, dict) or result.get("service") != "fallow":
            raise ServiceDown(f"{self.url} answers, but it is not a Fallow service; check the address")
        return result

    def close(self) -> None:
        """Nothing is held between calls."""

    def _get(self, path: str, *, accept: str) -> bytes:
        with self._wire.asked(path, accept=accept) as response:
            try:
                body = response.read()
            except (OSError, HTTPException) as error:
                raise ServiceDown(self._wire.down(error)) from error
        if response.status == 200 or (response.status == 503 and path == "/healthz"):
            return body
        raise self._wire.refusal(response, body)


def _query_path(name: str, params: dict[str, object]) -> str:
    query = {key: _texts(value) for key, value in params.items() if value is not None}
    return f"/v1/query/{quote(name, safe='')}" + (f"?{urlencode(query, doseq=True)}" if query else "")


def _texts(value: object) -> str | list[str]:
    return [to_text(each) for each in value] if isinstance(value, list | tuple) else to_text(value)

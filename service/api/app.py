"""The HTTP door of the service: named queries, metrics and health. Reads only; never SQL from outside.

Everything it needs is handed in as ``Sources``; it knows no store, no loop and no scheduler.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import asdict, dataclass
from typing import Any, Literal

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, Response, StreamingResponse

from service.api.export import Exports, pack, pieces
from service.api.gate import App, GateRules, gate
from service.api.queries import QueryDesk
from service.client.errors import KINDS, BadParameter, ClientError, QueryFailed
from service.client.http import ARROW, JSON
from service.client.values import plain_rows
from service.importing import ImportRefused, Imports

PIECE_BYTES = 256 * 1024
METRICS = "text/plain; version=0.0.4; charset=utf-8"

STATUS = {
    "not-allowed": 401,
    "unknown-query": 404,
    "bad-parameter": 422,
    "no-data": 404,
    "too-slow": 504,
    "busy": 503,
    "import-refused": 409,
    "failed": 500,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """What the door passes on: a query desk, and functions that never block for long.

    ``run`` turns (connection, name, parameters) into a ``pyarrow.Table`` and raises ``ClientError``.
    """

    desk: QueryDesk
    run: Callable[[Any, str, dict[str, object]], Any]
    catalogue: Callable[[], list[dict[str, object]]]
    exports: Exports
    imports: Imports
    metrics: Callable[[], bytes]
    health: Callable[[], dict[str, object]]


def make_app(answers: Answers, rules: GateRules, version: str) -> App:
    """The ASGI application, behind its gate."""
    app = FastAPI(title="Fallow", version=version, docs_url=None, redoc_url=None)
    _queries(app, answers)
    _exports(app, answers)
    _imports(app, answers.imports)
    _state(app, answers)

    @app.exception_handler(ImportRefused)
    async def not_imported(_: Request, error: ImportRefused) -> JSONResponse:
        return JSONResponse({"error": "import-refused", "message": str(error)}, status_code=409)

    @app.exception_handler(ClientError)
    async def refused(_: Request, error: ClientError) -> JSONResponse:
        kind = next((name for name, made in KINDS if isinstance(error, made)), "failed")
        headers = {"Retry-After": "1"} if kind == "busy" else None
        return JSONResponse({"error": kind, "message": str(error)}, STATUS[kind], headers)

    return gate(app, rules)


def _queries(app: FastAPI, answers: Answers) -> None:
    @app.get("/v1/queries", summary="The named queries and their parameters")
    async def catalogue() -> list[dict[str, object]]:
        return answers.catalogue()

    @app.get("/v1/query/{name}", summary="The rows of a named query, as an Arrow stream or as JSON")
    async def query(name: str, request: Request) -> Response:
        params = _params(request)
        kind = _wanted(request.headers.get("accept", ""))
        encode = to_json if kind == JSON else to_arrow
        body = await answers.desk.ask(lambda connection: encode(answers.run(connection, name, params)))
        return StreamingResponse(_pieces(body), media_type=kind, headers={"Content-Length": str(len(body))})


def _exports(app: FastAPI, answers: Answers) -> None:
    @app.get(
        "/v1/export", summary="Samples, allocations and GPUs of a span, as a tar of Parquet or CSV files"
    )
    async def export(from_ms: int, to_ms: int, format: Literal["parquet", "csv"] = "parquet") -> Response:
        if to_ms <= from_ms:
            raise BadParameter(f"to_ms must be after from_ms; got {from_ms} to {to_ms}")
        packed = await asyncio.to_thread(pack, answers.exports, format, from_ms, to_ms)
        return StreamingResponse(pieces(packed), media_type="application/x-tar")


def _imports(app: FastAPI, imports: Imports) -> None:
    @app.get("/v1/imports", summary="How the newest import stands")
    async def state() -> dict[str, object]:
        return asdict(imports.state)

    @app.post("/v1/imports", summary="Plan an import, or begin it when the order says yes")
    def order(given: dict[str, Any]) -> dict[str, object]:
        return imports.start(given) if given.get("yes") is True else imports.plan(given)


def _state(app: FastAPI, answers: Answers) -> None:
    @app.get("/metrics", summary="What this service measured, in Prometheus text format")
    def metrics() -> Response:
        return Response(answers.metrics(), media_type=METRICS)

    @app.get("/healthz", summary="Whether the service measures; 503 when it does not")
    async def health() -> JSONResponse:
        said = answers.health()
        return JSONResponse(said, status_code=503 if said["status"] == "degraded" else 200)


def to_arrow(table: Any) -> bytes:
    """A table as an Arrow IPC stream."""
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return bytes(sink.getvalue())


def to_json(table: Any) -> bytes:
    """A table as a JSON list of objects, times as ISO 8601 UTC."""
    try:
        return json.dumps(plain_rows(table.to_pylist()), allow_nan=False, default=str).encode()
    except ValueError as error:
        raise QueryFailed(f"the answer cannot be written as JSON: {error}") from error


def _params(request: Request) -> dict[str, object]:
    """The parameters as text; one that is repeated is a list. Their kinds are analytics' to check."""
    given = request.query_params
    texts = {key: given.getlist(key) for key in given}
    return {key: values[0] if len(values) == 1 else values for key, values in texts.items()}


def _wanted(accept: str) -> str:
    return JSON if JSON in accept and ARROW not in accept else ARROW


async def _pieces(body: bytes) -> AsyncIterator[bytes]:
    """The body in pieces, so that a slow reader holds back one piece at a time, and can be given up on."""
    view = memoryview(body)
    for start in range(0, len(body), PIECE_BYTES):
        yield bytes(view[start : start + PIECE_BYTES])

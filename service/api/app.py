"""The HTTP door of the service: named queries, exports, imports, metrics, health, and the acting routes.

Everything it needs is handed in as ``Answers``; it knows no store, no loop and no scheduler, and SQL never
comes from outside.
"""

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Annotated, Literal

from fastapi import FastAPI, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse, Response, StreamingResponse
from starlette.exceptions import HTTPException

from analytics.query import Connection, too_large
from collector.sources.nodes.receiver import NodeReceiver
from collector.store.errors import StoreError
from service.api.acting import Hands, acting_routes, seen_whole
from service.api.answers import REFUSALS, ROWS, refusal_shape, stream
from service.api.audit import Audit
from service.api.export import pieces
from service.api.export_desk import ExportQueue
from service.api.gate import App, RequestLimits, gate
from service.api.nodes import node_routes
from service.api.orders import MEANT, MOST_MS, shown
from service.api.page import page
from service.api.privacy import concealed, concealed_answer, concealed_metrics
from service.api.queries import QueryRunner
from service.api.roles import RuledRoute, caller_of, methods_at
from service.api.rows import to_arrow, to_json
from service.api.simulated import marked, marked_table
from service.api.stream import Closing
from service.api.turns import Ending, Turns, bounded_as
from service.control import errors
from service.control.interface import ControlInterface, Role
from service.errors import KINDS, BadParameter, ClientError
from service.schemas import service
from service.schemas.answer import to_row
from service.schemas.headers import ARROW, JSON
from service.usecases.accounting import RowsRefused
from service.usecases.imports import ImportRefused, Imports

if TYPE_CHECKING:
    import pyarrow as pa
    from pydantic_core import ErrorDetails


PIECE_BYTES = 256 * 1024
JSON_SHARE = 4
"""As objects of Python, on the way to JSON, rows take 4 to 20 times what they take as Arrow data."""
CSP = "default-src 'none'; style-src 'unsafe-inline'"
METRICS = "text/plain; version=0.0.4; charset=utf-8"

ABOUT = (
    "Who asks is known by the kernel on the Unix socket, and by a bearer's token on TCP. A viewer sees "
    "everything, a user also acts on own jobs, an operator on all. Errors are {error, message}. Answers of a "
    "service that shows a simulated cluster have the header Fallow-Simulated: true."
)

SORRY = "the service met an error of its own; its log has the trace"

PRIVATE_EXPORT = (
    "this service is in private mode (api.private): samples and allocations of everybody are exported by "
    "operators; named queries, without others' commands, are open to all"
)

NOT_KEPT = 507
"""Insufficient Storage (RFC 4918): no bound of the caller's was reached, the store could not be written."""

STATUS = {
    "forbidden": 403,
    "not-allowed": 401,
    "unknown-query": 404,
    "bad-parameter": 422,
    "no-data": 404,
    "too-slow": 504,
    "busy": 503,
    "over-limit": 429,
    "import-refused": 409,
    "unknown-job": 404,
    "job-ended": 410,
    "wrong-state": 409,
    "bad-order": 422,
    "failed": 500,
}


ACTING: tuple[tuple[type[errors.ActingError], str], ...] = (
    (errors.NotAllowed, "forbidden"),
    (errors.UnknownJob, "unknown-job"),
    (errors.JobEnded, "job-ended"),
    (errors.WrongState, "wrong-state"),
    (errors.BadOrder, "bad-order"),
    (errors.OverLimit, "over-limit"),
)
"""The kinds of the desk's refusals on the wire; a special case stands before what it is a case of."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Acting:
    """The desk that orders go to, the threads that carry them, and the end of all streams."""

    desk: ControlInterface
    hands: Hands
    closing: Closing


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """What the door passes on: a query desk, and functions that never block for long.

    ``run`` turns (connection, name, parameters) into a ``pyarrow.Table`` and raises ``ClientError``. Without
    ``acting`` there are no acting routes. ``private``: what others run is for operators. ``simulated``: it is
    all invented, and each answer says so.
    """

    desk: QueryRunner
    run: Callable[[Connection, str, dict[str, object]], "pa.Table"]
    catalogue: Callable[[], list[service.Query]]
    exports: ExportQueue
    imports: Imports
    questions: Turns
    metrics: Callable[[], bytes]
    health: Callable[[], service.Health]
    acting: Acting | None = None
    nodes: NodeReceiver | None = None
    """Takes in what nodes push; without, they are told so."""
    most_bytes: int | None = None
    """The largest answer in bytes of Arrow data, to which ``run`` keeps; ``None``: any."""
    private: bool = False
    simulated: bool = False


def make_app(answers: Answers, rules: RequestLimits, version: str, audit: Audit | None = None) -> App:
    """The ASGI application, behind its gate; ``audit`` writes down orders and refusals."""
    app = FastAPI(
        title="Fallow",
        version=version,
        description=ABOUT,
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        responses=REFUSALS,
    )
    app.router.route_class = RuledRoute
    app.state.superseded = None if answers.nodes is None else answers.nodes.superseded
    _queries(app, answers)
    _exports(app, answers)
    _imports(app, answers.imports)
    _state(app, answers)
    if answers.acting is not None:
        acting = answers.acting
        acting.hands.seen = concealed_answer if answers.private else seen_whole
        routes = acting_routes(acting.desk, acting.hands, acting.closing).routes
        # Not included but added: each route is made once, and found without a second table.
        app.router.routes.extend(routes)
    app.router.routes.extend(node_routes(answers.nodes).routes)
    _document(app)
    _refusals(app)
    guarded = gate(marked(app) if answers.simulated else app, rules)
    return guarded if audit is None else audit.around(guarded)


def _refusals(app: FastAPI) -> None:
    @app.exception_handler(ImportRefused)
    async def not_imported(_: Request, error: ImportRefused) -> JSONResponse:
        return _refused("import-refused", str(error))

    @app.exception_handler(RowsRefused)
    async def not_rows(_: Request, error: RowsRefused) -> JSONResponse:
        return _refused("bad-order", str(error))

    @app.exception_handler(errors.ActingError)
    async def not_done(_: Request, error: errors.ActingError) -> JSONResponse:
        kind = next((name for answer, name in ACTING if isinstance(error, answer)), "failed")
        retry_after_s = error.retry_after_s if isinstance(error, errors.OverLimit) else None
        return _refused(kind, str(error), retry_after_s)

    @app.exception_handler(ClientError)
    async def not_answered(_: Request, error: ClientError) -> JSONResponse:
        return _refused(
            next((name for name, answer in KINDS if isinstance(error, answer)), "failed"), str(error)
        )

    @app.exception_handler(StoreError)
    async def not_kept(_: Request, error: StoreError) -> JSONResponse:
        message = f"nothing was done, for it could not be kept: {error}"
        return JSONResponse({"error": "busy", "message": message}, NOT_KEPT, {"Retry-After": "1"})

    @app.exception_handler(RequestValidationError)
    async def not_understood(_: Request, error: RequestValidationError) -> JSONResponse:
        return _refused("bad-order", _mistakes(error))

    @app.exception_handler(Exception)
    async def broken(_: Request, error: Exception) -> JSONResponse:
        return _refused("failed", f"{SORRY} ({type(error).__name__})")

    @app.exception_handler(HTTPException)
    async def not_here(request: Request, error: HTTPException) -> JSONResponse:
        message = f"{request.method} {request.url.path[:200]}: {error.detail}; /docs lists what there is"
        kind = "unknown-route" if error.status_code in (404, 405) else "bad-order"
        headers = dict(error.headers or {})
        if error.status_code == 405:
            headers["Allow"] = ", ".join(methods_at(request.url.path))
        return JSONResponse({"error": kind, "message": message}, error.status_code, headers)


def _refused(kind: str, message: str, retry_after_s: int | None = None) -> JSONResponse:
    wait_s = 1 if kind == "busy" else retry_after_s
    headers = None if wait_s is None else {"Retry-After": str(wait_s)}
    return JSONResponse({"error": kind, "message": message}, STATUS[kind], headers)


def _mistakes(error: RequestValidationError) -> str:
    """What is wrong with a request, without repeating what was sent: it may be long, or not printable."""
    mistakes = error.errors()
    sentences = [
        f"{'.'.join(str(part)[:60] for part in each['loc'])}: {_in_words(each)[:300]}"
        for each in mistakes[:5]
    ]
    more = f" (and {len(mistakes) - 5} more)" if len(mistakes) > 5 else ""
    return shown("; ".join(sentences) + more)


def _in_words(mistake: "ErrorDetails") -> str:
    """One mistake of pydantic's, without a regular expression where we know what it means."""
    meant = MEANT.get(mistake.get("ctx", {}).get("pattern", ""))
    return str(mistake["msg"]) if meant is None else f"this should be {meant}"


def _document(app: FastAPI) -> None:
    described = cache(lambda: _described(app))
    shown = cache(lambda: page(described()))  # anybody may ask for it, and it takes a while to make

    @app.get("/openapi.json", include_in_schema=False)
    def document() -> JSONResponse:
        return JSONResponse(described())

    @app.get("/docs", include_in_schema=False)
    def for_people() -> HTMLResponse:
        return HTMLResponse(shown(), headers={"content-security-policy": CSP})


def _described(app: FastAPI) -> dict[str, object]:
    """The OpenAPI document, with how one says who one is."""
    schema = app.openapi()
    components = schema.setdefault("components", {})
    components.setdefault("schemas", {})["Refusal"] = refusal_shape()
    components["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    schema["security"] = [{"token": []}]
    schema["paths"]["/healthz"]["get"]["security"] = []
    return schema


def _queries(app: FastAPI, answers: Answers) -> None:
    @app.get(
        "/v1/queries",
        summary="The named queries, their parameters and columns",
        response_model=list[service.Query],
    )
    async def catalogue() -> Response:
        return JSONResponse([to_row(each) for each in answers.catalogue()])

    @app.get(
        "/v1/query/{name}",
        summary="The rows of a named query, as an Arrow stream or as JSON",
        response_class=Response,
        responses=ROWS,
    )
    async def query(name: str, request: Request) -> Response:
        params = _params(request)
        kind = _format(request.headers.get("accept", ""))
        encode = to_json if kind == JSON else to_arrow
        caller = caller_of(request)

        def rows(connection: Connection) -> bytes:
            table = answers.run(connection, name, params)
            most_bytes = answers.most_bytes
            if kind == JSON and most_bytes is not None and table.nbytes * JSON_SHARE > most_bytes:
                raise BadParameter(f"query {name!r}: {too_large(most_bytes)}")
            if answers.simulated:
                table = marked_table(table)
            return encode(concealed(table, name, caller) if answers.private else table)

        turn = await answers.questions.enter(bounded_as(caller))
        try:
            body = await answers.desk.ask(rows)
        except BaseException:
            turn.end()
            raise
        headers = {"Content-Length": str(len(body))}
        return Ending(StreamingResponse(_pieces(body), media_type=kind, headers=headers), (turn,))


Time = Annotated[int, Query(ge=-MOST_MS, le=MOST_MS)]


def _exports(app: FastAPI, answers: Answers) -> None:
    @app.get(
        "/v1/export",
        summary="Samples, allocations and GPUs of a span, as a tar of Parquet or CSV files",
        response_class=Response,
        responses=stream("application/x-tar", "the files, and first how many rows each has", binary=True),
    )
    async def export(
        request: Request, from_ms: Time, to_ms: Time, format: Literal["parquet", "csv"] = "parquet"
    ) -> Response:
        if answers.private and caller_of(request).role is not Role.OPERATOR:
            raise errors.NotAllowed(PRIVATE_EXPORT)
        if to_ms <= from_ms:
            raise BadParameter(f"to_ms must be after from_ms; got {from_ms} to {to_ms}")
        packed = await answers.exports.pack(caller_of(request), format, from_ms, to_ms)
        body = StreamingResponse(pieces(packed.file), media_type="application/x-tar")
        return Ending(body, (packed,), packed.delivery)


def _imports(app: FastAPI, imports: Imports) -> None:
    @app.get("/v1/imports", summary="How the newest import stands", response_model=service.ImportState)
    async def state() -> Response:
        return JSONResponse(to_row(imports.state))

    @app.post(
        "/v1/imports",
        summary="Plan an import, or begin it when the order says yes",
        response_model=service.ImportPlan | service.ImportState,
    )
    def order(given: dict[str, object]) -> Response:
        return JSONResponse(to_row(imports.start(given) if given.get("yes") is True else imports.plan(given)))

    @app.post(
        "/v1/imports/runs",
        summary="Store runs of a workload manager's accounting, or say which ranges are stored",
        response_model=service.RunsCounted | service.ImportedRanges,
    )
    def runs(given: dict[str, object]) -> Response:
        return JSONResponse(to_row(imports.runs(given)))


def _state(app: FastAPI, answers: Answers) -> None:
    @app.get(
        "/metrics",
        summary="What this service measured, in Prometheus text format",
        response_class=Response,
        responses=stream("text/plain", "Prometheus text format; docs/metrics.md lists the metrics"),
    )
    def metrics(request: Request) -> Response:
        page = answers.metrics()
        if answers.private:
            page = concealed_metrics(page, caller_of(request))
        return Response(page, media_type=METRICS)

    @app.get(
        "/healthz",
        summary="Whether the service measures; 503 when it does not",
        response_model=service.Health,
        responses={503: {"model": service.Health, "description": "it does not measure, and says why"}},
    )
    async def health() -> Response:
        report = answers.health()
        return JSONResponse(to_row(report), status_code=503 if report.status == "degraded" else 200)


def _params(request: Request) -> dict[str, object]:
    """The parameters as text; one that is repeated is a list. Their kinds are analytics' to check."""
    texts: dict[str, list[str]] = {}
    for key, value in request.query_params.multi_items():  # once: a line holds ten thousand of them
        texts.setdefault(key, []).append(value)
    return {key: values[0] if len(values) == 1 else values for key, values in texts.items()}


def _format(accept: str) -> str:
    return JSON if JSON in accept and ARROW not in accept else ARROW


async def _pieces(body: bytes) -> AsyncIterator[bytes]:
    """The body in pieces, so that a slow reader holds back one piece at a time, and can be given up on."""
    view = memoryview(body)
    for start in range(0, len(body), PIECE_BYTES):
        yield bytes(view[start : start + PIECE_BYTES])

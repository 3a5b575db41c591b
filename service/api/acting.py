"""The acting routes: jobs, queue, leases, plans, actions and the switch. Each passes one call on to the desk.

What blocks runs on threads of this door's own, at most so many at once and so many waiting, so that launchers
cannot use up what readers need, nor readers what launchers need.
"""

import asyncio
import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Annotated, TypedDict, TypeVar

from fastapi import APIRouter, Depends, Path, Query, Request
from fastapi.responses import JSONResponse, Response

from advisor.jobs.model import JobState
from collector.model import JobId
from service.api import answers
from service.api.former import worded
from service.api.orders import (
    JOB,
    MOST_MS,
    MOST_NUMBER,
    NONCE,
    SENTENCE,
    ApplyOrder,
    CancelOrder,
    ConsentOrder,
    KeepOrder,
    Nothing,
    ReasonOrder,
    RejectOrder,
    ResizeOrder,
    SubmissionOrder,
)
from service.api.report_orders import ReportOrder
from service.api.roles import RuledRoute, caller_of
from service.api.stream import NDJSON, Closing, Streams, Telling
from service.api.turns import Ending, Turn, Turns, bounded_as
from service.control.interface import Caller, ControlInterface, Listed, Which
from service.errors import ServiceBusy
from service.schemas import control, records
from service.schemas.answer import Answer, RowOrRows, to_row
from service.schemas.headers import JSON, TOTAL

T = TypeVar("T")

THREADS = 48
MOST_WAITING = 2_000
IN_LINE = 256
"""Requests of one person that may wait for their turn: a quarter of the launchers that one may have."""
MOST_ROWS = 10_000
LINES = (
    "A JSON object a line: `directive`, what to do (the shape `Command`); `place`, with `place`, `of` and "
    "`waits_for`, while the job waits; `alive`, every few seconds."
)


class _Answered(TypedDict):
    """How routes answer that share a shape."""

    status_code: int
    response_model: type[Answer]


async def asker_of(request: Request) -> Caller:
    """Who asks. A coroutine, because FastAPI sends plain functions to a thread of its own."""
    return caller_of(request)


Asker = Annotated[Caller, Depends(asker_of)]
Job = Annotated[str, Path(pattern=JOB, examples=["fallow:7"])]
Number = Annotated[int, Path(ge=0, le=MOST_NUMBER)]
Limit = Annotated[int, Query(ge=1, le=MOST_ROWS)]
Named = Annotated[str | None, Query(pattern=JOB)]
Filter = Annotated[str | None, Query(min_length=1, max_length=100, pattern=SENTENCE)]
Nonce = Annotated[
    str,
    Query(
        max_length=64,
        pattern=NONCE,
        description="of the submission that is meant: where the number is another job's, the answer is 404",
    ),
]

Names = Annotated[
    int,
    Query(
        ge=1,
        description="2: commands have today's names; without it those of before 0.1.0, for launchers that an "
        "older Fallow started",
    ),
]


def seen_whole(answer: RowOrRows, asker: Caller) -> RowOrRows:
    """An answer as the desk gave it: without private mode everybody sees all of it."""
    return answer


class Hands:
    """Threads that do what blocks, a bounded crowd before them, and of one person few at once.

    ``changed`` counts a report that says something new, and raises where its sender has sent too many.
    ``seen`` makes of an answer what its asker may see of it.
    """

    def __init__(
        self, at_once: int = THREADS, changed: Callable[[Caller], None] = lambda caller: None
    ) -> None:
        self.changed = changed
        self.seen: Callable[[RowOrRows, Caller], RowOrRows] = seen_whole
        self._pool = ThreadPoolExecutor(max_workers=THREADS, thread_name_prefix="acting")
        self._turns = Turns(at_once=at_once, waiting=IN_LINE, what="requests", setting="limits.calls_at_once")
        self._busy = 0

    async def do(self, asker: Caller, call: Callable[[], T]) -> T:
        """What ``call`` returns or raises. Raises ``ServiceBusy`` and ``OverLimit`` when too many wait."""
        result, turn = await self.begun(asker, call)
        turn.end()
        return result

    async def begun(self, asker: Caller, call: Callable[[], T]) -> tuple[T, Turn]:
        """The same, with the turn that was taken for it: it is the caller's to end."""
        turn = await self._turns.enter(bounded_as(asker))
        try:
            if self._busy >= MOST_WAITING:
                raise ServiceBusy(f"{self._busy} orders wait already; ask again in a moment")
            self._busy += 1
            try:
                return await asyncio.get_running_loop().run_in_executor(self._pool, call), turn
            finally:
                self._busy -= 1
        except BaseException:
            turn.end()
            raise

    def close(self) -> None:
        """Take no more; what is under way ends by itself."""
        self._pool.shutdown(wait=False, cancel_futures=True)


def acting_routes(desk: ControlInterface, hands: Hands, closing: Closing) -> APIRouter:
    """All of them."""
    router = APIRouter(prefix="/v1", route_class=RuledRoute, responses=answers.REFUSALS)
    _whoami(router)
    _jobs(router, desk, hands, closing)
    _orders(router, desk, hands)
    _consents(router, desk, hands)
    _lists(router, desk, hands)
    _plans(router, desk, hands)
    _journal(router, desk, hands)
    return router


def _whoami(router: APIRouter) -> None:
    @router.get("/whoami", summary="Whom the service takes you for", response_model=records.Caller)
    async def whoami(asker: Asker) -> Response:
        return JSONResponse(to_row(records.Caller(name=asker.name, uid=asker.uid, role=asker.role.value)))


def _jobs(router: APIRouter, desk: ControlInterface, hands: Hands, closing: Closing) -> None:
    streams = Streams()

    @router.get(
        "/jobs",
        summary="Submitted jobs, the newest first",
        response_model=list[records.Job],
        responses=answers.CUT,
    )
    async def jobs(
        asker: Asker,
        *,
        state: JobState | None = None,
        stand: Annotated[JobState | None, Query(include_in_schema=False)] = None,  # its former name
        ended: bool | None = None,
        user: Filter = None,
        project: Filter = None,
        limit: Limit = 200,
    ) -> Response:
        which = Which(state=state or stand, ended=ended, user=user, project=project)
        return await _listed(hands, asker, lambda: desk.jobs(asker, which, limit))

    @router.post(
        "/jobs",
        summary="Submit a job; the same nonce again is the same job",
        status_code=201,
        response_model=records.Job,
        responses={200: {"model": records.Job, "description": "the job that this nonce made before"}},
    )
    async def submit(asker: Asker, order: SubmissionOrder) -> Response:
        entry, is_new = await hands.do(asker, lambda: desk.submit(asker, order.submission(asker)))
        return Response(written(entry), status_code=201 if is_new else 200, media_type=JSON)

    @router.get(
        "/jobs/{job:path}/directives",
        summary="What the launcher of a job is told, as it comes: a line of JSON each",
        response_class=Response,
        responses=answers.stream(NDJSON, LINES),
    )
    async def directives(
        asker: Asker,
        job: Job,
        after: Annotated[int, Query(ge=0, le=MOST_NUMBER)] = 0,
        nonce: Nonce = "",
        names: Names = 1,
    ) -> Response:
        items = desk.directives(asker, JobId(job), after, nonce)
        return streams.of(job, Telling(items, closing, worded(names)))

    @router.post("/jobs/{job:path}/reports", summary="How a job fares", response_model=control.Taken)
    async def report(asker: Asker, job: Job, order: ReportOrder, nonce: Nonce = "") -> Response:
        body = order.report()
        row = desk.sign_of_life(asker, JobId(job), body, nonce)
        if row is not None:
            return Response(written(row), media_type=JSON)
        hands.changed(asker)
        return await _answer(hands, asker, lambda: desk.report(asker, JobId(job), body, nonce))


def _orders(router: APIRouter, desk: ControlInterface, hands: Hands) -> None:
    ordered: _Answered = {"status_code": 202, "response_model": control.Done}

    @router.post("/jobs/{job:path}/pause", summary="Give the GPUs back, go on later", **ordered)
    async def pause(asker: Asker, job: Job, order: ReasonOrder) -> Response:
        return await _answer(hands, asker, lambda: desk.pause(asker, JobId(job), order.because), 202)

    @router.post("/jobs/{job:path}/resume", summary="Go on when there is room", **ordered)
    async def resume(asker: Asker, job: Job, order: ReasonOrder, nonce: Nonce = "") -> Response:
        return await _answer(hands, asker, lambda: desk.resume(asker, JobId(job), order.because, nonce), 202)

    @router.post("/jobs/{job:path}/cancel", summary="End for good", **ordered)
    async def cancel(asker: Asker, job: Job, order: CancelOrder, nonce: Nonce = "") -> Response:
        return await _answer(
            hands,
            asker,
            lambda: desk.cancel(asker, JobId(job), order.because, nonce, force=order.force),
            202,
        )

    @router.post("/jobs/{job:path}/resize", summary="Go on with so many GPUs", **ordered)
    async def resize(asker: Asker, job: Job, order: ResizeOrder) -> Response:
        return await _answer(
            hands, asker, lambda: desk.resize(asker, JobId(job), order.gpus, order.because), 202
        )

    @router.post("/jobs/{job:path}/keep", summary="Leave alone; foreign jobs too", **ordered)
    async def keep(asker: Asker, job: Job, order: KeepOrder) -> Response:
        return await _answer(
            hands,
            asker,
            lambda: desk.keep(asker, JobId(job), order.hours, order.because, alone=order.alone),
            202,
        )

    @router.get(
        "/jobs/{job:path}",
        summary="One job, with its directives, its actions, and why it stands where it stands",
        response_model=records.JobDetail,
    )
    async def job(asker: Asker, job: Job) -> Response:
        return await _shown(hands, asker, lambda: desk.job(asker, JobId(job)))


def _consents(router: APIRouter, desk: ControlInterface, hands: Hands) -> None:
    @router.get(
        "/consents",
        summary="What owners allow with their jobs: a row a job and kind, and by whose word",
        response_model=list[control.Consent],
    )
    async def consents(asker: Asker, job: Named = None) -> Response:
        return await _shown(hands, asker, lambda: desk.consents(asker, None if job is None else JobId(job)))

    @router.post("/consents", summary="An owner's word on own jobs", response_model=control.Consented)
    async def consent(asker: Asker, order: ConsentOrder) -> Response:
        return await _answer(hands, asker, lambda: desk.consent(asker, order.said()))


def _lists(router: APIRouter, desk: ControlInterface, hands: Hands) -> None:
    @router.get(
        "/queue",
        summary="The jobs that wait, in order",
        response_model=list[control.Waiting],
        responses=answers.CUT,
    )
    async def queue(asker: Asker, limit: Limit = 1_000) -> Response:
        return await _listed(hands, asker, lambda: desk.queue(asker, limit))

    @router.get("/leases", summary="Who was given which GPU", response_model=list[control.Lease])
    async def leases(asker: Asker) -> Response:
        return await _shown(hands, asker, lambda: desk.leases(asker))

    @router.get(
        "/engines", summary="What is done to jobs of each kind at all", response_model=list[control.Engine]
    )
    async def engines(asker: Asker) -> Response:
        return await _shown(hands, asker, lambda: desk.engines(asker))


def _plans(router: APIRouter, desk: ControlInterface, hands: Hands) -> None:
    @router.get("/plans", summary="Plans, those that wait first", response_model=list[control.Plan])
    async def plans(asker: Asker) -> Response:
        return await _shown(hands, asker, lambda: desk.plans(asker))

    @router.get(
        "/plans/trial",
        summary="What each step of a plan made now would do; nothing is done",
        response_model=control.PlanTrial,
    )
    async def try_plan(asker: Asker) -> Response:
        return await _shown(hands, asker, lambda: desk.try_plan(asker))

    @router.post("/plans/{plan}/apply", summary="Do a waiting plan", response_model=control.Applied)
    async def apply(asker: Asker, plan: Number, order: ApplyOrder) -> Response:
        steps = None if order.steps is None else tuple(order.steps)
        return await _answer(hands, asker, lambda: desk.apply(asker, plan, steps))

    @router.post("/plans/{plan}/reject", summary="Turn a plan down", response_model=control.Rejected)
    async def reject(asker: Asker, plan: Number, order: RejectOrder) -> Response:
        return await _answer(
            hands, asker, lambda: desk.reject(asker, plan, order.because, order.snooze_hours)
        )


def _journal(router: APIRouter, desk: ControlInterface, hands: Hands) -> None:
    @router.get("/actions", summary="The journal, the newest first", response_model=list[records.Action])
    async def actions(
        asker: Asker, since_ms: Annotated[int | None, Query(ge=0, le=MOST_MS)] = None, job: Filter = None
    ) -> Response:
        named = None if job is None else JobId(job)
        return await _shown(hands, asker, lambda: desk.actions(asker, since_ms=since_ms, job=named))

    @router.post("/actions/{action}/undo", summary="Take an action back", response_model=control.Applied)
    async def undo(asker: Asker, action: Number, order: Nothing) -> Response:
        return await _answer(hands, asker, lambda: desk.undo(asker, action))

    @router.get("/acting", summary="Whether the service acts", response_model=control.Switch)
    async def acting(asker: Asker) -> Response:
        # Whole for everybody: it is about no job, and what stands there was said by operators.
        return await _answer(hands, asker, lambda: desk.acting(asker))

    @router.post("/acting/stop", summary="The kill switch", response_model=control.Switch)
    async def stop_acting(asker: Asker, order: ReasonOrder) -> Response:
        return await _answer(hands, asker, lambda: desk.stop_acting(asker, order.because))

    @router.post("/acting/start", summary="Release the kill switch", response_model=control.Switch)
    async def start_acting(asker: Asker, order: Nothing) -> Response:
        return await _answer(hands, asker, lambda: desk.start_acting(asker))


async def _shown(hands: Hands, asker: Caller, call: Callable[[], RowOrRows]) -> Response:
    """What the asker may see of the desk's answer."""
    return await _answer(hands, asker, lambda: hands.seen(call(), asker))


async def _answer(hands: Hands, asker: Caller, call: Callable[[], RowOrRows], status: int = 200) -> Response:
    """The desk's answer to who ordered something, whole.

    Written as JSON on the same thread: a long list must not hold up the streams.
    """
    body, turn = await hands.begun(asker, lambda: written(call()))
    return Ending(Response(body, status_code=status, media_type=JSON), (turn,))


async def _listed(hands: Hands, asker: Caller, call: Callable[[], Listed]) -> Response:
    """The same for a list that may be cut: the header says how long it is in all."""

    def whole() -> tuple[bytes, int]:
        rows = call()
        return written(hands.seen(rows.rows, asker)), rows.total

    (body, total), turn = await hands.begun(asker, whole)
    return Ending(Response(body, media_type=JSON, headers={TOTAL: str(total)}), (turn,))


def written(answer: RowOrRows) -> bytes:
    """An answer of the desk as JSON; a list row by row, for the encoder lets nobody else run meanwhile."""
    encode = _encoder().encode
    text = f"[{','.join(map(encode, answer))}]" if isinstance(answer, list) else encode(answer)
    return text.encode()


@cache
def _encoder() -> json.JSONEncoder:
    return json.JSONEncoder(allow_nan=False, ensure_ascii=False, separators=(",", ":"))

"""Where the acting pages ask and order, through ``service.client``, and whose power is used for it.

Reading is done as the dashboard's own user, whose answers everybody who looks may see. Ordering is done only
with the power of a visitor who signed in (``service.pages.sign_in``): the dashboard's own power is lent to
nobody else, because a loopback address says nothing about who sits at the other end
(docs/decisions/0008-acting-from-the-dashboard.md). Nothing here decides whether an order is allowed: the
service does.

The lists of the acting routes as frames: the queue, leases and launched jobs. Pure.

Times are UTC instants; a field that a service does not send is an empty column.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Concatenate, ParamSpec, TypeVar

import pandas as pd
import streamlit as st

from service.client import ClientError
from service.client.jobs import ActingClient, connect_acting
from service.pages.parts.widgets import spoken
from service.schemas.answer import Answer
from service.schemas.control import Done, Lease, Switch, Waiting
from service.schemas.records import Caller, Job

P = ParamSpec("P")
T = TypeVar("T")

KEPT_S = 4
TICK_S = 5
SIGNED = "signed-in"
SAID = "acting-said"


@dataclass(frozen=True, slots=True, kw_only=True)
class Visitor:
    """Somebody who signed in for this window: whom the service takes them for, and their own line to it."""

    caller: Caller
    line: ActingClient


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """What came of an order, for the head of the page. ``undo`` is an action's number, if it has one."""

    well: bool
    sentence: str


def ask(route: Callable[Concatenate[ActingClient, P], T], *must_be_named: P.args, **params: P.kwargs) -> T:
    """What a reading method of the client answers, at most ``KEPT_S`` old. Blocks. Raises ``ClientError``."""
    assert not must_be_named, "an answer is kept by the names of what was asked"
    parameters = tuple(sorted((name, value) for name, value in params.items() if value is not None))
    answer: T = _answer(route.__name__, parameters)
    return answer


def now() -> datetime:
    """The service's calendar now, at most ``KEPT_S`` old: a rehearsal's runs faster than the machine's clock.

    Blocks. Raises ``ClientError``.
    """
    return datetime.fromtimestamp(ask(ActingClient.now_ms) / 1000, UTC)


def visitor() -> Visitor | None:
    """Who signed in for this window, if anybody did."""
    visitor_signed: Visitor | None = st.session_state.get(SIGNED)
    return visitor_signed


def order(route: str, what: str, *args: object, **params: object) -> None:
    """Have the service do something as the visitor, and keep what it said for the head of the page. Blocks.

    ``what`` names it for people: "pause fallow:7". Never raises ``ClientError``: a refusal is an answer.
    """
    signed = visitor()
    if signed is None:
        _say(Answered(well=False, sentence=f"Not done: {what}. Sign in first, at the top right."))
        return
    ask_for: Callable[..., Done | Switch] = getattr(signed.line, route)
    try:
        _say(answered(what, ask_for(*args, **params)))
    except ClientError as error:
        _say(Answered(well=False, sentence=f"Not done: {what}. {error}"))
    _answer.clear()


def answered(what: str, answer: Done | Switch) -> Answered:
    """What a route answered as a sentence; an outcome that is no success says so."""
    outcome, message = (answer.outcome, answer.message) if isinstance(answer, Done) else ("begun", "")
    well = outcome.lower() in ("done", "begun", "given", "waiting", "applied", "rejected", "kept", "pending")
    sentence = f"{what[:1].upper()}{what[1:]}: {outcome}"
    return Answered(well=well, sentence=f"{sentence}. {message}" if message else f"{sentence}.")


def say_what_came() -> None:
    """Draw what came of the newest order, once it was given, until the next one or until it is closed."""
    came: Answered | None = st.session_state.get(SAID)
    if came is None:
        return
    drawn = st.success if came.well else st.error
    with st.container(key="came", horizontal=True, vertical_alignment="center"):
        drawn(spoken(came.sentence), icon=":material/check:" if came.well else ":material/error:")
        st.button("Close", key="came-close", type="tertiary", on_click=_unsay)


def forget() -> None:
    """Drop every kept answer, so that the next question starts afresh."""
    _answer.clear()
    _line.clear()


def _say(came: Answered) -> None:
    st.session_state[SAID] = came


def _unsay() -> None:
    st.session_state.pop(SAID, None)


@st.cache_resource(show_spinner=False)
def _line() -> ActingClient:
    """Everybody sees what comes by it, so it asks as a viewer, whoever started the dashboard."""
    return connect_acting(only_looks=True)


@st.cache_data(ttl=KEPT_S, max_entries=64, show_spinner=False)
def _answer(route: str, arguments: tuple[tuple[str, object], ...]) -> Any:
    call: Callable[..., object] = getattr(_line(), route)
    return call(**dict(arguments))


QUEUE = ("job", "name", "user", "project", "gpus", "place", "waits_for", "since_ms", "promised_ms")
LEASES = ("job", "user", "project", "gpu", "node", "share", "sharing", "since_ms")
JOB = ("job", "state", "message", "exit_reason", "submitted_ms", "started_ms", "ended_ms", "share")
ASKED = ("name", "user", "project", "kind", "mobility", "min_gpus", "max_gpus", "priority", "background")
TIMES = ("since_ms", "promised_ms", "submitted_ms", "started_ms", "ended_ms")


def queue_frame(rows: Iterable[Waiting]) -> pd.DataFrame:
    """``GET /v1/queue``: a row a waiting job in order of place, with ``since`` and ``promised``."""
    frame = _framed(_records(rows, QUEUE), QUEUE)
    return frame.sort_values("place", kind="stable", ignore_index=True)


def leases_frame(rows: Iterable[Lease]) -> pd.DataFrame:
    """``GET /v1/leases``: a row a GPU lent."""
    return _framed(_records(rows, LEASES), LEASES)


def jobs_frame(rows: Iterable[Job]) -> pd.DataFrame:
    """``GET /v1/jobs``: a row a submitted job, the newest first; ``held`` is how many GPUs it has now."""
    jobs = list(rows)
    submissions = _records((each.submission for each in jobs), ASKED)
    flat = [
        {**one, **submission, "held": len(job.gpus)}
        for one, submission, job in zip(_records(jobs, JOB), submissions, jobs, strict=True)
    ]
    frame = _framed(flat, (*JOB, *ASKED, "held"))
    return frame.sort_values("submitted", ascending=False, kind="stable", ignore_index=True)


def matching(frame: pd.DataFrame, find: str | None, **filters: str | None) -> pd.DataFrame:
    """The rows that a text is found in (job, name, person, project), and that pass the filters."""
    mask = pd.Series(True, index=frame.index)
    for name, value in filters.items():
        if value is not None:
            mask &= frame[name] == value
    if find:
        ids = frame["job"].astype(str)
        for name in ("name", "user", "project"):
            ids = ids + " " + frame[name].fillna("").astype(str)
        mask &= ids.str.contains(find, case=False, regex=False)
    return frame[mask]


def asked_gpus(low: float | None, high: float | None, share: float | None) -> str:
    """How many GPUs were asked for, as it is typed: ``1-4``, ``2``, ``0.5``."""
    if low is None or pd.isna(low):
        return "\u2013"
    if share is not None and not pd.isna(share) and share < 1:
        return f"{share:g}" if low == 1 else f"{int(low)}x{share:g}"
    return f"{int(low)}" if high is None or high == low else f"{int(low)}-{int(high)}"


def _records(answers: Iterable[Answer], names: tuple[str, ...]) -> list[dict[str, object]]:
    return [{name: getattr(each, name) for name in names} for each in answers]


def _framed(rows: list[dict[str, object]], columns: tuple[str, ...]) -> pd.DataFrame:
    frame = pd.DataFrame.from_records(rows, columns=columns)
    for name in TIMES:
        if name in frame:
            stamped = pd.to_datetime(pd.to_numeric(frame.pop(name)), unit="ms", utc=True)
            frame[name.removesuffix("_ms")] = stamped.dt.as_unit("us")
    return frame

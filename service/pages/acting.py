"""Where the acting pages ask and order, through ``service.client``, and whose power is used for it.

Reading is done as the dashboard's own user, whose answers everybody who looks may see. Ordering is done only
with the power of a visitor who signed in (``service.pages.sign_in``): the dashboard's own power is lent to
nobody else, because a loopback address says nothing about who sits at the other end
(docs/decisions/0008-acting-from-the-dashboard.md). Nothing here decides whether an order is allowed: the
service does.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import streamlit as st

from service.client import ClientError
from service.client.acting import ActingClient, connect_acting
from service.pages.pieces import spoken
from service.pages.records import Caller

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


def ask(route: str, **params: object) -> Any:
    """The answer of a reading route, at most ``KEPT_S`` old. Blocks. Raises ``ClientError``."""
    return _answer(route, tuple(sorted((k, v) for k, v in params.items() if v is not None)))


def now() -> datetime:
    """The service's calendar now, at most ``KEPT_S`` old: a rehearsal's runs faster than the machine's clock.

    Blocks. Raises ``ClientError``.
    """
    return datetime.fromtimestamp(ask("now_ms") / 1000, UTC)


def visitor() -> Visitor | None:
    """Who signed in for this window, if anybody did."""
    found: Visitor | None = st.session_state.get(SIGNED)
    return found


def order(route: str, what: str, *args: object, **params: object) -> None:
    """Have the service do something as the visitor, and keep what it said for the head of the page. Blocks.

    ``what`` names it for people: "pause fallow:7". Never raises ``ClientError``: a refusal is an answer.
    """
    signed = visitor()
    if signed is None:
        _say(Answered(well=False, sentence=f"Not done: {what}. Sign in first, at the top right."))
        return
    ask_for: Callable[..., Any] = getattr(signed.line, route)
    try:
        _say(answered(what, ask_for(*args, **params)))
    except ClientError as error:
        _say(Answered(well=False, sentence=f"Not done: {what}. {error}"))
    _answer.clear()


def answered(what: str, said: Any) -> Answered:
    """What a route answered as a sentence; an outcome that is no success says so."""
    held = said if isinstance(said, dict) else {}
    outcome, message = str(held.get("outcome") or "begun"), str(held.get("message") or "")
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
def _answer(route: str, given: tuple[tuple[str, object], ...]) -> Any:
    asked: Callable[..., Any] = getattr(_line(), route)
    return asked(**dict(given))

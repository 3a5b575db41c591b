"""Where pages get their frames: named queries through ``service.client``, cached for one tick.

The only file of the dashboard that asks. A client is shared by all sessions; when the service goes away
it is made anew, once, which turns to the file when no service answers.

Answers that are kept for a moment, and may be fetched before they are needed: a page draws meanwhile.
"""

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache, partial
from threading import Lock

import pandas as pd
import streamlit as st

from service.client import Client, ServiceDown, connect
from service.errors import StoreOlder, UnknownQuery
from service.schemas.service import ComponentHealth
from service.summaries.savings import Savings
from service.summaries.to_do import Measured
from service.summaries.waste_table import Waste
from service.usecases import advised as client_advising
from service.usecases import recurring as client_recurring
from service.usecases import to_do as client_to_do
from service.usecases import wasted as client_wasted
from service.usecases.advised import Advised, Replayed, Rule, SettingRow
from service.usecases.recurring import Recurred

THREADS = 3
"""Fetch ahead at the same time; who needs an answer that none of them has begun fetches it themselves."""
Question = tuple[str, tuple[tuple[str, object], ...]]
"""A named query and its parameters, sorted by name."""


@dataclass(slots=True)
class _Asked:
    """A question on its way: when it was asked, whether somebody fetches it, and what came."""

    at: float
    fetched: bool = False
    answer: "Future[pd.DataFrame]" = field(default_factory=Future)


class Answers:
    """What ``fetch`` says to each question, kept for ``kept_s`` seconds after it was asked; ``most`` of them.

    Safe to use from any thread; a question is fetched once however many ask it. A failure is told to those
    who wait for it and not kept.
    """

    def __init__(
        self,
        fetch: Callable[[Question], pd.DataFrame],
        *,
        kept_s: float,
        most: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._fetch = fetch
        self._kept_s = kept_s
        self._most = most
        self._clock = clock
        self._lock = Lock()
        self._asked: dict[Question, _Asked] = {}  # the oldest first
        self._ahead = ThreadPoolExecutor(THREADS, thread_name_prefix="ahead")

    def begin(self, question: Question) -> None:
        """Fetch the answer in the background, unless it is there."""
        pending = self._pending(question)
        if not pending.fetched:
            self._ahead.submit(self._see_to, question, pending)

    def take(self, question: Question) -> pd.DataFrame:
        """The answer, a frame of one's own. Blocks; raises what ``fetch`` raises."""
        pending = self._pending(question)
        self._see_to(question, pending)
        return pending.answer.result().copy(deep=False)

    def clear(self) -> None:
        """Forget all of them; who waits for one still gets it."""
        with self._lock:
            self._asked.clear()

    def _pending(self, question: Question) -> _Asked:
        now = self._clock()
        with self._lock:
            while self._asked and (
                now - next(iter(self._asked.values())).at >= self._kept_s or len(self._asked) >= self._most
            ):
                del self._asked[next(iter(self._asked))]
            return self._asked.setdefault(question, _Asked(now))

    def _see_to(self, question: Question, pending: _Asked) -> None:
        """Fetch the answer, unless somebody does."""
        with self._lock:
            mine, pending.fetched = not pending.fetched, True
        if not mine:
            return
        try:
            pending.answer.set_result(self._fetch(question))
        # Every end has to reach those who wait for the answer, or they wait for ever.
        except BaseException as error:
            with self._lock:
                if self._asked.get(question) is pending:
                    del self._asked[question]
            pending.answer.set_exception(error)
            if not isinstance(error, Exception):
                raise


TICK_S = 10
KEPT_ANSWERS = 512
"""Answers that are kept for all visitors together: a page asks a dozen, for each range and filter."""
ADVISED_S = 30
"""It asks every policy, and what is advised changes with the minute."""


def ask(name: str, **params: object) -> pd.DataFrame:
    """The rows of a named query, times as UTC instants; at most one tick old. Raises ``ClientError``."""
    question = _question(name, params)
    try:
        return _answers.take(question)
    except ServiceDown:
        _connected.cache_clear()
        return _answers.take(question)


def begin(name: str, **params: object) -> Callable[[], pd.DataFrame]:
    """``ask`` already, in the background; what is returned gives the rows, or raises what ``ask`` does."""
    _answers.begin(_question(name, params))
    return partial(ask, name, **params)


def ask_if_kept(name: str, **params: object) -> pd.DataFrame | None:
    """As ``ask``; ``None`` where the store, or the service, is older than the question."""
    try:
        return ask(name, **params)
    except (StoreOlder, UnknownQuery):
        return None


@st.cache_data(ttl=ADVISED_S, show_spinner=False)
def advised() -> Advised:
    """What is advised now, at most ``ADVISED_S`` old: it asks every policy. Raises ``ClientError``."""
    return client_advising.advised(_client())


@st.cache_data(ttl=600, max_entries=256, show_spinner=False)
def replayed(
    start: datetime, end: datetime, changed: tuple[tuple[str, float], ...], consented: bool
) -> Replayed:
    """The recorded window under changed rules, kept for ten minutes. Blocks. Raises ``ClientError``."""
    return client_advising.replayed(_client(), start, end, dict(changed), consented=consented)


@st.cache_data(ttl=600, max_entries=64, show_spinner=False)
def charged(as_of: datetime) -> pd.DataFrame:
    """Whom charging held-idle hours would move, kept for ten minutes. Blocks. Raises ``ClientError``."""
    return pd.DataFrame.from_records(client_advising.charged(_client(), as_of))


@st.cache_data(ttl=ADVISED_S, max_entries=64, show_spinner=False)
def given_back(start: datetime, end: datetime) -> Savings:
    """What actions did give back in a window, kept for half a minute. Blocks. Raises ``ClientError``."""
    return client_advising.given_back(_client(), start, end)


@st.cache_data(ttl=ADVISED_S, max_entries=64, show_spinner=False)
def recurred(start: datetime, end: datetime) -> Recurred | None:
    """What was wasted in a window and what recurs in it, kept for half a minute. Blocks.

    ``None`` where the store, or the service, is older. Raises ``ClientError``.
    """
    try:
        return client_recurring.recurred(_client(), start, end)
    except (StoreOlder, UnknownQuery):
        return None


@st.cache_data(ttl=TICK_S, max_entries=64, show_spinner=False)
def wasted(
    by: str, start: datetime, end: datetime, filters: tuple[tuple[str, object], ...]
) -> tuple[Waste, ...]:
    """Who wasted a window's GPU-hours, at most one tick old. Blocks. Raises ``ClientError``."""
    return client_wasted.wasted(_client(), by, (start, end), dict(filters))


@st.cache_data(ttl=TICK_S, max_entries=64, show_spinner=False)
def to_do(start: datetime, end: datetime, filters: tuple[tuple[str, object], ...]) -> Measured:
    """What each job of a window wasted and what was found of it, at most one tick old. Blocks.

    Raises ``ClientError``.
    """
    return client_to_do.measured(_client(), (start, end), dict(filters))


def rules() -> tuple[Rule, ...]:
    """The numbers that advice turns on. Raises ``ClientError``."""
    return client_advising.rules(_client())


def run_pages() -> dict[str, str]:
    """Where this site's trackers have their pages. Raises ``ClientError``."""
    return client_advising.run_pages(_client())


def settings() -> tuple[SettingRow, ...] | None:
    """The configuration in force; ``None`` where it is another machine's. Raises ``ClientError``."""
    return client_advising.settings(_client())


@st.cache_data(ttl=TICK_S, show_spinner=False)
def components() -> tuple[ComponentHealth, ...]:
    """How each component of the service fares, at most one tick old; none where no service runs, or an older
    one. Raises ``ClientError``."""
    client = _client()
    return () if client.mode == "file" else client.health().components


@st.cache_data(ttl=TICK_S, show_spinner=False)
def remark() -> str | None:
    """What a service that is well says of itself, as that its recording has ended; at most one tick old.
    Raises ``ClientError``."""
    client = _client()
    return None if client.mode == "file" else client.health().remark


def mode() -> str:
    """Who answers: ``service``, or ``file`` when nothing collects and the store is read as it lies."""
    return _client().mode


def forget() -> None:
    """Drop every kept answer and the client, so that the next question starts afresh."""
    _answers.clear()
    advised.clear()
    components.clear()
    wasted.clear()
    to_do.clear()
    _connected.cache_clear()


def _question(name: str, params: dict[str, object]) -> Question:
    return name, tuple(sorted((key, value) for key, value in params.items() if value is not None))


def _client() -> Client:
    with _connecting:
        return _connected()


@lru_cache(maxsize=1)
def _connected() -> Client:
    return connect(only_looks=True)


def _fetched(question: Question) -> pd.DataFrame:
    name, parameters = question
    frame = _client().query(name, **dict(parameters))
    for column in frame.columns:
        if isinstance(frame[column].dtype, pd.DatetimeTZDtype):
            frame[column] = frame[column].dt.tz_convert("UTC").dt.as_unit("us")
        elif pd.api.types.is_datetime64_dtype(frame[column]):
            frame[column] = frame[column].dt.tz_localize("UTC").dt.as_unit("us")
    return frame


_connecting = Lock()
_answers = Answers(_fetched, kept_s=TICK_S - 2, most=KEPT_ANSWERS)

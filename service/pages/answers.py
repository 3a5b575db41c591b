"""Answers that are kept for a moment, and may be fetched before they are needed: a page draws meanwhile."""

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from threading import Lock

import pandas as pd

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
        asked = self._found(question)
        if not asked.fetched:
            self._ahead.submit(self._see_to, question, asked)

    def take(self, question: Question) -> pd.DataFrame:
        """The answer, a frame of one's own. Blocks; raises what ``fetch`` raises."""
        asked = self._found(question)
        self._see_to(question, asked)
        return asked.answer.result().copy(deep=False)

    def clear(self) -> None:
        """Forget all of them; who waits for one still gets it."""
        with self._lock:
            self._asked.clear()

    def _found(self, question: Question) -> _Asked:
        now = self._clock()
        with self._lock:
            while self._asked and self._is_over(next(iter(self._asked.values())), now):
                del self._asked[next(iter(self._asked))]
            return self._asked.setdefault(question, _Asked(now))

    def _is_over(self, oldest: _Asked, now: float) -> bool:
        return now - oldest.at >= self._kept_s or len(self._asked) >= self._most

    def _see_to(self, question: Question, asked: _Asked) -> None:
        """Fetch the answer, unless somebody does."""
        with self._lock:
            mine, asked.fetched = not asked.fetched, True
        if not mine:
            return
        try:
            asked.answer.set_result(self._fetch(question))
        except BaseException as error:
            with self._lock:
                if self._asked.get(question) is asked:
                    del self._asked[question]
            asked.answer.set_exception(error)
            if not isinstance(error, Exception):
                raise

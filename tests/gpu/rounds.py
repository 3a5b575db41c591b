"""Rounds of a stream that waits for the host, works, and tells of its end in some way."""

import time
from collections.abc import Callable

from fallow.idle_gaps.page import WORDS
from tests.gpu.stream_words import Words

SETTLE_S = 0.004
"""Until the reader turns, or sleeps at its gate, and the stream waits."""
GO, TOLD = 2 * (WORDS - 2), 2 * (WORDS - 1)
"""Two words of the page that nobody else has, as words of 4 bytes: the host's, and the GPU's."""
EVER = 0x7FFFFFFF
"""No round has a higher number: nothing waits for the host any more."""


class Round:
    """Rounds of one way; each lets the stream go on once."""

    def __init__(self, words: Words, work: Callable[[], object]) -> None:
        self.words, self._work, self._count = words, work, 0

    def queue(self, news: Callable[[int], None]) -> int:
        """Wait, work and news, in the stream; the number of the round."""
        self._count += 1
        number = self._count
        with self.words.queued():
            self.words.wait(GO, number)
            self._work()
            news(number)
        return number

    def go(self, number: int) -> int:
        """Let it go on; when that was, in nanoseconds."""
        time.sleep(SETTLE_S)
        begun_ns = time.monotonic_ns()
        self.words.host[GO] = number
        return begun_ns

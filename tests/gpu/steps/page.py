"""How soon a background job knows that a GPU has come to the end of its work, by five ways.

The host lets a stream go on by a word that the stream waits for; behind that lie a kernel and the news of its
end. So each time is from the host's store, over the kernel, to the news: an upper bound of what is asked.
"""

import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from fallow.idle_gaps.page import GAP_ENDS, LONGEST_GAP_S, Page, create
from tests.gpu import place
from tests.gpu.answers import Figure, told
from tests.gpu.parts import apart
from tests.gpu.rounds import EVER, GO, TOLD, Round
from tests.gpu.stream_words import Refused, Words

TIMES, WARM = (5, 1) if place.dry else (60, 10)
NEWS_S, READY_S = 2.0, 14.0
SHARED = Path("/dev/shm")  # a file of a disk cannot be pinned for a device


def main() -> dict[str, Any]:
    """Each way apart."""
    with tempfile.TemporaryDirectory(dir=SHARED if SHARED.is_dir() else None) as folder:
        path = Path(folder, "page")
        with create(path) as page:
            page.allow(is_allowed=True)
            page.end_step(alone_s=None, recent_s=None, share=1.0)
            reader = place.Load("gap_reader", path, wait=False)
            try:
                return {"figures": _ways(path, page, reader)}
            finally:
                page.open_gap(NEWS_S)  # a reader that still waits at its gate would not end
                reader.end()


def _ways(path: Path, page: Page, reader: place.Load) -> list[Figure]:
    x = place.torch().zeros(1 << 10).to(place.torch_device())
    x.add_(1)
    place.synchronize()  # what is loaded while a stream waits would wait for it
    try:
        words = Words(path)
        rounds = Round(words, lambda: x.add_(1))
        rounds.go(rounds.queue(lambda number: words.write(TOLD, number)))
        place.synchronize()
    except (Refused, AttributeError, OSError) as error:
        return [told("a page that the GPU writes", f"refused: {error}")]
    if words.refused:
        figures = [told("a page that another process sees", f"refused: {words.refused}")]
    else:
        figures = apart("the GPU's store", lambda: _stored(rounds, reader))
        figures += apart("the gate", lambda: _gated(rounds, reader, page))
    figures += apart("a host callback", lambda: _called(rounds))
    figures += apart("event.synchronize", lambda: _awaited(rounds))
    return figures + apart("the page, given back", lambda: _closed(words))


def _closed(words: Words) -> list[Figure]:
    words.host[GO] = EVER  # a round that failed left the stream waiting
    words.close()
    return []


def _stored(rounds: Round, reader: place.Load) -> list[Figure]:
    reader.await_ready(READY_S)
    took = []
    for _ in range(WARM + TIMES):
        number = rounds.queue(lambda number: rounds.words.write(TOLD, number))
        reader.tell("turn", TOLD, number)
        begun_ns = rounds.go(number)
        took.append((reader.answer(NEWS_S)["seen_ns"] - begun_ns) / 1000)
    return _spread("the GPU's store, seen by a process that turns", took)


def _gated(rounds: Round, reader: place.Load, page: Page) -> list[Figure]:
    """The GPU opens a gap: the lower half of its end first, which alone would be long over."""
    seen, launched = [], []
    for _ in range(WARM + TIMES):
        ends_ns = time.monotonic_ns() + int((LONGEST_GAP_S - NEWS_S) * 1e9)

        def opened(_: int, ends_ns: int = ends_ns) -> None:
            rounds.words.write(2 * GAP_ENDS, ends_ns & 0xFFFFFFFF)
            rounds.words.write(2 * GAP_ENDS + 1, ends_ns >> 32)

        page.shut_gap()
        number = rounds.queue(opened)
        reader.tell("gate")
        begun_ns = rounds.go(number)
        answer = reader.answer(NEWS_S)
        seen.append((answer["seen_ns"] - begun_ns) / 1000)
        launched.append((answer["launched_ns"] - begun_ns) / 1000)
    page.shut_gap()
    return [*_spread("the gate, passed", seen), *_spread("the gate's first kernel, launched", launched)]


def _called(rounds: Round) -> list[Figure]:
    took = [_one_call(rounds) for _ in range(WARM + TIMES)]
    return _spread("a host callback in Python", took)


def _one_call(rounds: Round) -> float:
    came, at_ns = threading.Event(), list[int]()

    def news() -> None:
        at_ns.append(time.monotonic_ns())
        came.set()

    begun_ns = rounds.go(rounds.queue(lambda _: rounds.words.call(news)))
    if not came.wait(NEWS_S):
        raise TimeoutError("the driver did not call")
    return (at_ns[0] - begun_ns) / 1000


def _awaited(rounds: Round) -> list[Figure]:
    figures: list[Figure] = []
    for way, blocking in (("sleeping", True), ("turning", False)):
        took = [_one_wait(rounds, blocking=blocking) for _ in range(WARM + TIMES)]
        figures += _spread(f"event.synchronize in a thread, {way}", took)
    return figures


def _one_wait(rounds: Round, *, blocking: bool) -> float:
    waits, at_ns = list[Callable[[], object]](), list[int]()
    number = rounds.queue(lambda _: waits.append(rounds.words.event(blocking=blocking)))

    def wait() -> None:
        waits[0]()
        at_ns.append(time.monotonic_ns())

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    begun_ns = rounds.go(number)
    thread.join(NEWS_S)
    return (at_ns[0] - begun_ns) / 1000


def _spread(title: str, took_us: Sequence[float]) -> list[Figure]:
    cut = statistics.quantiles(took_us[WARM:], n=100, method="inclusive")
    return [told(f"{title}, {name}", cut[at], "us") for name, at in (("p50", 49), ("p99", 98))]

"""A server's idle gaps: from its last answer to the next request, and never while somebody waits for one."""

import asyncio
from pathlib import Path

import pytest

from fallow.idle_gaps import page as pages
from fallow.idle_gaps.announce import Announcer
from fallow.idle_gaps.guard import FIRST_CONTROLS
from fallow.idle_gaps.serving import IdleGaps, Message, Receive, Send
from tests.fallow.still_clock import Clock, page_at

pytestmark = pytest.mark.quick

ANSWER_S, BETWEEN_S = 0.010, 0.030


async def nothing() -> Message:
    return {}


async def nowhere(message: Message) -> None: ...


class Server:
    """Answers after 10 ms, or when it is let; notes what a background job might have taken meanwhile."""

    def __init__(self, page: pages.Page, clock: Clock) -> None:
        self.page, self.clock = page, clock
        self.open_amid: list[float] = []
        self.held: list[asyncio.Event] = []
        self.fails = False
        self.app = IdleGaps(self, "cpu", gaps=Announcer(page, now_s=clock.now_s), now_s=clock.now_s)

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        self.open_amid.append(self.page.left_s())
        self.clock.sleep(ANSWER_S)
        if self.held:
            await self.held.pop(0).wait()
        self.open_amid.append(self.page.left_s())
        if self.fails:
            raise RuntimeError("out of memory")

    async def ask(self) -> None:
        await self.app({"type": "http"}, nothing, nowhere)


@pytest.fixture
def server(tmp_path: Path) -> Server:
    clock = Clock()
    return Server(page_at(tmp_path, clock), clock)


async def served(server: Server, requests: int) -> list[float]:
    """What was left of the gap after each of so many requests, one at a time."""
    left = []
    for _ in range(requests):
        await server.ask()
        left.append(server.page.left_s())
        server.clock.sleep(BETWEEN_S)
    return left


def test_the_time_between_requests_is_announced_once_it_is_known(server: Server) -> None:
    left = asyncio.run(served(server, 60))
    assert left[: FIRST_CONTROLS - 1] == [0.0] * (FIRST_CONTROLS - 1), "at first nobody computes beside it"
    assert left[-2] > 0.5 * BETWEEN_S and left[-1] == 0, "one in 20 is a control"
    assert not any(server.open_amid), "none is open while a request is answered"
    assert server.page.alone_s == pytest.approx(ANSWER_S), "an answer, not the time from one to the next"
    assert server.page.slowdown == pytest.approx(1.0)
    assert server.page.gaps_s == pytest.approx(0.75 * ANSWER_S), "30 of each 40 ms nobody asks"


def test_while_one_of_several_requests_is_answered_no_gap_is_open(server: Server) -> None:
    async def crowded() -> int:
        await served(server, 40)
        steps, server.open_amid = server.page.steps[0], []
        first, second = asyncio.Event(), asyncio.Event()
        server.held = [first, second]
        asked = [asyncio.create_task(server.ask()) for _ in range(2)]
        await asyncio.sleep(0)
        first.set()
        await asked[0]
        assert server.page.left_s() == 0, "the other one is not answered yet"
        second.set()
        await asked[1]
        assert server.page.left_s() > 0
        return server.page.steps[0] - steps

    assert asyncio.run(crowded()) == 1, "one answer was begun while nobody asked"
    assert not any(server.open_amid)


def test_an_answer_that_fails_leaves_the_gap_open_and_a_start_is_no_request(server: Server) -> None:
    async def failing() -> None:
        await served(server, 40)
        server.fails = True
        with pytest.raises(RuntimeError, match="out of memory"):
            await server.ask()
        assert server.page.left_s() > 0
        server.fails, steps = False, server.page.steps[0]
        await server.app({"type": "lifespan"}, nothing, nowhere)
        assert server.page.steps[0] == steps

    asyncio.run(failing())

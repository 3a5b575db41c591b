"""Answers are fetched once, ahead or when they are needed, kept for a moment, and failures are not kept."""

import threading
from collections.abc import Callable

import pandas as pd
import pytest

from service.pages.data.queries import THREADS, Answers, Question

SPAN: Question = ("span", ())


class Asked:
    """Counts what is fetched; holds every answer back until it is let go."""

    def __init__(self) -> None:
        self.questions: list[Question] = []
        self.go = threading.Event()
        self.fails = False
        self.now = 0.0

    def fetch(self, question: Question) -> pd.DataFrame:
        self.questions.append(question)
        assert self.go.wait(30)
        if self.fails:
            raise OSError("nobody answers")
        return pd.DataFrame({"count": [len(self.questions)]})


@pytest.fixture
def asked() -> Asked:
    return Asked()


@pytest.fixture
def answers(asked: Asked) -> Answers:
    return Answers(asked.fetch, kept_s=8.0, most=4, clock=lambda: asked.now)


def together(many: int, act: Callable[[], object]) -> list[threading.Thread]:
    threads = [threading.Thread(target=act) for _ in range(many)]
    for thread in threads:
        thread.start()
    return threads


def test_a_question_is_fetched_once_however_many_ask_it(asked: Asked, answers: Answers) -> None:
    answers.begin(SPAN)
    got: list[int] = []
    waiting = together(8, lambda: got.append(int(answers.take(SPAN)["count"].iloc[0])))
    asked.go.set()
    for thread in waiting:
        thread.join(30)
    assert got == [1] * 8
    assert asked.questions == [SPAN]


def test_who_needs_an_answer_does_not_wait_for_a_free_thread(asked: Asked, answers: Answers) -> None:
    for number in range(THREADS + 1):
        answers.begin(("busy", (("number", number),)))
    last = ("busy", (("number", THREADS),))
    [waiting] = together(1, lambda: answers.take(last))
    limit = threading.Event()
    while last not in asked.questions and not limit.wait(0.01):
        assert waiting.is_alive()
    asked.go.set()
    waiting.join(30)
    assert asked.questions.count(last) == 1


def test_an_answer_is_kept_for_its_time_and_no_longer(asked: Asked, answers: Answers) -> None:
    asked.go.set()
    for now, fetched in ((0.0, 1), (7.9, 1), (8.0, 2)):
        asked.now = now
        answers.take(SPAN)
        assert len(asked.questions) == fetched
    answers.clear()
    answers.take(SPAN)
    assert len(asked.questions) == 3


def test_the_oldest_make_room(asked: Asked, answers: Answers) -> None:
    asked.go.set()
    for number in range(40):
        answers.take(("job", (("number", number),)))
    answers.take(("job", (("number", 39),)))
    assert len(asked.questions) == 40
    answers.take(("job", (("number", 0),)))
    assert len(asked.questions) == 41


def test_a_failure_is_told_and_not_kept(asked: Asked, answers: Answers) -> None:
    asked.go.set()
    asked.fails = True
    answers.begin(SPAN)
    with pytest.raises(OSError, match="nobody answers"):
        answers.take(SPAN)
    asked.fails = False
    assert not answers.take(SPAN).empty


def test_what_a_page_does_to_its_rows_is_not_seen_by_others(asked: Asked, answers: Answers) -> None:
    asked.go.set()
    mine = answers.take(SPAN)
    mine.loc[0, "count"] = 99
    mine["more"] = 1
    assert list(answers.take(SPAN).columns) == ["count"]
    assert answers.take(SPAN)["count"].iloc[0] == 1

"""The auditor of `make chaos` names what is wrong: a run that finds nothing would else prove nothing."""

import pytest

from tests.chaos.audit import Line, Ran, faults, leftovers, tracebacks


def line(word: str, at_s: float = 1.0, gpus: tuple[str, ...] = ("GPU-0",)) -> Line:
    return Line(word=word, pid=7, at_s=at_s, gpus=gpus)


def ran(
    *words: str, status: int | None = 0, hurt: bool = False, restarts: int = 0, unheard: bool = False
) -> Ran:
    lines = tuple(map(line, words))
    return Ran(key="job-1", status=status, hurt=hurt, restarts=restarts, lines=lines, unheard=unheard)


@pytest.mark.parametrize(
    "job",
    [
        ran("begun", "ended"),
        ran("begun", "begun", "ended", restarts=1, hurt=True),
        ran("begun", status=1, hurt=True),
        ran(status=1, hurt=True),
        ran("begun", "stopped", status=143, hurt=True),
        ran(status=2, unheard=True),
    ],
)
def test_what_may_happen_is_no_fault(job: Ran) -> None:
    assert faults([job]) == []


@pytest.mark.parametrize(
    ("job", "word"),
    [
        (ran("begun", "doubled", "ended"), "another holder"),
        (ran("without", "ended"), "without a GPU"),
        (ran("begun", "begun", "ended"), "began 2 times"),
        (ran("begun"), "never ran to its end"),
        (ran(), "never ran to its end"),
        (ran("begun", status=None), "did not end"),
        (ran("begun", status=1), "nothing was done to it"),
        (ran("begun", status=None, hurt=True), "did not end"),
        (ran(status=2), "nothing was done to it"),
        (ran("begun", status=2, unheard=True), "nothing was done to it"),
        (ran(status=1, unheard=True), "nothing was done to it"),
    ],
)
def test_what_must_not_happen_is_named(job: Ran, word: str) -> None:
    assert any(word in each for each in faults([job]))


def test_growth_beyond_what_is_allowed_is_named() -> None:
    before, after = {"descriptors": 50, "threads": 20}, {"descriptors": 120, "threads": 25}
    (found,) = leftovers(before, after, {"descriptors": 40, "threads": 20})
    assert found.startswith("descriptors: 50 before, 120 after")


def test_a_traceback_is_named_by_its_place_and_its_error() -> None:
    raised = [
        "Traceback (most recent call last):",
        '  File "a.py", line 1, in f',
        "    g()",
        "ValueError: no",
    ]
    assert tracebacks("\n".join(["info a", *raised, "info b"])) == [
        'File "a.py", line 1, in f: ValueError: no'
    ]
    assert tracebacks("info a, info b") == []

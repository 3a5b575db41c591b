"""A job that rested twice on a GPU is told of both rests where its findings are told as one message."""

from service.cli.words import clock_time, found_again

FIRST = {"uuid": "GPU-1", "closed_at": "2026-11-26T23:21:00+00:00"}
SECOND = {"uuid": "GPU-1", "closed_at": "2026-11-27T11:21:00+00:00"}
ELSEWHERE = {"uuid": "GPU-2", "closed_at": "2026-11-27T12:00:00+00:00"}


def test_each_further_time_on_the_same_gpu_is_told_with_its_end() -> None:
    told = found_again([FIRST, ELSEWHERE, SECOND])
    assert told == f"The same at another time, until {clock_time(SECOND['closed_at'])}."
    assert found_again([FIRST, ELSEWHERE]) == ""


def test_of_many_times_four_are_named() -> None:
    told = found_again([FIRST, *[SECOND] * 6])
    assert told.endswith("and 2 more times.")

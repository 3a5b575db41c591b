"""What is told of idle gaps: of all stays together, and both figures or neither."""

import pytest

from service.usecases.harvests import harvests_of, sentences

pytestmark = pytest.mark.quick


def row(
    steps: int, harvested: float | None, ratio: float | None, foreground: str = "fallow:1"
) -> dict[str, object]:
    return {
        "job": "fallow:2",
        "foreground": foreground,
        "steps": steps,
        "harvested_gpu_s": harvested,
        "slowdown_ratio": ratio,
        "foreground_steps": 540,
    }


def test_stays_beside_one_job_are_told_together_with_the_newest_ratio() -> None:
    rows = [row(10, None, None), row(100, 60.0, 1.004), row(100, 1800.0, 1.2), row(5, 1.0, 1.0, "fallow:3")]
    first, second = harvests_of(rows, "fallow:2")
    assert (first.steps, first.harvested_gpu_s, first.slowdown_ratio) == (210, 1860.0, 1.004)
    assert second.foreground == "fallow:3"
    (told,) = sentences(rows, "fallow:1")
    assert told == (
        "In its idle gaps fallow:2 has made 210 steps: 31 min of GPU time harvested; it runs at 1.004 of its "
        "own step (540 steps, one in 20 alone)."
    )


def test_one_figure_without_the_other_is_not_told() -> None:
    (told,) = sentences([row(10, None, None)], "fallow:2")
    assert told == (
        "In the idle gaps of fallow:1 it has made 10 steps; what that gives, and costs fallow:1, is not "
        "measured yet."
    )

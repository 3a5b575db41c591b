"""The error bar of a row of ``fallow whatif``: by what its expectations earned, and never of no width."""

import pytest

from advisor.whatif.estimate import Earned, Given, bounded

ROW = Given(action="tell", how="", gpu_hours=100.0, jobs=3, times=9)


@pytest.mark.parametrize(
    ("cases", "error", "low", "high"),
    [
        (8, 0.0, 90.0, 110.0),  # all came as expected: the ninth may not, with 1 in 10
        (98, 0.001, 99.0, 101.0),
        (8, -0.4, 60.0, 140.0),
        (8, 1.5, 0.0, 250.0),  # nothing is given back below nothing
    ],
)
def test_a_bar_is_as_wide_as_the_error_and_never_without_width(
    cases: int, error: float, low: float, high: float
) -> None:
    row = bounded(ROW, Earned(cases=cases, median_error=0.0, total_error=error))
    assert (row.low, row.high) == (pytest.approx(low), pytest.approx(high))


def test_what_earned_nothing_has_no_bar() -> None:
    assert bounded(ROW, Earned(cases=0, median_error=None, total_error=None)).low is None

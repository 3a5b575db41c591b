"""What one class of action would have given back, and the error bar that its expectations earned. Pure.

How far off expectations are is not assumed but *earned* on the site's own history: what would have been
expected at the time, beside what came.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median


@dataclass(frozen=True, slots=True, kw_only=True)
class Foreseen:
    """One idle time of the past: what was to be expected when its owner was told, and what came, in s."""

    expected_s: float
    came_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Earned:
    """How far off expectations were on this history; ``None`` where there was too little to tell.

    ``median_error`` is of single expectations, ``total_error`` of their sum (positive: too much expected).
    """

    cases: int
    median_error: float | None
    total_error: float | None


UNTOLD = Earned(cases=0, median_error=None, total_error=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """What one class of action would have given back in the window.

    ``low`` and ``high`` bound ``gpu_hours`` by the error that its expectations ``earned``, ``None`` where
    nothing did. ``disturbed`` is how often somebody would have come back to a job that was paused, or have
    had a job stand still while it moved or was put beside another.
    """

    action: str
    how: str
    gpu_hours: float
    jobs: int
    times: int
    disturbed: int = 0
    low: float | None = None
    high: float | None = None
    money: float | None = None
    earned: Earned = UNTOLD


def error_of(cases: Sequence[Foreseen]) -> Earned:
    """The bar that these cases earn."""
    if not cases:
        return Earned(cases=0, median_error=None, total_error=None)
    came = sum(case.came_s for case in cases)
    return Earned(
        cases=len(cases),
        median_error=median(abs(case.expected_s - case.came_s) / max(60.0, case.came_s) for case in cases),
        total_error=None if came <= 0 else sum(case.expected_s for case in cases) / came - 1,
    )


def bounded(row: Given, earned: Earned) -> Given:
    """The row with what its kind of expectation has earned; as it is, where nothing came of any.

    Cases that came out exactly as expected earn no bar without width: of n of these the next one may not,
    with 1 / (n + 2) (Laplace's rule of succession), and the bar is never narrower than that part.
    """
    if earned.total_error is None:
        return replace(row, earned=earned)
    error = max(abs(earned.total_error), 1 / (earned.cases + 2))
    low, high = row.gpu_hours * (1 - min(1.0, error)), row.gpu_hours * (1 + error)
    return replace(row, low=low, high=high, earned=earned)


def priced(row: Given, price: float | None) -> Given:
    """The row with what its hours are worth; as it is, without a price of a GPU-hour."""
    return row if price is None else replace(row, money=row.gpu_hours * price)

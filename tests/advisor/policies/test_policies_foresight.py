"""How long an idle time goes on: Kaplan and Meier's estimate, and whose history is listened to."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.policies.foresight import FEW, foresee, survival
from collector.model import JobKind
from tests.advisor.policies.scene import stretch


def test_survival_falls_by_the_share_that_ends() -> None:
    steps = survival([stretch(10), stretch(20), stretch(30), stretch(40)])
    assert [share for _, share in steps] == pytest.approx([0.75, 0.5, 0.25, 0.0])


def test_what_still_lasts_counts_as_at_least_so_long() -> None:
    steps = survival([stretch(10), stretch(20, open=True), stretch(30), stretch(40)])
    assert [share for _, share in steps] == pytest.approx([0.75, 0.375, 0.0])


@given(st.lists(st.floats(61, 10_000), min_size=FEW, max_size=40), st.floats(60, 100_000))
def test_without_open_ones_the_expectation_is_the_mean_cut_at_the_horizon(
    minutes: list[float], horizon_s: float
) -> None:
    seen = foresee(3600, horizon_s, "ann", JobKind.BATCH, [stretch(each) for each in minutes])
    assert seen is not None
    rest = [min(round(each * 60_000) / 1000 - 3600, horizon_s) for each in minutes]
    assert seen.expected_s == pytest.approx(sum(rest) / len(rest), rel=1e-6)
    assert 0 <= seen.low_s <= seen.high_s <= horizon_s + 1e-6


def test_own_history_goes_first_then_the_kind_then_everybody() -> None:
    own = [stretch(200, user="ann") for _ in range(FEW)]
    others = [stretch(100, user="bob") for _ in range(FEW)]
    notebooks = [stretch(500, user="cy", kind=JobKind.INTERACTIVE) for _ in range(FEW)]
    everything = [*own, *others, *notebooks]

    def of(user: str, kind: JobKind) -> str | None:
        found = foresee(60, 3600, user, kind, everything)
        return None if found is None else found.of

    assert of("ann", JobKind.BATCH) == "ann's batch jobs"
    assert of("dan", JobKind.BATCH) == "all batch jobs"
    assert of("dan", JobKind.INFERENCE) == "all jobs"


def test_only_times_that_lasted_as_long_are_asked() -> None:
    short = [stretch(30) for _ in range(50)]
    assert foresee(3600, 3600, "ann", JobKind.BATCH, short) is None

"""A size is held against the job's own peaks, the minutes above its 95th percentile.

Each case is an hour of minutes that repeats, with the arithmetic beside it. A minute that fills ``u`` of a
GPU takes ``u / s`` minutes on a part ``s`` that is smaller, so the work takes longer by the mean of
``max(0, u - s) / s``. A size is advised where that keeps nine tenths of the speed: under 1 / 0.9 - 1 = 11.1%.
"""

from collections.abc import Sequence
from typing import Any

import pytest

from advisor.planner.limits import Limits, PlannerConfig
from advisor.planner.plan import Abstain, Advice
from advisor.policies import right_size
from collector.model import Basis
from tests.advisor.policies.scene import GIB, cluster, job, observed, use

RULES, LIMITS = PlannerConfig(), Limits()
Minutes = Sequence[tuple[int, float]]
"""How many minutes, and how much of the GPU they fill."""


def curve(minutes: Minutes) -> tuple[float, ...]:
    """The mean excess over each twentieth of a GPU, by its definition."""
    total = sum(many for many, _ in minutes)
    return tuple(
        sum(many * max(0.0, level - edge / 20) for many, level in minutes) / total for edge in range(1, 20)
    )


def answer(minutes: Minutes | None, p95: float, *, share: float = 1.0, **changes: Any) -> Advice | Abstain:
    """What is said of a job of 4 GiB on an H100 of 80 GB with this 95th percentile, over a week."""
    state = cluster([(job("a", share=share), ("g0",))])
    changes = {"memory_peak_bytes": 4 * GIB, "controller_p95_ratio": None} | changes
    seen = use(
        "a",
        hours=168,
        utilization_p95_ratio=p95,
        excess_ratios=None if minutes is None else curve(minutes),
        **changes,
    )
    (said,) = right_size.advise(state, observed(seen), LIMITS, RULES)
    return said


@pytest.mark.parametrize(
    ("minutes", "p95", "share", "longer"),
    [
        # 14% / 0.8 asks for two tenths: 3 x 0.6 / 60 / 0.2 = 15%; on three tenths 3 x 0.5 / 60 / 0.3 = 8.3%
        ([(57, 0.14), (3, 0.8)], 0.14, "0.3", "8.3%"),
        # the same work each minute has no peaks
        ([(60, 0.08)], 0.08, "0.1", None),
        # a tenth: 3 x 0.9 / 60 / 0.1 = 45%; two 20%; three 11.7%; four 3 x 0.6 / 60 / 0.4 = 7.5%
        ([(57, 0.08), (3, 1.0)], 0.08, "0.4", "7.5%"),
        # small peaks on a tenth: 3 x 0.1 / 60 / 0.1 = 5%
        ([(57, 0.08), (3, 0.2)], 0.08, "0.1", "5.0%"),
        # one minute of 60 at all of it, on a tenth 15%, on two 1 x 0.8 / 60 / 0.2 = 6.7%
        ([(59, 0.08), (1, 1.0)], 0.08, "0.2", "6.7%"),
        # on either side of a ninth: 3 x 0.22 / 60 / 0.1 = 11%; 3 x 0.235 / 60 / 0.1 = 11.75%, on two 3.4%
        ([(57, 0.08), (3, 0.32)], 0.08, "0.1", "11%"),
        ([(57, 0.08), (3, 0.335)], 0.08, "0.2", "3.4%"),
        # an hour of a day at all of it, each day: a tenth 37.5%, two 16.7%, three 0.7 / 24 / 0.3 = 9.7%
        ([(23, 0.08), (1, 1.0)], 0.08, "0.3", "9.7%"),
    ],
)
def test_a_share_is_one_on_which_the_jobs_own_peaks_keep_nine_tenths_of_its_speed(
    minutes: Minutes, p95: float, share: str, longer: str | None
) -> None:
    said = answer(minutes, p95)
    assert isinstance(said, Advice) and f"ask for {share} of a" in said.what
    if longer is None:
        assert "no minute of its work filled more than that" in said.risk
    else:
        assert (
            f"its peaks would have made its work, or that of its newest 24 h, take {longer} longer"
            in said.risk
        )
    assert "up to" not in said.risk


def test_a_size_that_the_peaks_turned_down_is_named() -> None:
    said = answer([(57, 0.14), (3, 0.8)], 0.14)
    assert isinstance(said, Advice)
    longer = "0.2 would have made its work, or that of its newest 24 h, take 15% longer"
    assert f"Its peaks decide the share: {longer}." in said.why


@pytest.mark.parametrize(
    ("minutes", "p95", "profile"),
    [
        # 16 of 132 SMs are 0.121: 3 x 0.479 / 60 / 0.121 = 19.8%
        # 26 are 0.197: 3 x 0.403 / 60 / 0.197 = 10.2%
        ([(57, 0.09), (3, 0.6)], 0.09, "1g.20gb"),
        # 3 x 0.179 / 60 / 0.121 = 7.4%
        ([(57, 0.09), (3, 0.3)], 0.09, "1g.10gb"),
        # 0.197: 20.4%; 32 SMs are 0.242: 15.6%; 60 are 0.455: 3 x 0.545 / 60 / 0.455 = 6.0%
        ([(57, 0.09), (3, 1.0)], 0.09, "3g.40gb"),
    ],
)
def test_a_profile_is_held_against_the_peaks_by_its_sms(minutes: Minutes, p95: float, profile: str) -> None:
    said = answer(minutes, p95, rung=Basis.GPU_UTILIZATION, controller_p95_ratio=0.02)
    assert isinstance(said, Advice) and f"ask for a {profile} slice" in said.what
    assert "its peaks would have made its work, or that of its newest 24 h, take" in said.risk


def test_none_is_advised_where_only_the_peaks_need_what_it_has_and_that_is_said() -> None:
    """Two tenths would do by the percentile, and cost 15%; it has three."""
    said = answer([(57, 0.14), (3, 0.8)], 0.14, share=0.3)
    assert isinstance(said, Abstain)
    longer = "0.2 would have made its work, or that of its newest 24 h, take 15% longer"
    assert said.reason == f"its busiest minutes need what it has: {longer}"


@pytest.mark.parametrize(
    ("p95", "share", "longer"),
    [
        # a twentieth of the minutes at all of it: a tenth 45%, two 20%, three 11.7%, four 0.05 x 0.6 / 0.4
        (0.08, "0.4", "7.5%"),
        (0.14, "0.4", "7.5%"),
        # 40% / 0.8 asks for five tenths: 0.05 x 0.5 / 0.5 = 5%
        (0.4, "0.5", "5.0%"),
    ],
)
def test_peaks_that_nobody_measured_are_taken_to_fill_the_gpu(p95: float, share: str, longer: str) -> None:
    said = answer(None, p95)
    assert isinstance(said, Advice) and f"ask for {share} of a" in said.what
    assert f"its busiest twentieth of minutes may make its work take up to {longer} longer" in said.risk

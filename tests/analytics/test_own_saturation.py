"""On a GPU that several hold low saturation is each one's own work, of its own share; else it is unknown."""

from dataclasses import replace
from typing import Any

import pytest

from analytics.findings import judge
from analytics.findings.saturation import WHOSE_WORK
from analytics.model import Claim, Finding, FindingKind, Rhythm, Verdict
from analytics.sharing import own_bins
from analytics.thresholds import Thresholds
from collector.model import JobId
from tests.analytics.pasts import BINS, NOON_MS, TICK_MS, bins, claim, past, then

LOW = FindingKind.LOW_SATURATION
BOARD: dict[str, Any] = {"utilization": 0.5, "busiest": 0.9, "gpu_utilization": 0.9}


def holder(
    name: str, part: Any, share: float = 0.5, level: dict[str, Any] | None = None, **more: Any
) -> Claim:
    """A holder whose processes did ``part`` of the work on the board, bin by bin; ``None``: not told."""
    row = part if isinstance(part, tuple) else (part,) * BINS
    told = {at: value for at, value in enumerate(row) if value is not None}
    made = claim(share=share, **more)
    return replace(
        made,
        holder=replace(made.holder, job=JobId(f"slurm:{name}"), user=name, name=None),
        bins=own_bins(bins(**(level or BOARD)), told) if told else None,
    )


def judged(*claims: Claim, **levels: Any) -> Verdict:
    return judge(past(*claims, bins=bins(**(BOARD | levels))), NOON_MS, Thresholds(), TICK_MS)


def low(verdict: Verdict) -> dict[str | None, Finding]:
    return {each.holder.user: each for each in verdict.findings if each.kind is LOW and each.holder}


def is_unknown(verdict: Verdict) -> bool:
    return WHOSE_WORK in {each.reason for each in verdict.unknown if LOW in each.kinds}


def test_who_hardly_adds_to_a_busy_gpu_is_told_so_and_the_other_is_not() -> None:
    verdict = judged(holder("ann", 0.9), holder("bob", 0.1))
    assert list(low(verdict)) == ["bob"] and not is_unknown(verdict)
    finding = low(verdict)["bob"]
    assert finding.sentence == (
        "bob (job slurm:bob) has held GPU 3 of node1, which 1 other holds too, for 10 h, and by its own work "
        "filled 5.0% of it over its last 30 min of work, 10% of its share of 50% (SM active of "
        "the whole GPU, its part by the use told of each process or pod)."
    )
    numbers = {each.name: each.value for each in finding.evidence}
    assert numbers["utilization_active_mean_ratio"] == pytest.approx(0.1)
    assert numbers["gpu_active_mean_ratio"] == pytest.approx(0.05)
    assert numbers["unused_gpu_hours"] == pytest.approx(2 * 0.5 * 0.9)
    assert (numbers["share"], numbers["others"]) == (0.5, 1)


# By hand: who does `part` of the work on a board at `board` fills part * board / share of its share.
@pytest.mark.parametrize(
    ("board", "part", "share", "found"),
    [
        (0.20, 0.5, 0.25, False),  # 10% of the GPU is 40% of a quarter, though the GPU is at 20%
        (0.50, 0.24, 0.5, True),  # 12% of the GPU, 24% of its half
        (0.50, 0.26, 0.5, False),
        (0.90, 0.02, 0.5, True),  # 1.8% of the GPU
        (0.40, 0.1, 0.125, False),  # 4% of the GPU, 32% of an eighth
        (1.00, 1.0, 0.5, False),  # twice what it was given
    ],
)
def test_what_is_filled_is_what_was_given(board: float, part: float, share: float, found: bool) -> None:
    level = {"utilization": board, "busiest": max(board, 0.6), "gpu_utilization": max(board, 0.6)}
    verdict = judged(holder("bob", part, share, level), holder("ann", 1 - part, 1 - share, level), **level)
    assert ("bob" in low(verdict)) is found


@pytest.mark.parametrize(
    "part",
    [None, then((BINS - 30, 0.1), (30, None))],
    ids=["nobody tells", "not of an eighth of the window"],
)
def test_whose_work_it_is_nobody_tells_is_unknown(part: Any) -> None:
    level = {"utilization": 0.1, "busiest": 0.6, "gpu_utilization": 0.6}
    verdict = judged(holder("bob", part, level=level), holder("ann", part, level=level), **level)
    assert not low(verdict) and is_unknown(verdict)


def test_who_has_stopped_beside_one_who_works_is_not_at_low_saturation() -> None:
    verdict = judged(holder("bob", then((BINS - 40, 0.1), (40, 0.0))), holder("ann", 0.9))
    assert not low(verdict) and not is_unknown(verdict)


def test_whoever_filled_its_share_in_the_day_is_not_told_so() -> None:
    def bob(ratio: float) -> Claim:
        return holder("bob", 0.1, 0.25, rhythm=Rhythm(busy_ratio=ratio, busy_ms=60_000_000))

    # Of the GPU, by the clock: 10% of it are 40% of a quarter, and 5% are 20%.
    assert not low(judged(bob(0.10), holder("ann", 0.9, 0.25)))
    assert list(low(judged(bob(0.05), holder("ann", 0.9, 0.25)))) == ["bob"]


def test_a_share_without_a_neighbour_is_judged_as_the_share() -> None:
    quarter = {"utilization": 0.1, "busiest": 0.6, "gpu_utilization": 0.6}
    assert not low(judged(claim(share=0.25), **quarter))
    (finding,) = low(judged(claim(share=0.5), **quarter)).values()
    assert (
        "for 10 h, and filled 10% of it over its last 30 min of work, 20% of its share of 50% (SM active)"
        in finding.sentence
    )

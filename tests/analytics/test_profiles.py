"""How somebody works, from the lengths of their runs and gaps."""

from typing import Any

import pytest

from analytics.model import Activity, PatternKind
from analytics.profiles import pattern_of
from analytics.thresholds import Thresholds
from collector.model import Holder, JobId


def activity(**changes: Any) -> Activity:
    values: dict[str, Any] = {
        "holder": Holder(job=JobId("slurm:1")),
        "held_gpu_minutes": 600,
        "measured_gpu_minutes": 600.0,
        "minutes": 600,
        "active_minutes": 580,
        "runs": 2,
        "run_median_minutes": 290.0,
        "run_longest_minutes": 400,
        "gap_median_minutes": 20.0,
        "gap_longest_minutes": 20,
        "utilization_ratio": 0.7,
    }
    return Activity(**(values | changes))


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, PatternKind.SATURATED),
        ({"utilization_ratio": 0.4}, PatternKind.STEADY),
        ({"utilization_ratio": 0.2}, PatternKind.LOW_SATURATION),
        ({"utilization_ratio": 0.0, "engine_minutes": 290}, PatternKind.STEADY),
        ({"utilization_ratio": 0.2, "engine_minutes": 289}, PatternKind.LOW_SATURATION),
        ({"active_minutes": 400}, PatternKind.STEADY),
        ({"gap_longest_minutes": 60}, PatternKind.GAPS_BETWEEN_RUNS),
        ({"gap_longest_minutes": 60, "run_longest_minutes": 59}, PatternKind.SATURATED),
        (
            {"runs": 12, "run_median_minutes": 4.0, "active_minutes": 90, "run_longest_minutes": 20},
            PatternKind.ANALYSIS_BURSTS,
        ),
        (
            {"runs": 2, "run_median_minutes": 4.0, "active_minutes": 90, "run_longest_minutes": 20},
            PatternKind.STEADY,
        ),
        ({"runs": 0, "active_minutes": 0, "utilization_ratio": None}, PatternKind.UNCLEAR),
        ({"minutes": 59}, PatternKind.UNCLEAR),
        # three hours of work, and silence for 15 h since: who knows whether it goes on
        (
            {"minutes": 1080, "active_minutes": 180, "runs": 1, "edge_longest_minutes": 900},
            PatternKind.UNCLEAR,
        ),
        ({"edge_longest_minutes": 60}, PatternKind.UNCLEAR),
        ({"edge_longest_minutes": 59}, PatternKind.SATURATED),
        ({"edge_longest_minutes": 900, "engine_minutes": 580}, PatternKind.UNCLEAR),
        ({"edge_longest_minutes": 900, "gap_longest_minutes": 60}, PatternKind.GAPS_BETWEEN_RUNS),
        ({"edge_longest_minutes": 900, "utilization_ratio": 0.2}, PatternKind.LOW_SATURATION),
    ],
)
def test_pattern_follows_from_the_numbers(changes: dict[str, Any], expected: PatternKind) -> None:
    pattern = pattern_of(activity(**changes), Thresholds())
    assert pattern.kind is expected
    assert {e.name for e in pattern.evidence} >= {"active_ratio", "runs", "utilization_active_mean_ratio"}


@pytest.mark.parametrize(
    ("held", "measured", "reason"),
    [
        (600, 569.0, "only 94.8% of the 10 h of GPU time it held were measured"),
        (60, 30.0, "only 50% of the 1 h of GPU time it held were measured"),
        (90, 0.0, "nothing of the 1 h 30 min of GPU time it held was measured"),
        (600, 570.0, None),
        (59, 10.0, None),
    ],
)
def test_pattern_of_what_hardly_anybody_saw_is_unknown(
    held: int, measured: float, reason: str | None
) -> None:
    pattern = pattern_of(activity(held_gpu_minutes=held, measured_gpu_minutes=measured), Thresholds())
    assert (pattern.kind is PatternKind.UNKNOWN, pattern.reason) == (reason is not None, reason)


@pytest.mark.parametrize(
    ("measured", "suspect", "reason"),
    [
        (0.0, 480.0, "its counters contradict each other in 8 h of the 8 h of GPU time it held"),
        (60.0, 420.0, "its counters contradict each other in 7 h of the 8 h of GPU time it held"),
        (
            60.0,
            120.0,
            "only 12.5% of the 8 h of GPU time it held were measured",
        ),  # five hours by nobody at all
        (470.0, 10.0, None),
    ],
)
def test_counters_in_doubt_are_not_said_to_be_unmeasured(
    measured: float, suspect: float, reason: str | None
) -> None:
    seen = activity(held_gpu_minutes=480, measured_gpu_minutes=measured, suspect_gpu_minutes=suspect)
    assert pattern_of(seen, Thresholds()).reason == reason


def test_coverage_that_a_pattern_needs_is_configuration() -> None:
    seen = activity(measured_gpu_minutes=360.0)
    assert pattern_of(seen, Thresholds(coverage_ratio=0.5)).kind is PatternKind.SATURATED
    (covered,) = (e.value for e in pattern_of(seen, Thresholds()).evidence if e.name == "coverage_ratio")
    assert covered == 0.6


def test_gap_length_is_configuration() -> None:
    shorter = Thresholds(gap_minutes=20)
    assert pattern_of(activity(), shorter).kind is PatternKind.GAPS_BETWEEN_RUNS


@pytest.mark.parametrize(
    ("name", "value"), [("coverage_ratio", 0.4), ("idle_window_s", 10), ("rare_ratio", 1.0)]
)
def test_thresholds_out_of_bounds_are_refused(name: str, value: float) -> None:
    with pytest.raises(ValueError, match=f"threshold {name} must lie in"):
        Thresholds(**{name: value})  # type: ignore[arg-type]

"""What kind of worker a holder is: analysis in bursts, long runs with gaps, hardly any, or good use. Pure."""

from analytics import text
from analytics.findings.words import MINUTE_MS
from analytics.job_verdict import ENGINES_RATIO
from analytics.model import Activity, Evidence, Pattern, PatternKind
from analytics.thresholds import LOW_RATIO, SATURATED_RATIO, Thresholds

MIN_MINUTES = 60
"""Under an hour nothing is said of how somebody works."""
MIN_BURSTS = 3
"""Two runs with a pause between them may be one program started twice; a habit shows from three on."""


def pattern_of(activity: Activity, t: Thresholds) -> Pattern:
    """The pattern, the first of these that holds, with the numbers that made it so.

    ====================  ==============================================================================
    unknown               held an hour or more, and under ``coverage_ratio`` of that was measured
    unclear               under an hour held or measured, or never active; what would be saturated or steady
                          and was still for ``gap_minutes`` before its first run or since its last
    gaps-between-runs     a run and a gap of at least ``gap_minutes`` each
    analysis-bursts       at least three runs, the median at most ``burst_minutes``, mostly quiet
    low-saturation        under ``low_ratio`` while active, and not on video engines
    saturated             active ``steady_active_ratio`` of the time, ``saturated_ratio`` or more while active
    steady                anything else; work on video engines too, of which the SMs' level says nothing
    ====================  ==============================================================================
    """
    reason = _doubt(activity, t)
    kind = _kind(activity, t) if reason is None else PatternKind.UNKNOWN
    return Pattern(holder=activity.holder, kind=kind, evidence=_evidence(activity), reason=reason)


def _doubt(activity: Activity, t: Thresholds) -> str | None:
    """Why nothing can be said: runs and gaps that nobody saw would change every number."""
    held, covered = activity.held_gpu_minutes, _coverage(activity)
    if held < MIN_MINUTES or covered is None or covered >= t.coverage_ratio:
        return None
    spoken = text.length((held * MINUTE_MS) / 1000)
    suspect = min(activity.suspect_gpu_minutes, held - activity.measured_gpu_minutes)
    if suspect > held - activity.measured_gpu_minutes - suspect:  # measured, and not to be believed
        doubted = text.length(suspect * MINUTE_MS / 1000)
        return f"its counters contradict each other in {doubted} of the {spoken} of GPU time it held"
    if not activity.measured_gpu_minutes:
        return f"nothing of the {spoken} of GPU time it held was measured"
    return f"only {text.coverage(covered)} of the {spoken} of GPU time it held were measured"


def _coverage(activity: Activity) -> float | None:
    if not activity.held_gpu_minutes:
        return None
    return min(1.0, activity.measured_gpu_minutes / activity.held_gpu_minutes)


def _kind(activity: Activity, t: Thresholds) -> PatternKind:
    level = activity.utilization_ratio
    if activity.minutes < MIN_MINUTES or not activity.runs or level is None:
        return PatternKind.UNCLEAR
    active_ratio = activity.active_minutes / activity.minutes
    if (activity.run_longest_minutes or 0) >= t.gap_minutes <= (activity.gap_longest_minutes or 0):
        return PatternKind.GAPS_BETWEEN_RUNS
    short = (activity.run_median_minutes or 0.0) <= t.burst_minutes
    if activity.runs >= MIN_BURSTS and short and active_ratio <= 0.5:
        return PatternKind.ANALYSIS_BURSTS
    if level < LOW_RATIO and not _is_on_engines(activity):
        return PatternKind.LOW_SATURATION
    if activity.edge_longest_minutes >= t.gap_minutes:  # it may never have come back, or has only just begun
        return PatternKind.UNCLEAR
    if _is_on_engines(activity):
        return PatternKind.STEADY
    if active_ratio >= t.steady_active_ratio and level >= SATURATED_RATIO:
        return PatternKind.SATURATED
    return PatternKind.STEADY


def _is_on_engines(activity: Activity) -> bool:
    return activity.engine_minutes >= ENGINES_RATIO * activity.active_minutes


def _evidence(activity: Activity) -> tuple[Evidence, ...]:
    ratio = activity.active_minutes / activity.minutes if activity.minutes else None
    return (
        Evidence(name="coverage_ratio", value=_coverage(activity)),
        Evidence(name="minutes", value=activity.minutes),
        Evidence(name="active_ratio", value=ratio),
        Evidence(name="utilization_active_mean_ratio", value=activity.utilization_ratio),
        Evidence(name="on_engines", value=_is_on_engines(activity) if activity.active_minutes else None),
        Evidence(name="runs", value=activity.runs),
        Evidence(name="run_median_minutes", value=activity.run_median_minutes),
        Evidence(name="run_longest_minutes", value=activity.run_longest_minutes),
        Evidence(name="gap_median_minutes", value=activity.gap_median_minutes),
        Evidence(name="gap_longest_minutes", value=activity.gap_longest_minutes),
        Evidence(name="edge_longest_minutes", value=activity.edge_longest_minutes),
    )

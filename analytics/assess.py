"""Reads the recent past by named queries and has it judged. No clock: ``now`` is an argument.

Blocks while it reads; changes nothing in the store. Whoever runs it each minute keeps what it says with
``Store.write_judgement``, as the rows that ``finding_rows``, ``pattern_rows`` and ``unjudged_rows`` make.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Any

from analytics.findings import judge, judge_jobs
from analytics.findings.hang import without_hung
from analytics.findings.lost import with_node_errors
from analytics.findings.unknown_part import with_unknown_parts
from analytics.findings.unproven import unproven_claims
from analytics.findings.window import stale
from analytics.gpu_pasts import Claims, Moment, holder_of, read_pasts
from analytics.model import (
    BIN_MS,
    Activity,
    Analysis,
    Coverage,
    Finding,
    GpuPast,
    Pattern,
)
from analytics.profiles import pattern_of
from analytics.query import Connection, run
from analytics.thresholds import Thresholds

MINUTE_MS = 60_000
Row = Mapping[str, Any]


def assess(connection: Connection, now_ms: int, thresholds: Thresholds, tick_ms: int = 10_000) -> Analysis:
    """What is to be said of every GPU and holder at ``now_ms``, from what was stored up to then."""
    judged = _judged(connection, now_ms, thresholds, tick_ms)
    return replace(judged, patterns=patterns(connection, now_ms, thresholds))


def assess_jobs(
    connection: Connection,
    at_ms: int,
    jobs: Collection[str],
    thresholds: Thresholds,
    *,
    tick_ms: int,
    held_at: Callable[[int], Claims],
) -> tuple[Finding, ...]:
    """What was to be said of some jobs, and of the GPUs that they held, just before ``at_ms`` in the past.

    Who held them until then is judged, by all that was measured up to then, a row that ends then included.
    ``held_at``: ``claims_at`` of this connection, which may remember: who judges many moments asks often.
    """
    return _judged(connection, at_ms, thresholds, tick_ms, jobs=jobs, held_at=held_at).findings


def _judged(
    connection: Connection,
    now_ms: int,
    t: Thresholds,
    tick_ms: int,
    *,
    jobs: Collection[str] | None = None,
    held_at: Callable[[int], Claims] | None = None,
) -> Analysis:
    end_ms = now_ms // BIN_MS * BIN_MS
    from_ms = end_ms - _lookback_ms(t)
    held_ms = now_ms if jobs is None else now_ms - 1
    at = Moment(now_ms=held_ms, seen_ms=now_ms, from_ms=from_ms, end_ms=end_ms, tick_ms=tick_ms)
    pasts = read_pasts(connection, at, t, jobs, held_at)
    verdicts = with_node_errors(pasts, [judge(past, now_ms, t, tick_ms) for past in pasts])
    dearest = (
        sorted(verdict.findings, key=lambda each: -(each.wasted_gpu_hours or 0.0)) for verdict in verdicts
    )
    by_gpu = (finding for findings in dearest for finding in findings)
    by_use = without_hung((*judge_jobs(pasts, verdicts, t), *by_gpu))
    return Analysis(
        as_of_ms=now_ms,
        window_from_ms=from_ms,
        coverage=_coverage(pasts, now_ms, t, tick_ms),
        findings=(*unproven_claims(pasts), *with_unknown_parts(pasts, verdicts, by_use)),
        unknown=tuple(entry for verdict in verdicts for entry in verdict.unknown),
        starting=tuple(entry for verdict in verdicts for entry in verdict.starting),
    )


def patterns(connection: Connection, now_ms: int, thresholds: Thresholds) -> tuple[Pattern, ...]:
    """How each holder has worked over the pattern window that ends with the newest whole minute."""
    to_ms = now_ms // MINUTE_MS * MINUTE_MS
    window = {"from_ts": to_ms - thresholds.pattern_window_s * 1000, "to_ts": to_ms}
    rows = run(connection, "activity", window).to_pylist()
    return tuple(pattern_of(_activity(row), thresholds) for row in rows)


def finding_rows(analysis: Analysis) -> tuple[dict[str, object], ...]:
    """The findings as ``Store.write_judgement`` takes them."""
    return tuple(map(finding_row, analysis.findings))


def finding_row(finding: Finding) -> dict[str, object]:
    """One finding as the store takes it."""
    return {
        "kind": finding.kind.value,
        "uuid": finding.uuid,
        "job": None if finding.holder is None else finding.holder.job,
        "window_from_ms": finding.window_from_ms,
        "window_to_ms": finding.window_to_ms,
        "coverage": finding.coverage,
        "rung": int(finding.rung),
        "wasted_gpu_hours": finding.wasted_gpu_hours,
        "sentence": finding.sentence,
        "evidence": {"since_ms": finding.since_ms, **{e.name: e.value for e in finding.evidence}},
    }


def pattern_rows(analysis: Analysis, thresholds: Thresholds) -> tuple[dict[str, object], ...]:
    """The patterns as ``Store.write_judgement`` takes them."""
    to_ms = analysis.as_of_ms // MINUTE_MS * MINUTE_MS
    return tuple(
        {
            "job": pattern.holder.job,
            "kind": pattern.kind.value,
            "window_from_ms": to_ms - thresholds.pattern_window_s * 1000,
            "window_to_ms": to_ms,
            "evidence": {e.name: e.value for e in pattern.evidence},
            "reason": pattern.reason,
        }
        for pattern in analysis.patterns
    )


def unjudged_rows(analysis: Analysis) -> tuple[dict[str, object], ...]:
    """What was not judged as ``Store.write_judgement`` takes it: unknown and why, and who is starting."""
    unknown: list[dict[str, object]] = [
        {
            "uuid": entry.uuid,
            "job": None,
            "verdict": "unknown",
            "kinds": [kind.value for kind in entry.kinds],
            "reason": entry.reason,
        }
        for entry in analysis.unknown
    ]
    starting: list[dict[str, object]] = [
        {
            "uuid": entry.uuid,
            "job": entry.holder.job,
            "verdict": "starting",
            "kinds": [],
            "reason": _grace_left(entry.until_ms - analysis.as_of_ms),
        }
        for entry in analysis.starting
    ]
    return (*unknown, *starting)


def _grace_left(left_ms: int) -> str:
    return f"starting up: {max(0, left_ms) // MINUTE_MS} min of its grace left"


def _lookback_ms(t: Thresholds) -> int:
    windows = (t.idle_window_s, t.empty_window_s, t.low_lookback_s, t.hog_window_s, t.fault_window_s)
    return max(windows) * 1000 // BIN_MS * BIN_MS


def _coverage(pasts: list[GpuPast], now_ms: int, t: Thresholds, tick_ms: int) -> Coverage:
    bins = sum(len(past.bins.covered) for past in pasts)
    covered = sum(sum(past.bins.covered) for past in pasts)
    silent = sum(stale(past, now_ms, t, tick_ms) is not None for past in pasts)
    return Coverage(ratio=covered / bins if bins else 0.0, gpus=len(pasts), silent_gpus=silent)


def _activity(row: Row) -> Activity:
    return Activity(
        holder=holder_of(row),
        held_gpu_minutes=row["held_gpu_minutes"],
        measured_gpu_minutes=row["measured_gpu_minutes"],
        minutes=row["minutes"],
        active_minutes=row["active_minutes"],
        runs=row["runs"],
        run_median_minutes=row["run_median_minutes"],
        run_longest_minutes=row["run_longest_minutes"],
        gap_median_minutes=row["gap_median_minutes"],
        gap_longest_minutes=row["gap_longest_minutes"],
        edge_longest_minutes=row["edge_longest_minutes"],
        utilization_ratio=row["utilization_ratio"],
        engine_minutes=row["engine_minutes"],
        suspect_gpu_minutes=row["suspect_gpu_minutes"],
    )

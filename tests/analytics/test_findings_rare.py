"""Rarely used: activity that recurs and is thin, told from idle on one side and from work on the other."""

import pytest

from analytics.findings import judge
from analytics.model import Finding, FindingKind, Rhythm
from analytics.thresholds import Thresholds
from collector.model import JobKind
from tests.analytics.pasts import (
    BINS,
    HOUR_MS,
    MINUTE_MS,
    NOON_MS,
    TICK_MS,
    bins,
    claim,
    minutes_before_noon,
    past,
    then,
)

T = Thresholds()


def said(
    busy_minutes: float, spells: int, *, active_min_ago: float = 20, hours: float = 24.0
) -> tuple[Finding, ...]:
    rhythm = Rhythm(
        active_until_ms=minutes_before_noon(active_min_ago),
        known_since_ms=round(active_min_ago * MINUTE_MS),
        silence_p90_ms=2 * HOUR_MS,
        known_ms=round(min(hours, 24.0) * HOUR_MS),
        busy_ms=round(busy_minutes * MINUTE_MS),
        spells=spells,
        silence_longest_ms=3 * HOUR_MS,
        busy_ratio=0.6,
        idle_gpu_hours=22.6,
    )
    served = claim(hours, kind=JobKind.INFERENCE, rhythm=rhythm)
    quiet = round(active_min_ago * 2)
    levels = then((BINS - quiet, 0.3), (quiet, 0.0)) if quiet < BINS else 0.0
    return judge(past(served, bins=bins(utilization=levels)), NOON_MS, T, TICK_MS).findings


@pytest.mark.parametrize(
    ("busy", "spells", "hours", "rare"),
    [
        (84, 12, 24, True),
        (144, 12, 24, True),  # exactly a tenth of 24 h
        (145, 12, 24, False),
        (84, 2, 24, False),  # it came back once: not known to recur
        (24, 5, 4, True),  # a tenth of a life of four hours
        (20, 5, 3.9, False),  # too short a life
    ],
)
def test_recurring_thin_activity_is_rarely_used(busy: float, spells: int, hours: float, rare: bool) -> None:
    found = {finding.kind for finding in said(busy, spells, hours=hours)}
    assert (FindingKind.RARELY_USED in found) is rare
    assert FindingKind.HELD_IDLE not in found


def test_it_tells_its_busy_minutes_and_longest_silence_and_no_pause() -> None:
    (finding,) = [each for each in said(84, 12) if each.kind is FindingKind.RARELY_USED]
    assert "for 1 h 24 min in all since" in finding.sentence
    assert "in 12 spells (5.8% of the time" in finding.sentence
    assert "its longest silence was 3 h" in finding.sentence
    assert "pause" not in finding.sentence
    assert finding.wasted_gpu_hours == 22.6


def test_silence_beyond_its_own_window_is_idle_and_no_longer_rare() -> None:
    kinds = [finding.kind for finding in said(84, 12, active_min_ago=121)]
    assert kinds == [FindingKind.HELD_IDLE]

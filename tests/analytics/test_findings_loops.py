"""Crash loops that compute for a moment at each try, and what looks like them."""

from typing import Any

import pytest

from analytics.findings import judge
from analytics.model import FindingKind, Rhythm
from analytics.thresholds import Thresholds
from collector.model import JobKind
from tests.analytics.pasts import NOON_MS, TICK_MS, bins, claim, past

T = Thresholds()
HOUR_MS = 3_600_000


def kinds(hours: float = 10.0, kind: JobKind = JobKind.BATCH, **changes: Any) -> list[FindingKind]:
    """60 tries in six hours of half a minute's work, each gone within two minutes."""
    busy = Rhythm(
        active_until_ms=NOON_MS - 120_000,
        known_ms=10 * HOUR_MS,
        busy_ms=changes.pop("busy_ms", 100 * 60_000),
        spells=1,
        busy_ratio=0.5,
        idle_gpu_hours=8.3,
    )
    values: dict[str, Any] = {"processes_started": 60, "longest_life_ms": 90_000, "rhythm": busy}
    job = claim(hours, kind=kind, **(values | changes))
    return [each.kind for each in judge(past(job, bins=bins()), NOON_MS, T, TICK_MS).findings]


def test_half_a_minute_of_steps_at_each_try_is_a_crash_loop() -> None:
    assert FindingKind.CRASH_LOOP in kinds()


@pytest.mark.parametrize(
    "changes",
    [
        {"processes_started": 23},
        {"longest_life_ms": 301_000},
        {"longest_life_ms": None},
        {"busy_ms": 151 * 60_000},
        {"hours": 5.9},
        {"kind": JobKind.INTERACTIVE},
    ],
    ids=[
        "hourly work",
        "lives that do something",
        "no process seen",
        "a sweep",
        "not yet six hours",
        "a person",
    ],
)
def test_what_looks_like_a_crash_loop_is_none(changes: dict[str, Any]) -> None:
    assert FindingKind.CRASH_LOOP not in kinds(**changes)


def test_its_sentence_says_how_often_and_how_long() -> None:
    job = claim(
        processes_started=60,
        longest_life_ms=119_000,
        rhythm=Rhythm(known_ms=10 * HOUR_MS, busy_ms=60_000, spells=1, idle_gpu_hours=8.3),
    )
    (loop,) = [
        each
        for each in judge(past(job, bins=bins()), NOON_MS, T, TICK_MS).findings
        if each.kind is FindingKind.CRASH_LOOP
    ]
    assert "60 of its processes started within the last 6 h, of which none lived for 2 min" in loop.sentence
    assert loop.wasted_gpu_hours == 8.3

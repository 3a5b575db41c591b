"""Rarely used: activity that recurs and is thin, told from idle on one side and from work on the other."""

from dataclasses import replace

import pytest

from analytics.findings import judge
from analytics.model import Finding, FindingKind, Rhythm
from analytics.thresholds import Thresholds
from analytics.vocabulary.findings import KINDS, UNKNOWN_GPUS
from collector.model import Basis, JobKind
from tests.analytics.pasts import (
    BINS,
    GIB,
    HOUR_MS,
    MINUTE_MS,
    NOON_MS,
    TICK_MS,
    bins,
    claim,
    fresh,
    minutes_before_noon,
    past,
    then,
)

T = Thresholds()


def said(
    busy_minutes: float,
    spells: int,
    *,
    active_min_ago: float = 20,
    hours: float = 24.0,
    begins: int = 0,
    spells_hours: float = 0.0,
) -> tuple[Finding, ...]:
    rhythm = Rhythm(
        active_until_ms=minutes_before_noon(active_min_ago),
        known_since_ms=round(active_min_ago * MINUTE_MS),
        silence_p90_ms=2 * HOUR_MS,
        known_ms=round(min(hours, 24.0) * HOUR_MS),
        busy_ms=round(busy_minutes * MINUTE_MS),
        spells=spells,
        spells_ms=round(spells_hours * HOUR_MS),
        begins=begins,
        silence_longest_ms=3 * HOUR_MS,
        busy_ratio=0.2,
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
    kinds = [finding.kind for finding in said(84, 12, active_min_ago=135)]
    assert kinds == [FindingKind.HELD_IDLE]


@pytest.mark.parametrize(
    ("busy_bins", "begins", "spells_hours", "rare"),
    [
        # 15 s each 7 min: 205 times a day, in 1.5 bins of 30 s on average. 51 min, 3.6%.
        (205 * 1.5 / 2, 205, 24, True),
        (33 * 1.5 / 2, 33, 3.9, False),  # the same, for under four hours yet
        # 2 min each 6 min: 240 times a day, in five bins on average. A third of the time.
        (240 * 5 / 2, 240, 24, False),
        # A day of quiet, then four hours in which 100 s of 240 are work: 60 times, in 4.33 bins. 42% of them.
        (60 * 4.33 / 2, 60, 4, False),
        # Three quarters of an hour of short cells: 14 times, in 1.4 bins. Nobody comes back yet.
        (14 * 1.4 / 2, 14, 0.75, False),
        (14 * 1.4 / 2, 14, 4, True),  # the same over four hours
        (24, 1, 24, False),  # it began once
    ],
)
def test_what_comes_back_within_ten_minutes_is_rare_when_it_is_thin_for_hours(
    busy_bins: float, begins: int, spells_hours: float, rare: bool
) -> None:
    found = {
        finding.kind
        for finding in said(busy_bins, 1, active_min_ago=4, begins=begins, spells_hours=spells_hours)
    }
    assert (FindingKind.RARELY_USED in found) is rare


def test_its_busy_time_is_that_of_the_work_and_not_of_the_bins_that_it_touches() -> None:
    (finding,) = [
        each
        for each in said(205 * 1.5 / 2, 1, active_min_ago=4, begins=205, spells_hours=24)
        if each.kind is FindingKind.RARELY_USED
    ]
    numbers = {each.name: each.value for each in finding.evidence}
    assert numbers["busy_minutes"] == pytest.approx(205 * 15 / 60, abs=0.1)
    assert (numbers["busy_least_minutes"], numbers["busy_most_minutes"]) == (51.2, 153.8)
    assert "for 51 min to 2 h 33 min in all" in finding.sentence
    assert "in 205 spells (3.6% to 11% of the time" in finding.sentence


@pytest.mark.parametrize(
    ("rows", "level", "begins", "span", "part"),
    [
        # A row a minute, at 30%: 18 s of kernels without a pause, or a minute of thin work.
        ((16, 60), 0.3, 16, "4 min to 16 min", "0.3% to 1.1%"),
        # Spells of four rows of 30 s at 60%: 1.5 min of work that began within a row, or all two.
        ((116, 30), 0.6, 29, "43 min to 58 min", "3.0% to 4.0%"),
        # The same, with rows that are full: they cannot have worked for less.
        ((116, 30), 1.0, 29, "58 min", "4.0%"),
    ],
)
def test_what_rows_leave_open_is_told_as_least_and_most(
    rows: tuple[int, int], level: float, begins: int, span: str, part: str
) -> None:
    count, width_s = rows
    rhythm = Rhythm(
        active_until_ms=minutes_before_noon(20),
        known_since_ms=20 * MINUTE_MS,
        silence_p90_ms=2 * HOUR_MS,
        known_ms=24 * HOUR_MS,
        busy_ms=count * width_s * 1000,
        spells=begins,
        begins=begins,
        silence_longest_ms=3 * HOUR_MS,
        busy_ratio=level,
    )
    held = past(
        claim(24.0, kind=JobKind.INFERENCE, rhythm=rhythm),
        bins=bins(utilization=then((BINS - 40, 0.3), (40, 0.0))),
    )
    held = replace(held, newest_width_ms=width_s * 1000)
    (finding,) = judge(held, NOON_MS, T, TICK_MS).findings
    assert f"for {span} in all since" in finding.sentence
    assert f"in {begins} spells ({part} of the time" in finding.sentence
    numbers = {each.name: each.value for each in finding.evidence}
    assert numbers["busy_most_minutes"] == count * width_s / 60
    assert numbers["busy_least_minutes"] <= numbers["busy_minutes"] <= numbers["busy_most_minutes"]


NO_SCALE = (JobKind.BATCH, JobKind.INTERACTIVE)


@pytest.mark.parametrize("kept", [9 * GIB, 70 * GIB, None])
@pytest.mark.parametrize("kind", [*JobKind, None])
def test_only_what_may_serve_is_told_to_scale_to_zero(kind: JobKind | None, kept: int | None) -> None:
    """A batch job that is scaled down is lost, and nobody calls for a terminal."""
    served = Rhythm(
        active_until_ms=minutes_before_noon(20),
        known_ms=24 * HOUR_MS,
        busy_ms=84 * MINUTE_MS,
        spells=12,
        silence_p90_ms=2 * HOUR_MS,
        busy_ratio=0.2,
    )
    faint = replace(served, spells=0, busy_ms=0, active_until_ms=minutes_before_noon(0))
    for rhythm, levels in ((served, then((BINS - 40, 0.3), (40, 0.0))), (faint, 0.005)):
        held = claim(24.0, kind=kind, rhythm=rhythm)
        there = past(held, bins=bins(utilization=levels, memory_bytes=kept), rung=Basis.SM_ACTIVE)
        (found,) = [
            each
            for each in judge(there, NOON_MS, T, TICK_MS).findings
            if each.kind is FindingKind.RARELY_USED
        ]
        evidence = {each.name: each.value for each in found.evidence}
        kind_name = None if kind is None else kind.value
        open_ones = [KINDS[found.kind].remedy_for(kind_name, evidence)]
        open_ones.append(KINDS[found.kind].remedy_for(kind_name, evidence | {UNKNOWN_GPUS: "GPU 1 of n1"}))
        for said_of_it in (found.sentence, *open_ones):
            assert ("to zero" in said_of_it) <= (kind not in NO_SCALE), (kind, said_of_it)
        assert ("to zero" in found.sentence) is (kind not in NO_SCALE)
        assert ("of a server" in found.sentence) is (kind is None)


def test_a_value_of_an_instant_is_not_made_less_than_its_mean() -> None:
    # 90 s each 10 min at 90%, read as an instant each 30 s: three bins each. 13% of the time, and no less.
    rhythm = Rhythm(known_ms=24 * HOUR_MS, busy_ms=144 * 90_000, begins=144, spells=144, busy_ratio=0.9)
    rhythm = replace(rhythm, active_until_ms=minutes_before_noon(4), idle_gpu_hours=20.0)
    held = claim(24.0, kind=JobKind.BATCH, rhythm=rhythm)
    levels = then((BINS - 8, 0.3), (8, 0.0))
    verdict = judge(past(held, bins=bins(utilization=levels)), NOON_MS, T, TICK_MS)
    assert FindingKind.RARELY_USED not in {each.kind for each in verdict.findings}


EACH_OTHER = (0.004, 0.0) * (BINS // 2)
THIRD = (0.004, 0.0, 0.0) * (BINS // 3)
TICKS = (0.004, *(0.0,) * 9) * (BINS // 10)
"""One bin in ten: ticks that pass."""


@pytest.mark.parametrize(
    ("levels", "rung", "kind", "said"),
    [
        # 0.2 s of work in each 40 s is 0.5% of a counter of cycles that stands at 0 on a GPU at rest.
        (0.005, Basis.SM_ACTIVE, FindingKind.RARELY_USED, "uses next to nothing of it: 0.5% SM active"),
        (EACH_OTHER, Basis.SM_ACTIVE, FindingKind.RARELY_USED, "uses next to nothing of it: 0.2% SM active"),
        (THIRD, Basis.SM_ACTIVE, FindingKind.RARELY_USED, "uses next to nothing of it: 0.1% SM active"),
        (TICKS, Basis.SM_ACTIVE, FindingKind.HELD_IDLE, "have done next to nothing on it for"),
        (0.00009, Basis.SM_ACTIVE, FindingKind.HELD_IDLE, "have done next to nothing on it for"),
        (0.0, Basis.SM_ACTIVE, FindingKind.HELD_IDLE, "have done nothing on it for"),
        # GPU utilization of whole percents may be the reading itself; the graphics engine draws a desktop.
        (0.005, Basis.GPU_UTILIZATION, FindingKind.HELD_IDLE, "have done next to nothing on it for"),
        (0.005, Basis.GRAPHICS_ACTIVE, FindingKind.HELD_IDLE, "have done next to nothing on it for"),
    ],
)
@pytest.mark.parametrize("job", [JobKind.BATCH, JobKind.INFERENCE, JobKind.INTERACTIVE])
def test_sms_at_work_in_most_bins_are_use_however_little(
    levels: object, rung: Basis, kind: FindingKind, said: str, job: JobKind
) -> None:
    day = Rhythm(known_since_ms=10 * HOUR_MS, known_ms=10 * HOUR_MS, idle_gpu_hours=10.0)
    held = claim(10, kind=job, rhythm=day)
    gpu = past(held, bins=bins(utilization=levels, gpu_utilization=0.008), rung=rung)
    (finding,) = judge(gpu, NOON_MS, T, TICK_MS).findings
    assert finding.kind is kind
    assert said in finding.sentence
    assert finding.wasted_gpu_hours == (10.0 if kind is FindingKind.RARELY_USED else 2.0)


@pytest.mark.parametrize("busy_hours", [0, 1, 3])
def test_who_works_a_little_now_is_not_idle_after_more_work_either(busy_hours: int) -> None:
    day = Rhythm(active_until_ms=NOON_MS - 3 * HOUR_MS, known_ms=10 * HOUR_MS, busy_ms=busy_hours * HOUR_MS)
    gpu = past(claim(10, rhythm=day), bins=bins(utilization=0.005))
    found = [finding.kind for finding in judge(gpu, NOON_MS, T, TICK_MS).findings]
    assert found == ([FindingKind.RARELY_USED] if busy_hours <= 1 else [])  # a tenth of ten hours


def test_an_hour_of_nothing_after_work_of_a_little_is_idle() -> None:
    gpu = past(claim(10), bins=bins(utilization=then((BINS - 120, 0.005), (120, 0.0))))
    assert [each.kind for each in judge(gpu, NOON_MS, T, TICK_MS).findings] == [FindingKind.HELD_IDLE]


def test_a_job_that_never_filled_a_bin_is_not_said_to_sleep_while_its_sms_work() -> None:
    day = Rhythm(known_ms=10 * HOUR_MS, idle_gpu_hours=10.0)
    gpu = past(fresh(10, rhythm=day), bins=bins(utilization=EACH_OTHER))
    assert [each.kind for each in judge(gpu, NOON_MS, T, TICK_MS).findings] == [FindingKind.RARELY_USED]

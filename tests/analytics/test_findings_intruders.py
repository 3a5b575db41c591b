"""Processes on GPUs that others were given: told in themselves, and nobody else is judged by what they do."""

from typing import Any

import pytest

from analytics.findings import judge
from analytics.model import FindingKind, GpuPast, Intruder, Verdict
from analytics.sharing import own_bins
from analytics.thresholds import Thresholds
from tests.analytics.pasts import (
    BINS,
    GIB,
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


def judged(gpu: GpuPast) -> Verdict:
    return judge(gpu, NOON_MS, T, TICK_MS)


def stranger(minutes: float, until: float | None = None, **changes: Any) -> Intruder:
    """ben's python, on the GPU since so many minutes before noon, until then if it left."""
    values: dict[str, Any] = {
        "pid": 4242,
        "user": "ben",
        "name": "python",
        "command": "python mine.py",
        "memory_used_bytes": 12 * GIB,
        "sm_ratio": 0.5,
    }
    to_ms = None if until is None else minutes_before_noon(until)
    return Intruder(from_ms=minutes_before_noon(minutes), to_ms=to_ms, **(values | changes))


def test_intruder_is_told_with_whose_it_is_and_whose_the_gpu_is() -> None:
    (finding,) = judged(past(claim(), bins=bins(utilization=0.6), intruders=(stranger(25),))).findings
    assert finding.kind is FindingKind.INTRUDER
    assert finding.holder is not None and finding.holder.user == "amara"
    assert finding.sentence == (
        "GPU 3 of node1 was given to amara (job sweep), and ben's python (pid 4242) has been on it for "
        "25 min, with 12 GiB of its memory: nothing ties it to what was given."
    )
    assert {e.name: e.value for e in finding.evidence} == {
        "processes": 1,
        "user": "ben",
        "pid": "4242",
        "command": "python mine.py",
        "memory_used_bytes": 12 * GIB,
        "gpu_time_ratio": 0.5,
    }
    assert (finding.since_ms, finding.wasted_gpu_hours) == (minutes_before_noon(25), None)


@pytest.mark.parametrize(("minutes", "told"), [(5, True), (4.9, False)])
def test_a_short_visit_is_no_finding(minutes: float, told: bool) -> None:
    found = judged(past(claim(), bins=bins(utilization=0.6), intruders=(stranger(minutes),))).findings
    assert bool(found) == told


def restarting(gap: float, **changes: Any) -> tuple[Intruder, ...]:
    """A program that starts anew every four minutes, with so many minutes between; the newest is there."""
    starts = (30.0, 26.0, 22.0, 18.0, 14.0, 10.0, 6.0, 2.0)
    return tuple(
        stranger(at, until=None if at == starts[-1] else at - 4 + gap, pid=n, **changes)
        for n, at in enumerate(starts)
    )


@pytest.mark.parametrize("whose", [{"uid": 1007}, {"uid": 1007, "user": None}, {"user": "ben"}])
def test_an_intruder_that_starts_anew_has_been_there_since_it_first_came(whose: dict[str, Any]) -> None:
    gpu = past(claim(), bins=bins(utilization=0.6), intruders=restarting(0.5, **whose))
    (finding,) = judged(gpu).findings
    assert (finding.kind, finding.since_ms) == (FindingKind.INTRUDER, minutes_before_noon(30))
    assert "(pid 7) has been on it for 30 min, in 8 processes that came one after another" in finding.sentence
    evidence = {each.name: each.value for each in finding.evidence}
    assert (evidence["processes"], evidence["processes_since"]) == (1, 8)


@pytest.mark.parametrize(
    "visits",
    [
        restarting(2.0),
        restarting(0.5, user=None),
        (stranger(20, until=3, uid=1), stranger(3, uid=2, pid=7)),
    ],
    ids=["away too long", "nobody knows whose", "two persons"],
)
def test_short_visits_that_nothing_joins_are_no_finding(visits: tuple[Intruder, ...]) -> None:
    assert judged(past(claim(), bins=bins(utilization=0.6), intruders=visits)).findings == ()


def test_an_intruder_that_left_is_no_finding() -> None:
    gpu = past(claim(), bins=bins(utilization=0.6), intruders=(stranger(60, until=1),))
    assert judged(gpu) == Verdict()


def test_several_are_told_together_and_the_crowd_is_counted() -> None:
    crowd = tuple(stranger(10 + n, pid=n, user=None if n == 1 else "ben") for n in range(5))
    (finding,) = judged(past(claim(), bins=bins(utilization=0.6), intruders=crowd)).findings
    assert "ben's python (pid 0), somebody's python (pid 1), ben's python (pid 2) and 2 more have" in (
        finding.sentence
    )


@pytest.mark.parametrize(
    ("gpu", "kind"),
    [
        (past(claim(), bins=bins(utilization=0.1)), FindingKind.LOW_SATURATION),
        (past(claim(), bins=bins(utilization=0.2, memory_bytes=70 * GIB)), FindingKind.MEMORY_HOG),
    ],
)
def test_holder_is_not_judged_by_what_an_intruder_did(gpu: GpuPast, kind: FindingKind) -> None:
    assert kind in {finding.kind for finding in judged(gpu).findings}, "without an intruder it is found"
    values = {name: getattr(gpu, name) for name in gpu.__slots__}
    intruded = judged(GpuPast(**(values | {"intruders": (stranger(45, until=2),)})))
    assert intruded.findings == ()
    (unknown,) = intruded.unknown
    assert kind in unknown.kinds
    assert unknown.reason.startswith("a process that is not its holder's was on it")


ACCOMPLICE = stranger(200, sm_ratio=0.0)
TOUCHED = then(*[(9, 0.0), (1, 0.4)] * 24)


@pytest.mark.parametrize("visit", [stranger(1), stranger(45, until=2), ACCOMPLICE])
def test_a_process_that_sits_on_an_idle_gpu_hides_nobody(visit: Intruder) -> None:
    gpu = past(claim(), bins=bins(utilization=0.0), intruders=(visit,))
    assert FindingKind.HELD_IDLE in {finding.kind for finding in judged(gpu).findings}


def test_an_empty_gpu_with_an_idle_intruder_is_found_too() -> None:
    gpu = past(fresh(7), bins=bins(utilization=0.0), intruders=(ACCOMPLICE,))
    assert FindingKind.SLEEPING_BATCH in {finding.kind for finding in judged(gpu).findings}


def test_work_that_nobody_tells_from_an_intruder_s_is_unknown() -> None:
    verdict = judged(past(claim(), bins=bins(utilization=TOUCHED), intruders=(ACCOMPLICE,)))
    assert FindingKind.HELD_IDLE not in {finding.kind for finding in verdict.findings}
    assert any(
        FindingKind.HELD_IDLE in each.kinds and each.reason.startswith("a process that is not its holder's")
        for each in verdict.unknown
    )


def test_one_bin_that_may_be_the_holder_s_is_enough_for_unknown() -> None:
    once = then((BINS - 10, 0.0), (1, 0.4), (9, 0.0))
    verdict = judged(past(claim(), bins=bins(utilization=once), intruders=(ACCOMPLICE,)))
    assert FindingKind.HELD_IDLE not in {finding.kind for finding in verdict.findings}


@pytest.mark.parametrize(("part", "told"), [(0.0, True), (1.0, False)])
def test_work_that_is_told_apart_is_judged_by_the_holder_s_own(part: float, told: bool) -> None:
    whole = bins(utilization=TOUCHED)
    own = own_bins(whole, {at: part for at, value in enumerate(TOUCHED) if value})
    gpu = past(claim(bins=own), bins=whole, intruders=(ACCOMPLICE,))
    assert (FindingKind.HELD_IDLE in {finding.kind for finding in judged(gpu).findings}) == told


def test_work_without_an_intruder_there_is_the_holder_s() -> None:
    worked = then((BINS - 60, 0.0), (20, 0.5), (40, 0.0))
    whole = bins(utilization=worked)
    own = own_bins(whole, {BINS - 1: 0.0})
    for mine in (claim(), claim(bins=own)):
        verdict = judged(past(mine, bins=whole, intruders=(stranger(10),)))
        assert FindingKind.HELD_IDLE not in {finding.kind for finding in verdict.findings}
        assert FindingKind.HELD_IDLE not in {kind for each in verdict.unknown for kind in each.kinds}


@pytest.mark.parametrize(("hours", "told"), [(5, False), (7, True)])
def test_a_job_has_not_begun_by_what_an_intruder_did(hours: int, told: bool) -> None:
    began = minutes_before_noon(180)
    gpu = past(
        claim(hours, first_used_ms=began, busy_until_ms=began),
        bins=bins(utilization=0.0),
        intruders=(stranger(185, until=150),),
    )
    assert (FindingKind.HELD_IDLE in {finding.kind for finding in judged(gpu).findings}) == told


def test_holder_is_judged_again_when_the_window_is_the_holder_s_own() -> None:
    gpu = past(claim(), bins=bins(utilization=0.0), intruders=(stranger(300, until=61),))
    assert {finding.kind for finding in judged(gpu).findings} == {FindingKind.HELD_IDLE}


def test_thin_data_make_an_intruder_unknown() -> None:
    holes = then((BINS - 1, True), (1, False))
    verdict = judged(past(claim(), bins=bins(utilization=0.6, covered=holes), intruders=(stranger(25),)))
    assert verdict.findings == ()
    assert [(entry.kinds, entry.reason) for entry in verdict.unknown] == [
        ((FindingKind.INTRUDER,), "only 90% of the last 5 min were measured")
    ]

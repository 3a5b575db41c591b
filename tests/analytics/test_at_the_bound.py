"""Who is exactly at a bound of docs/findings.md is told what "at least", "at most" and "under" say there.

Levels are as they come from the store: 32-bit floats, in which 0.9 is a little less than 0.9 and 0.6 a
little more, and means of them.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from struct import pack, unpack
from typing import Any

import pytest

from analytics.findings import judge, judge_jobs
from analytics.findings.hang import looks_stuck
from analytics.job_verdict import verdict
from analytics.model import FindingKind, GpuPast, Rhythm
from analytics.thresholds import Thresholds
from collector.model import Basis, GpuUuid, JobKind
from tests.analytics.pasts import BINS, GIB, HOUR_MS, NOON_MS, TICK_MS, bins, claim, past, then

T = Thresholds()
KIND = FindingKind


def stored(value: float) -> float:
    """As a column of 32-bit floats has it."""
    result: float = unpack("f", pack("f", value))[0]
    return result


def kinds(*pasts: GpuPast) -> set[FindingKind]:
    verdicts = [judge(each, NOON_MS, T, TICK_MS) for each in pasts]
    found = {each.kind for each in judge_jobs(pasts, verdicts, T)}
    return found | {each.kind for verdict in verdicts for each in verdict.findings}


def straggler(few: float, rest: float) -> set[FindingKind]:
    """Three GPUs on which kernels run for ``rest`` of the time, one for ``few``."""
    job = claim(8.0, busy_until_ms=NOON_MS)
    return kinds(
        *(
            past(
                job,
                uuid=GpuUuid(f"GPU-{place}"),
                gpu_index=place,
                bins=bins(gpu_utilization=stored(level), busiest=stored(level), utilization=stored(0.5)),
            )
            for place, level in enumerate((rest, rest, rest, few))
        )
    )


def by_sms(few: float, rest: float, kernels: float) -> set[FindingKind]:
    """The same by the SMs, where kernels run for so much of the time on all of them."""
    job = claim(8.0, busy_until_ms=NOON_MS)
    return kinds(
        *(
            past(
                job,
                uuid=GpuUuid(f"GPU-{place}"),
                gpu_index=place,
                bins=bins(
                    gpu_utilization=stored(kernels), busiest=stored(kernels), utilization=stored(level)
                ),
            )
            for place, level in enumerate((rest, rest, rest, few))
        )
    )


def low(level: float, share: float = 1.0, day: float | None = None) -> set[FindingKind]:
    job = claim(8.0, share=share, rhythm=Rhythm(busy_ratio=day, busy_ms=HOUR_MS))
    return kinds(past(job, bins=bins(utilization=stored(level), busiest=0.9, gpu_utilization=0.9)))


def hog(memory: float = 0.9, level: float = 0.1, controller: float = 0.02) -> set[FindingKind]:
    total = 80 * GIB
    columns: dict[str, Any] = {"utilization": stored(level), "memory_controller": stored(controller)}
    taken = int(memory * total)
    return kinds(past(claim(8.0), memory_total_bytes=total, bins=bins(memory_bytes=taken, **columns)))


def hung(
    kernels: float = 1.0,
    level: float = 0.1,
    controller: float = 0.02,
    power: float = 0.2,
    spread: float = 0.0,
) -> bool:
    """One GPU's newest hour; its power is so much of its limit, and its bins lie so far apart."""
    mean_mw = power * 700_000
    half = round(spread * mean_mw / 2)
    mw = tuple(round(mean_mw) + (half if place % 2 else -half) for place in range(BINS))
    columns: dict[str, Any] = {
        "gpu_utilization": stored(kernels),
        "utilization": stored(level),
        "memory_controller": stored(controller),
    }
    held = past(claim(8.0), power_limit_mw=700_000, idle_power_mw=60_000, bins=bins(power_mw=mw, **columns))
    return looks_stuck(held, T)


def idle(level: float) -> set[FindingKind]:
    """By GPU utilization: SMs that are active at 1% all the time work."""
    held = past(claim(8.0), rung=Basis.GPU_UTILIZATION, bins=bins(utilization=stored(level)))
    return kinds(held)


def suspect(kernels: float, level: float = 0.5, processes: int = 0) -> set[FindingKind]:
    columns: dict[str, Any] = {"utilization": stored(level), "busiest": stored(kernels)}
    held = bins(gpu_utilization=stored(kernels), processes=processes, power_mw=300_000, **columns)
    return kinds(past(claim(8.0), bins=held))


def at_idle_power(mw: int) -> set[FindingKind]:
    return kinds(past(claim(8.0), idle_power_mw=60_000, bins=bins(utilization=0.95, power_mw=mw)))


def rare(busy_part: float) -> set[FindingKind]:
    rhythm = Rhythm(
        active_until_ms=NOON_MS - 20 * 60_000,
        silence_p90_ms=2 * HOUR_MS,
        known_ms=24 * HOUR_MS,
        busy_ms=round(24 * HOUR_MS * busy_part),
        spells=12,
        busy_ratio=0.2,
    )
    levels = then((BINS - 40, 0.3), (40, 0.0))
    return kinds(past(claim(24.0, kind=JobKind.INFERENCE, rhythm=rhythm), bins=bins(utilization=levels)))


def covered(count: int) -> set[FindingKind]:
    """So many of the 120 bins of the hour were measured, all of them idle."""
    held = bins()
    shown = (True,) * (BINS - 120) + (False,) * (120 - count) + (True,) * count
    busiest = tuple(0.0 if each else None for each in shown)
    return kinds(past(claim(8.0), bins=replace(held, covered=shown, busiest=busiest, utilization=busiest)))


AT: Sequence[tuple[str, Callable[[], object], Callable[[], object], object]] = (
    # rule, at its bound, just beyond, what is told at the bound and not beyond
    ("kernels 90%", lambda: straggler(0.3, 0.9), lambda: straggler(0.3, 0.899), KIND.STRAGGLER),
    ("at most 0.6 times", lambda: straggler(0.54, 0.9), lambda: straggler(0.541, 0.9), KIND.STRAGGLER),
    ("0.6 times by SMs", lambda: by_sms(0.3, 0.5, 0.95), lambda: by_sms(0.301, 0.5, 0.95), KIND.STRAGGLER),
    ("where all do", lambda: by_sms(0.3, 0.6, 0.9), lambda: by_sms(0.3, 0.6, 0.899), KIND.STRAGGLER),
    ("memory 80%", lambda: hog(memory=0.8), lambda: hog(memory=0.799), KIND.MEMORY_HOG),
    ("under 25% used", lambda: hog(level=0.249), lambda: hog(level=0.25), KIND.MEMORY_HOG),
    ("under 10% read", lambda: hog(controller=0.099), lambda: hog(controller=0.1), KIND.MEMORY_HOG),
    ("under 25%", lambda: low(0.249), lambda: low(0.25), KIND.LOW_SATURATION),
    ("25% of a share", lambda: low(0.174, 0.7), lambda: low(0.175, 0.7), KIND.LOW_SATURATION),
    ("25% of a third", lambda: low(0.0749, 0.3), lambda: low(0.075, 0.3), KIND.LOW_SATURATION),
    ("25% of the day", lambda: low(0.1, 1.0, 0.249), lambda: low(0.1, 1.0, 0.25), KIND.LOW_SATURATION),
    ("1% busy", lambda: idle(0.01), lambda: idle(0.0102), KIND.HELD_IDLE),
    ("90%, no process", lambda: suspect(0.9), lambda: suspect(0.899), KIND.SUSPECT_COUNTERS),
    (
        "SMs under 0.01%",
        lambda: suspect(0.95, 0.00009, 1),
        lambda: suspect(0.95, 0.0001, 1),
        KIND.SUSPECT_COUNTERS,
    ),
    ("1.1 idle power", lambda: at_idle_power(66_000), lambda: at_idle_power(66_001), KIND.SUSPECT_COUNTERS),
    ("a tenth of 24 h", lambda: rare(0.1), lambda: rare(0.1001), KIND.RARELY_USED),
    ("95% measured", lambda: covered(114), lambda: covered(113), KIND.HELD_IDLE),
    ("kernels 99%", lambda: hung(kernels=0.99), lambda: hung(kernels=0.9899), True),
    ("controller 5%", lambda: hung(controller=0.05), lambda: hung(controller=0.0501), True),
    ("SMs under 25%", lambda: hung(level=0.2499), lambda: hung(level=0.25), True),
    ("40% of the limit", lambda: hung(power=0.4), lambda: hung(power=0.401), True),
    ("within a tenth", lambda: hung(spread=0.1), lambda: hung(spread=0.102), True),
)


@pytest.mark.parametrize(("at", "beyond", "told"), [each[1:] for each in AT], ids=[each[0] for each in AT])
def test_a_finding_is_told_at_its_bound_and_not_beyond(
    at: Callable[[], object], beyond: Callable[[], object], told: object
) -> None:
    def says(answer: object) -> bool:
        return told in answer if isinstance(answer, set) else answer is told

    assert says(at())
    assert not says(beyond())


@pytest.mark.parametrize("held", [3.0, 0.7, 7.0, 10.0 / 3])
@pytest.mark.parametrize(
    ("column", "part", "told"),
    [
        ("wasted_gpu_hours", 0.1, "worked, and was idle for 10% of its time"),
        ("wasted_gpu_hours", 0.5, "idle for 50% of its time"),
        ("copied_gpu_hours", 0.1, "worked; copied, and did not compute, for 10% of its time"),
        ("unknown_gpu_hours", 0.05, "worked"),
    ],
)
def test_a_verdict_is_told_at_its_bound(held: float, column: str, part: float, told: str) -> None:
    row = {
        "gpu_hours": held,
        "used_gpu_hours": 0.5 * held,
        "wasted_gpu_hours": 0.0,
        "unknown_gpu_hours": 0.0,
        "busy_gpu_hours": held,
        "gpus": 1,
        "gpus_used": 1,
        "rung": 3,
        "to_ts": "2026-11-27T10:00:00Z",
        "found": None,
    }
    assert verdict(row | {column: sum([part * held / 7] * 7)}) == told


@pytest.mark.parametrize("busy", [3.0, 0.7, 7.0, 10.0 / 3])
def test_a_quarter_of_the_gpus_is_filled_enough(busy: float) -> None:
    row = {
        "gpu_hours": busy,
        "used_gpu_hours": sum([0.25 * busy / 7] * 7),
        "wasted_gpu_hours": 0.0,
        "unknown_gpu_hours": 0.0,
        "busy_gpu_hours": busy,
        "gpus": 1,
        "gpus_used": 1,
        "rung": 3,
        "to_ts": "2026-11-27T10:00:00Z",
        "found": None,
    }
    assert verdict(row) == "worked"

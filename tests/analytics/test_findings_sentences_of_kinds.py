"""Each kind's sentence beside its evidence, over made-up pasts of that kind: every figure in it is there."""

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analytics.findings import judge, judge_jobs
from analytics.findings.unproven import unproven_claims
from analytics.model import Claim, Finding, FindingKind, GpuPast, Intruder, PowerFall, Rhythm, UnprovenClaim
from analytics.text import percent
from analytics.text import size as gib
from analytics.thresholds import Thresholds
from collector.model import Basis, GpuUuid, JobKind
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
    past,
    then,
)

T = Thresholds()
DRAW = st.DataObject
KIND = FindingKind
DAY_MS = 24 * HOUR_MS
LENGTH = re.compile(r"(\d+) d\b(?: (\d+) h\b)?|(\d+) h\b(?: (\d+) min\b)?|(\d+) min\b")


def lengths_ms(sentence: str) -> list[int]:
    """The lengths of time in a sentence, to the minute; days are told to the hour."""
    found = [
        (int(days or 0) * 24 + int(of_days or hours or 0)) * 60 + int(of_hours or minutes or 0)
        for days, of_days, hours, of_hours, minutes in LENGTH.findall(sentence)
    ]
    return [minutes * MINUTE_MS for minutes in found]


def level(draw: st.DrawFn, least: float, most: float) -> float:
    return draw(st.floats(least, most))


def quiet(draw: st.DrawFn, **changes: Any) -> GpuPast:
    hours = draw(st.floats(2.6, 80.0))
    kind = draw(st.sampled_from([JobKind.BATCH, JobKind.INFERENCE, JobKind.INTERACTIVE]))
    hold = claim(
        hours, kind=kind, process_started_ms=None, idle_gpu_hours=draw(st.none() | st.floats(0, hours))
    )
    noise = level(draw, 0.0, 0.01)
    levels: dict[str, Any] = {
        # isolated ticks of up to 1% are noise; SMs that work a little in a third of the bins are use
        "utilization": then(*(((1, noise), (4, 0.0)) * (BINS // 5))),
        "memory_bytes": draw(st.integers(2, 80)) * GIB,
    }
    return past(
        hold, bins=bins(**(levels | changes)), installed_from_ms=draw(st.sampled_from([0, hold.from_ms]))
    )


def never(draw: st.DrawFn, least_h: float, most_h: float, **changes: Any) -> GpuPast:
    hold = fresh(draw(st.floats(least_h, most_h)), idle_gpu_hours=None, **changes)
    return past(hold, bins=bins(utilization=0.0, processes=draw(st.sampled_from([0, 1]))))


def thin(draw: st.DrawFn) -> GpuPast:
    known_ms = draw(st.integers(5 * 60, 24 * 60)) * MINUTE_MS
    busy_ms = draw(st.integers(60_000, known_ms // 10))
    rhythm = Rhythm(
        active_until_ms=NOON_MS - draw(st.integers(2, 50)) * MINUTE_MS,
        known_ms=known_ms,
        busy_ms=busy_ms,
        spells=draw(st.integers(3, 60)),
        silence_longest_ms=draw(st.integers(0, known_ms - busy_ms)),
        busy_ratio=level(draw, 0.02, 1.0),
        idle_gpu_hours=(known_ms - busy_ms) / HOUR_MS,
    )
    hold = claim(from_ms=NOON_MS - known_ms, first_used_ms=NOON_MS - known_ms, rhythm=rhythm)
    return past(hold, bins=bins(utilization=then((BINS - 100, 0.0), (10, 0.8), (90, 0.0))))


def looping(draw: st.DrawFn) -> GpuPast:
    gpu = thin(draw)
    (hold,) = gpu.claims
    hold = replace(
        hold,
        from_ms=NOON_MS - draw(st.integers(7, 24)) * HOUR_MS,
        processes_started=draw(st.integers(24, 400)),
        longest_life_ms=draw(st.integers(1_000, 300_000)),
        rhythm=replace(hold.rhythm, known_ms=7 * HOUR_MS, busy_ms=draw(st.integers(60_000, HOUR_MS))),
    )
    return replace(gpu, claims=(hold,))


def hog(draw: st.DrawFn, kind: JobKind) -> GpuPast:
    command = draw(st.sampled_from(["vllm serve m", "python serve.py", "tritonserver"]))
    hold = claim(draw(st.floats(2.0, 90.0)), kind=kind, busy_until_ms=NOON_MS)
    hold = replace(hold, holder=replace(hold.holder, command=command))
    taken = draw(st.integers(65, 80)) * GIB
    columns: dict[str, Any] = {"memory_bytes": taken, "memory_controller": level(draw, 0.0, 0.09)}
    return past(hold, bins=bins(utilization=level(draw, 0.011, 0.24), **columns))


def visited(draw: st.DrawFn) -> GpuPast:
    came_ms = NOON_MS - draw(st.integers(6, 600)) * MINUTE_MS
    visits = tuple(
        Intruder(pid=pid, from_ms=came_ms, user="ben", uid=1001, name="python", memory_used_bytes=pid * GIB)
        for pid in range(1, draw(st.integers(2, 6)))
    )
    return past(claim(), bins=bins(utilization=0.6), intruders=visits)


def job(draw: st.DrawFn, levels: list[tuple[float, float]], hold: Claim) -> list[GpuPast]:
    """A job's GPUs by the time in which kernels ran and the SMs' own; they may be on two nodes."""
    nodes = draw(st.integers(1, 2))
    return [
        past(
            hold,
            uuid=GpuUuid(f"GPU-{at}"),
            gpu_index=at,
            node=f"node{at % nodes}",
            bins=bins(gpu_utilization=kernels, busiest=max(kernels, busy), utilization=busy),
        )
        for at, (kernels, busy) in enumerate(levels)
    ]


def part_used(draw: st.DrawFn) -> list[GpuPast]:
    used, idle = draw(st.integers(1, 4)), draw(st.integers(1, 9))
    hold = claim(draw(st.floats(3.0, 60.0)), process_started_ms=None)
    return job(draw, [(0.9, 0.5)] * used + [(0.0, 0.0)] * idle, hold)


def uneven(draw: st.DrawFn) -> list[GpuPast]:
    hold = claim(8.0, idle_gpu_hours=None, busy_until_ms=NOON_MS)
    slow = level(draw, 0.1, 0.5)
    return job(draw, [(0.99, 0.4)] * draw(st.integers(2, 7)) + [(slow, slow)], hold)


def disputed(draw: st.DrawFn) -> list[GpuPast]:
    said = [
        UnprovenClaim(
            job=f"fallow:{at}",
            user="ben",
            from_ms=NOON_MS - draw(st.integers(0, 900)) * MINUTE_MS,
            last_ms=NOON_MS,
            why="it cannot show its order",
        )
        for at in range(draw(st.integers(1, 4)))
    ]
    return [past(claim(), bins=bins(utilization=0.6), unproven=tuple(said))]


def silent(draw: st.DrawFn) -> GpuPast:
    since_ms = NOON_MS - draw(st.integers(3, 9_000)) * MINUTE_MS
    lost_ms, newest_ms = draw(st.sampled_from([(since_ms, None), (since_ms, since_ms), (None, since_ms)]))
    known = {"lost_ms": lost_ms, "newest_ms": newest_ms, "falls": draw(st.integers(0, 3))}
    return past(siblings_fresh=True, **known)


def hung(draw: st.DrawFn) -> list[GpuPast]:
    fell_ms = NOON_MS - draw(st.integers(61, 9_000)) * MINUTE_MS
    held = claim(200.0, busy_until_ms=NOON_MS)
    fall = PowerFall(fell_ms=fell_ms, before_mw=350_000.0, now_mw=95_000.0, measured_ratio=1.0)
    levels = {"utilization": draw(st.floats(0.001, 0.24)), "gpu_utilization": 1.0, "busiest": 1.0}
    return [
        past(
            held,
            uuid=GpuUuid(f"GPU-{place}"),
            gpu_index=place,
            bins=bins(**levels, power_mw=95_000),
            power_fall=fall,
        )
        for place in range(draw(st.integers(2, 8)))
    ]


MAKERS: dict[FindingKind, Callable[[st.DrawFn], GpuPast | list[GpuPast]]] = {
    KIND.HELD_IDLE: lambda draw: quiet(draw, processes=draw(st.sampled_from([None, 1]))),
    KIND.ALLOCATED_EMPTY: lambda draw: quiet(draw, processes=0, memory_bytes=0),
    KIND.NOT_STARTED: lambda draw: never(draw, 2.2, 5.9),
    KIND.SLEEPING_BATCH: lambda draw: never(draw, 6.1, 90.0),
    KIND.CRASH_LOOP: lambda draw: draw(
        st.sampled_from([looping, lambda d: never(d, 6.1, 90.0, processes_started=9)])
    )(draw),
    KIND.RARELY_USED: thin,
    KIND.LOW_SATURATION: lambda draw: past(
        claim(draw(st.floats(1.1, 90.0)), busy_until_ms=NOON_MS),
        bins=bins(utilization=level(draw, 0.011, 0.24), gpu_utilization=level(draw, 0.25, 0.89)),
    ),
    KIND.MEMORY_HOG: lambda draw: hog(draw, JobKind.BATCH),
    KIND.RESERVED_BY_DESIGN: lambda draw: hog(draw, JobKind.INFERENCE),
    KIND.SUSPECT_COUNTERS: lambda draw: past(
        bins=bins(
            gpu_utilization=level(draw, 0.9, 1.0), processes=0, power_mw=draw(st.integers(50_000, 700_000))
        )
    ),
    KIND.ZOMBIE_MEMORY: lambda draw: past(
        bins=bins(processes=0, memory_bytes=draw(st.integers(2, 80)) * GIB)
    ),
    KIND.FALLING_GPU: silent,
    KIND.INTRUDER: visited,
    KIND.UNPROVEN_CLAIM: disputed,
    KIND.USES_PART: part_used,
    KIND.STRAGGLER: uneven,
    KIND.MAY_HANG: hung,
}


def findings_of(gpus: list[GpuPast]) -> list[Finding]:
    verdicts = [judge(gpu, NOON_MS, T, TICK_MS) for gpu in gpus]
    own = [finding for verdict in verdicts for finding in verdict.findings]
    return [*own, *judge_jobs(gpus, verdicts, T), *unproven_claims(gpus)]


def holds_what_it_says(finding: Finding, gpus: list[GpuPast]) -> None:
    """Every figure of the sentence is one of the evidence, and no length is less than the window's."""
    evidence = {entry.name: entry.value for entry in finding.evidence}
    numbers = [value for value in evidence.values() if isinstance(value, int | float)]
    sentence, window_ms = finding.sentence, finding.window_to_ms - finding.window_from_ms
    (gpu,) = (each for each in gpus if each.uuid == finding.uuid)
    assert sentence.endswith(".") and (str(gpu.gpu_place) in sentence and gpu.node in sentence), sentence
    assert window_ms >= 0 and finding.since_ms <= NOON_MS
    assert {f"{told}%" for told in re.findall(r"(<?[\d.]+)%", sentence)} <= {
        percent(each) for each in numbers
    }
    memory = evidence.get("memory_used_bytes") or evidence.get("idle_gpus_memory_bytes")
    assert re.findall(r"[\d.]+ GiB", sentence) in ([], [gib(int(memory or 0))])
    for hours in re.findall(r"([\d.]+) GPU-hours", sentence):
        assert abs(float(hours) - float(evidence["idle_gpu_hours"] or 0.0)) <= 0.051
    for told, name in (
        (r"(\d+) of its processes started", "processes_started"),
        (r"in (\d+) spells", "spells"),
        (r"was given (\d+) GPUs", "gpus"),
        (r"and uses (\d+) of them", "gpus_used"),
        (r"works on (\d+) GPUs", "gpus"),
    ):
        assert re.findall(told, sentence) in ([], [str(evidence.get(name))]), sentence
    for told in re.findall(r"since (\d{4}-\d\d-\d\d \d\d:\d\d) UTC", sentence):
        at_ms = datetime.strptime(told, "%Y-%m-%d %H:%M").replace(tzinfo=UTC).timestamp() * 1000
        assert at_ms <= finding.since_ms + 500  # times are told from the nearest second (``text.whole``)
    if finding.holder is not None and finding.kind not in (KIND.INTRUDER, KIND.SUSPECT_COUNTERS):
        assert finding.holder.user is not None and finding.holder.user in sentence
    # Of an idle GPU the mean has a span of its own, at most the window; of low saturation two have.
    means = r"(?<=busy) over the last [^(]*(?=\()|over its last 30 min of work|the last (6|24) h"
    told_ms = lengths_ms(re.sub(means, "", sentence))
    assert lengths_hold(finding, evidence, told_ms, window_ms), (sentence, told_ms, window_ms)


def lengths_hold(
    finding: Finding, evidence: Mapping[str, object], told_ms: list[int], window_ms: int
) -> bool:
    match finding.kind:
        case KIND.CRASH_LOOP if "longest_life_s" in evidence:
            (under_ms,) = told_ms
            return under_ms > int(str(evidence["longest_life_s"])) * 1000
        case KIND.RARELY_USED:
            busiest = float(str(evidence["busy_minutes"])) * MINUTE_MS
            return not told_ms or (max(told_ms) <= DAY_MS and min(told_ms) <= max(busiest, window_ms))
        case KIND.STRAGGLER:
            return told_ms == [window_ms]
        case KIND.MAY_HANG:
            return len(told_ms) == 2 and told_ms[1] == window_ms <= told_ms[0]
        case KIND.USES_PART:
            return told_ms != [] and told_ms[0] >= T.idle_window_s * 1000
        case KIND.SUSPECT_COUNTERS | KIND.MEMORY_HOG | KIND.RESERVED_BY_DESIGN:
            return told_ms == [window_ms]
        case KIND.UNPROVEN_CLAIM | KIND.ZOMBIE_MEMORY:
            return told_ms == []  # what is so now
        case _:
            hour_of_days_ms = HOUR_MS if window_ms >= DAY_MS else MINUTE_MS
            if len(told_ms) == 2 and "measured" in finding.sentence:
                return window_ms <= told_ms[0] < told_ms[1]  # what was measured, and of what
            return len(told_ms) == 1 and told_ms[0] >= window_ms // hour_of_days_ms * hour_of_days_ms


def test_every_kind_has_made_up_pasts() -> None:
    assert set(MAKERS) == set(FindingKind)


@pytest.mark.parametrize("kind", FindingKind)
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_every_figure_of_a_sentence_is_in_its_evidence(kind: FindingKind, data: DRAW) -> None:
    made = data.draw(st.composite(MAKERS[kind])())
    gpus = made if isinstance(made, list) else [made]
    found = findings_of(
        [
            replace(gpu, rung=data.draw(st.sampled_from([Basis.SM_ACTIVE, Basis.GPU_UTILIZATION])))
            for gpu in gpus
        ]
    )
    assert kind in {finding.kind for finding in found}, [finding.kind for finding in found]
    for finding in found:
        holds_what_it_says(finding, gpus)

"""What findings say, over made-up pasts: never less than their window, and never against their evidence."""

import re

from hypothesis import given, settings
from hypothesis import strategies as st

from analytics.findings import judge
from analytics.model import Claim, FindingKind, GpuPast, Rhythm
from analytics.thresholds import IDLE_RATIO, Thresholds
from collector.model import Basis, JobKind
from tests.analytics.pasts import BINS, GIB, HOUR_MS, MINUTE_MS, NOON_MS, TICK_MS, bins, claim, past, then

T = Thresholds()
LENGTH = re.compile(
    r"(?P<d>\d+) d\b(?: (?P<dh>\d+) h\b)?|(?P<h>\d+) h\b(?: (?P<m>\d+) min\b)?|(?P<only_m>\d+) min\b"
)
QUIET = {
    FindingKind.HELD_IDLE,
    FindingKind.ALLOCATED_EMPTY,
    FindingKind.NOT_STARTED,
    FindingKind.SLEEPING_BATCH,
    FindingKind.CRASH_LOOP,
}


def shortest_ms(sentence: str) -> int:
    """The shortest length of time in a sentence."""
    lengths = []
    for found in LENGTH.finditer(sentence):
        hours = int(found["d"] or 0) * 24 + int(found["dh"] or found["h"] or 0)
        lengths.append((hours * 60 + int(found["m"] or found["only_m"] or 0)) * MINUTE_MS)
    return min(lengths)


@st.composite
def claims(draw: st.DrawFn) -> Claim:
    held_ms = draw(st.integers(0, 72 * 60)) * MINUTE_MS
    from_ms = NOON_MS - held_ms
    before = st.none() | st.integers(0, held_ms).map(lambda ago: NOON_MS - ago)
    used, busy, active = draw(before), draw(before), draw(before)
    known_ms = min(held_ms, 24 * HOUR_MS)
    rhythm = Rhythm(
        active_until_ms=active,
        known_since_ms=held_ms if active is None else NOON_MS - active,
        silence_p90_ms=draw(st.none() | st.integers(10 * MINUTE_MS, 20 * HOUR_MS)),
        absence_p90_ms=draw(st.none() | st.integers(10 * MINUTE_MS, 20 * HOUR_MS)),
        known_ms=known_ms,
        busy_ms=draw(st.integers(0, known_ms)),
        spells=draw(st.integers(0, 9)),
        silence_longest_ms=draw(st.none() | st.integers(10 * MINUTE_MS, 20 * HOUR_MS)),
        busy_ratio=draw(st.none() | st.floats(0.02, 1.0)),
    )
    return claim(
        held_ms / HOUR_MS,
        kind=draw(st.none() | st.sampled_from(JobKind)),
        from_ms=from_ms,
        first_used_ms=used,
        busy_until_ms=None if used is None else busy,
        process_started_ms=draw(before),
        processes_started=draw(st.integers(0, 60)),
        process_arrivals=draw(st.integers(0, 60)),
        idle_gpu_hours=draw(st.none() | st.floats(0.0, held_ms / HOUR_MS)),
        rhythm=rhythm,
    )


@st.composite
def pasts(draw: st.DrawFn) -> GpuPast:
    quiet = draw(st.integers(0, BINS))
    level = draw(st.sampled_from([0.0, 0.01, 0.02, 0.2, 0.95]))
    measured = bins(
        utilization=then((BINS - quiet, level), (quiet, draw(st.sampled_from([0.0, 0.005, 0.95])))),
        processes=draw(st.sampled_from([None, 0, 1])),
        memory_bytes=draw(st.sampled_from([None, 0, GIB // 2, 20 * GIB, 72 * GIB])),
        memory_controller=draw(st.sampled_from([None, 0.02])),
    )
    return past(
        *draw(st.lists(claims(), max_size=2)),
        bins=measured,
        rung=draw(st.sampled_from([Basis.GPU_UTILIZATION, Basis.SM_ACTIVE])),
        memory_free_bytes=draw(st.sampled_from([None, 0, GIB // 2])),
    )


@settings(max_examples=150, deadline=None)
@given(pasts())
def test_a_sentence_never_says_less_than_its_window_nor_denies_its_evidence(gpu: GpuPast) -> None:
    for finding in judge(gpu, NOON_MS, T, TICK_MS).findings:
        evidence = {entry.name: entry.value for entry in finding.evidence}
        sentence = finding.sentence
        assert not re.search(r"(?<!\d)(?<! h )0 min", sentence), sentence
        assert finding.window_from_ms < finding.window_to_ms
        assert finding.wasted_gpu_hours is None or finding.wasted_gpu_hours >= 0.0
        if finding.kind in QUIET:
            window_ms = finding.window_to_ms - finding.window_from_ms
            assert finding.since_ms <= finding.window_from_ms
            told = re.sub(r"over the last [^(]*\(|the last 6 h", "", sentence)  # the span of the mean
            assert shortest_ms(told) >= window_ms // MINUTE_MS * MINUTE_MS
            busiest = evidence["utilization_max_ratio"]
            assert busiest is None or float(busiest) <= IDLE_RATIO
        if "preparing" in sentence:
            assert NOON_MS - finding.since_ms < T.forgive_s * 1000
        if "its processes have done nothing" in sentence:
            assert evidence["bins_with_process"]
        if finding.kind is FindingKind.RARELY_USED:
            assert float(evidence["busy_ratio"] or 0.0) <= T.rare_ratio

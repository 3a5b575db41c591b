"""Faults of the machine: contradicting counters, memory left behind, a GPU off the bus."""

import pytest

from analytics.findings import judge
from analytics.findings.words import gpu_name, gpu_names
from analytics.model import FindingKind, GpuPast, Verdict
from analytics.thresholds import Thresholds
from tests.analytics.pasts import BINS, GIB, NOON_MS, TICK_MS, bins, claim, minutes_before_noon, past, then

T = Thresholds()


def judged(gpu: GpuPast, now_ms: int = NOON_MS) -> Verdict:
    return judge(gpu, now_ms, T, TICK_MS)


def kinds(verdict: Verdict) -> list[FindingKind]:
    return [finding.kind for finding in verdict.findings]


def test_full_utilization_with_no_process_is_suspect() -> None:
    stuck = bins(utilization=0.0, busiest=1.0, gpu_utilization=1.0, processes=0, memory_bytes=0)
    (finding,) = judged(past(bins=stuck)).findings
    assert finding.kind is FindingKind.SUSPECT_COUNTERS
    assert "with no process on it" in finding.sentence
    assert finding.wasted_gpu_hours is None


def test_full_utilization_at_idle_power_is_suspect() -> None:
    cold = bins(utilization=0.95, power_mw=66_000)
    (finding,) = judged(past(claim(), bins=cold)).findings
    assert finding.kind is FindingKind.SUSPECT_COUNTERS
    assert "at the power it draws when idle" in finding.sentence
    assert judged(past(claim(), bins=bins(utilization=0.95, power_mw=66_001))) == Verdict()


def test_idle_power_that_was_never_learned_accuses_no_counter() -> None:
    cold = past(claim(), bins=bins(utilization=0.95, power_mw=10), idle_power_mw=None)
    assert judged(cold) == Verdict()


def test_counters_must_contradict_for_ten_minutes_and_now() -> None:
    short = bins(gpu_utilization=1.0, busiest=1.0, processes=then((BINS - 18, 1), (18, 0)), memory_bytes=0)
    assert FindingKind.SUSPECT_COUNTERS not in kinds(judged(past(bins=short)))
    over = bins(gpu_utilization=then((BINS - 1, 1.0), (1, 0.0)), processes=0, memory_bytes=0)
    assert FindingKind.SUSPECT_COUNTERS not in kinds(judged(past(bins=over)))


def test_memory_on_a_gpu_that_nobody_holds_is_left_behind() -> None:
    left = bins(processes=0, memory_bytes=then((BINS - 60, 0), (60, 30 * GIB)))
    (finding,) = judged(past(bins=left)).findings
    assert finding.kind is FindingKind.ZOMBIE_MEMORY
    assert finding.since_ms == minutes_before_noon(30)
    assert "30 GiB" in finding.sentence


@pytest.mark.parametrize(
    ("processes", "memory_bytes"),
    [(0, GIB), (1, 30 * GIB), (None, 30 * GIB)],
)
def test_memory_at_its_floor_or_with_a_process_is_not_left_behind(
    processes: int | None, memory_bytes: int
) -> None:
    gpu = past(bins=bins(processes=processes, memory_bytes=memory_bytes))
    assert judged(gpu) == Verdict()


def test_memory_of_a_held_gpu_is_its_holders_affair() -> None:
    gpu = past(claim(), bins=bins(processes=0, memory_bytes=30 * GIB))
    assert FindingKind.ZOMBIE_MEMORY not in kinds(judged(gpu))


def test_gpu_that_is_silent_while_its_node_answers_fell_off() -> None:
    gpu = past(newest_ms=minutes_before_noon(90), siblings_fresh=True)
    verdict = judged(gpu)
    (finding,) = verdict.findings
    assert finding.kind is FindingKind.FALLING_GPU
    assert finding.since_ms == minutes_before_noon(90)
    assert "for 1 h 30 min" in finding.sentence
    assert verdict.unknown[0].reason == "its newest sample is 1 h 30 min old"


def test_gpu_that_was_reported_lost_fell_off_even_without_neighbours() -> None:
    lost = past(newest_ms=minutes_before_noon(5), lost_ms=minutes_before_noon(5), falls=3)
    (finding,) = judged(lost).findings
    assert "the driver reported it lost" in finding.sentence
    assert "fell 3 times" in finding.sentence


def test_gpu_that_was_lost_before_the_records_begin_is_found_too() -> None:
    lost = past(newest_ms=None, lost_ms=minutes_before_noon(90), siblings_fresh=True, bins=bins(0))
    (finding,) = judged(lost).findings
    assert (finding.kind, finding.since_ms) == (FindingKind.FALLING_GPU, minutes_before_noon(90))
    assert "it was never measured here" in finding.sentence
    assert judged(past(newest_ms=None, siblings_fresh=True, bins=bins(0))).findings == ()


def test_whole_node_in_silence_is_unknown_and_no_fault_of_a_gpu() -> None:
    verdict = judged(past(claim(), newest_ms=minutes_before_noon(90), siblings_fresh=False))
    assert verdict.findings == ()
    assert len(verdict.unknown[0].kinds) == len(FindingKind)


def test_lone_silent_gpu_without_a_report_is_unknown() -> None:
    assert judged(past(newest_ms=minutes_before_noon(90), siblings_fresh=None)).findings == ()


def test_one_late_sample_is_no_fall() -> None:
    assert judged(past(newest_ms=NOON_MS - 60_000, siblings_fresh=True)).findings == ()


def test_mig_instances_of_one_board_have_names_that_tell_them_apart() -> None:
    parts = [past(gpu_place=f"0/1g.10gb#{number}", gpu_index=0) for number in (7, 8)]
    assert [gpu_name(part) for part in parts] == [
        "GPU 0/1g.10gb#7 of node1",
        "GPU 0/1g.10gb#8 of node1",
    ]
    assert gpu_names(parts) == "GPU 0/1g.10gb#7 and 0/1g.10gb#8 of node1"

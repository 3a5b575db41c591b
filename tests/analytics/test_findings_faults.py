"""Faults of the machine: contradicting counters, memory left behind, a GPU off the bus."""

import pytest

from analytics.findings import judge
from analytics.findings.words import gpu_name, gpu_names
from analytics.model import FindingKind, GpuPast, Verdict
from analytics.thresholds import Thresholds
from collector.model import GpuUuid
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


def test_a_profiling_counter_that_stands_at_nothing_beside_kernels_is_doubted() -> None:
    # GPU utilization 90% and 350 W, SM active 0: nobody "fills 0%", keeps memory unused or is idle by that.
    still = bins(utilization=0.0, busiest=0.9, gpu_utilization=0.9, power_mw=350_000, memory_bytes=76 * GIB)
    verdict = judged(past(claim(), bins=still, power_limit_mw=700_000))
    (finding,) = verdict.findings
    assert finding.kind is FindingKind.SUSPECT_COUNTERS
    assert "90% GPU utilization while its SMs did nothing (SM active), drawing 350 W" in finding.sentence
    assert "fills" not in finding.sentence


def test_kernels_for_a_third_of_the_time_and_no_sm_active_are_no_low_saturation() -> None:
    still = bins(utilization=0.0, busiest=0.35, gpu_utilization=0.35)
    verdict = judged(past(claim(), bins=still))
    assert verdict.findings == ()
    assert FindingKind.LOW_SATURATION in {kind for entry in verdict.unknown for kind in entry.kinds}


@pytest.mark.parametrize("counted", [0.0, None])
@pytest.mark.parametrize("processes", [0, 1, None])
def test_power_of_work_beside_no_activity_accuses_nobody(
    counted: float | None, processes: int | None
) -> None:
    drawing = bins(utilization=0.0, gpu_utilization=counted, power_mw=350_000, processes=processes)
    verdict = judged(past(claim(), bins=drawing, power_limit_mw=700_000))
    (finding,) = verdict.findings
    assert finding.kind is FindingKind.SUSPECT_COUNTERS
    assert (
        "draws 350 W, which no idle board of its kind does, and reports no activity over the last 10 min"
        in finding.sentence
    )
    assert {FindingKind.HELD_IDLE, FindingKind.ALLOCATED_EMPTY} & {
        kind for entry in verdict.unknown for kind in entry.kinds
    }


def test_one_bin_of_working_power_is_enough_not_to_be_told_idle() -> None:
    power = then((BINS - 60, 90_000), (1, 350_000), (59, 90_000))
    quiet = past(claim(), bins=bins(power_mw=power), power_limit_mw=700_000)
    assert kinds(judged(quiet)) == []
    assert kinds(judged(past(claim(), bins=bins(power_mw=90_000), power_limit_mw=700_000))) == [
        FindingKind.HELD_IDLE
    ]


def test_the_power_of_a_board_says_nothing_of_its_mig_instances() -> None:
    one = past(claim(), bins=bins(power_mw=350_000), power_limit_mw=700_000, mig_profile="1g.10gb")
    assert kinds(judged(one)) == [FindingKind.HELD_IDLE]


def test_on_a_shared_gpu_anothers_power_makes_nobody_doubtful() -> None:
    board = bins(utilization=0.6, power_mw=450_000)
    own = bins(utilization=0.0, power_mw=450_000)
    verdict = judged(past(claim(share=0.5, bins=own), claim(share=0.5, bins=board), bins=board))
    assert kinds(verdict) == [FindingKind.HELD_IDLE]


def test_idle_power_that_was_never_learned_accuses_no_counter() -> None:
    cold = past(claim(), bins=bins(utilization=0.95, power_mw=10), idle_power_mw=None)
    assert judged(cold) == Verdict()


def test_counters_must_contradict_for_ten_minutes_and_now() -> None:
    short = bins(utilization=1.0, processes=then((BINS - 18, 1), (18, 0)), memory_bytes=0)
    assert FindingKind.SUSPECT_COUNTERS not in kinds(judged(past(bins=short)))
    over = bins(utilization=then((BINS - 1, 1.0), (1, 0.0)), processes=0, memory_bytes=0)
    assert FindingKind.SUSPECT_COUNTERS not in kinds(judged(past(bins=over)))


def test_now_is_the_newest_bin_that_was_measured() -> None:
    """A row of a minute that ends after the last bin leaves that bin empty: 20 bins before it say all."""
    seen = {"covered": then((BINS - 1, True), (1, False)), "utilization": then((BINS - 1, 1.0), (1, None))}
    stuck = bins(**seen, processes=then((BINS - 21, 1), (20, 0), (1, None)), memory_bytes=0)
    (finding,) = judged(past(bins=stuck)).findings
    assert finding.kind is FindingKind.SUSPECT_COUNTERS
    assert finding.since_ms == minutes_before_noon(10.5)
    assert finding.window_to_ms == minutes_before_noon(0.5)
    over = bins(**seen, processes=then((BINS - 2, 0), (1, 1), (1, None)), memory_bytes=0)
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


def test_who_uses_a_gpu_is_alive_though_nobody_counts_it() -> None:
    works = bins(utilization=0.8, busiest=0.8, gpu_utilization=0.8, processes=0, memory_bytes=30 * GIB)
    assert FindingKind.ZOMBIE_MEMORY not in kinds(judged(past(bins=works)))


def test_memory_of_a_held_gpu_is_its_holders_affair() -> None:
    gpu = past(claim(), bins=bins(processes=0, memory_bytes=30 * GIB))
    assert FindingKind.ZOMBIE_MEMORY not in kinds(judged(gpu))


def test_gpu_that_is_silent_while_its_node_answers_has_not_been_seen() -> None:
    gpu = past(newest_ms=minutes_before_noon(90), siblings_fresh=True)
    verdict = judged(gpu)
    (finding,) = verdict.findings
    assert finding.kind is FindingKind.FALLING_GPU
    assert finding.since_ms == minutes_before_noon(90)
    # Rows are missing, and nobody measured why: its exporter may leave it out.
    assert finding.sentence == (
        "GPU 3 of node1 has not been seen since 2026-10-28 10:30 UTC, for 1 h 30 min, while the other GPUs "
        "of its node are."
    )
    assert verdict.unknown[0].reason == "its newest sample is 1 h 30 min old"


def test_who_held_a_gpu_that_fell_off_is_named() -> None:
    # An exporter tells a pod in the GPU's own lines: when these are gone, so is the pod's hold.
    gone = past(newest_ms=minutes_before_noon(5), siblings_fresh=True, last_claims=(claim(),))
    (finding,) = judged(gone).findings
    assert finding.holder == claim().holder
    assert finding.sentence.startswith(
        "GPU 3 of node1, last held by amara (job sweep), has not been seen since"
    )
    held = past(claim(), newest_ms=minutes_before_noon(5), siblings_fresh=True)
    assert ", held by amara (job sweep), has not" in judged(held).findings[0].sentence


def test_gpu_that_was_reported_lost_fell_off_even_without_neighbours() -> None:
    five = minutes_before_noon(5)
    lost = past(newest_ms=five, lost_ms=five, falls=3, is_off_the_bus=True)
    (finding,) = judged(lost).findings
    assert "fell off the bus: the driver reported it lost" in finding.sentence
    assert "fell 3 times in the last 24 h" in finding.sentence


def test_gpu_that_was_lost_before_the_records_begin_is_found_too() -> None:
    lost = past(newest_ms=None, lost_ms=minutes_before_noon(90), siblings_fresh=True, bins=bins(0))
    (finding,) = judged(lost).findings
    assert (finding.kind, finding.since_ms) == (FindingKind.FALLING_GPU, minutes_before_noon(90))
    assert "was never measured here" in finding.sentence
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


def test_a_gpu_of_a_log_without_uuids_is_told_by_its_index_and_node() -> None:
    assert gpu_name(past(uuid=GpuUuid("node1/2"), gpu_place=None)) == "GPU 2 of node1"
    assert gpu_name(past(uuid=GpuUuid("pod:a"), gpu_place=None)) == "pod:a of node1"

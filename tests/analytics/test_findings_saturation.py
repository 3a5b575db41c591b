"""Used but hardly: low saturation, memory hogs, and what marks TensorFlow."""

from dataclasses import replace

import pytest

from analytics.findings import judge
from analytics.model import Finding, FindingKind, GpuPast, Onset, Rhythm, Verdict
from analytics.thresholds import Thresholds
from analytics.vocabulary.findings import KINDS, NO_ROOM
from collector.model import Basis, JobKind
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


def kinds(verdict: Verdict) -> list[FindingKind]:
    return [finding.kind for finding in verdict.findings]


def evidence(finding: Finding) -> dict[str, object]:
    return {entry.name: entry.value for entry in finding.evidence}


@pytest.mark.parametrize(("level", "low"), [(0.24, True), (0.25, False)])
def test_low_saturation_is_under_a_quarter_of_active_time(level: float, low: bool) -> None:
    gpu = past(claim(), bins=bins(utilization=level))
    assert kinds(judged(gpu)) == ([FindingKind.LOW_SATURATION] if low else [])


def test_low_saturation_counts_active_bins_alone() -> None:
    half_the_time = then(*((1, 0.3 if place % 2 else 0.0) for place in range(BINS)))
    assert judged(past(claim(), bins=bins(utilization=half_the_time))) == Verdict()
    low = then(*((1, 0.2 if place % 2 else 0.0) for place in range(BINS)))
    (finding,) = judged(past(claim(), bins=bins(utilization=low))).findings
    assert evidence(finding)["utilization_active_mean_ratio"] == pytest.approx(0.2)
    assert evidence(finding)["active_bins"] == 120
    assert {e.name: e.value for e in finding.evidence}["unused_gpu_hours"] == pytest.approx(1.0 * 0.8)
    assert finding.wasted_gpu_hours is None, "used, if hardly: no waste"


@pytest.mark.parametrize(("active", "told"), [(60, True), (59, False)])
def test_low_saturation_needs_half_an_hour_of_active_bins(active: int, told: bool) -> None:
    levels = then((BINS - active, 0.0), (active, 0.1))
    gpu = past(claim(), bins=bins(utilization=levels))
    assert kinds(judged(gpu)) == ([FindingKind.LOW_SATURATION] if told else [])


@pytest.mark.parametrize(("minutes", "told"), [(61, True), (60, False)])
def test_low_saturation_needs_61_minutes_of_run_time(minutes: int, told: bool) -> None:
    gpu = past(claim(minutes / 60), bins=bins(utilization=0.1))
    assert kinds(judged(gpu)) == ([FindingKind.LOW_SATURATION] if told else [])


# By hand: 23 h at 20% and the last one at 5% are (23 x 20 + 5) / 24 = 19.4% of the day's work. The newest 60
# of two hours of bins are told, and what went unused is summed over all of them: 1.5 h x 80% + 0.5 h x 95%.
def test_each_level_is_told_with_the_span_that_it_is_of() -> None:
    levels = then((BINS - 60, 0.2), (60, 0.05))
    day = Rhythm(busy_ratio=0.194, busy_ms=86_400_000)
    (finding,) = judged(past(claim(60, rhythm=day), bins=bins(utilization=levels))).findings
    assert finding.sentence == (
        "amara (job sweep) has held GPU 3 of node1 for 2 d 12 h, and filled 5.0% of it over its last 30 min "
        "of work (SM active), and over all its work of the last 24 h 19%."
    )
    assert evidence(finding)["unused_gpu_hours"] == pytest.approx(1.5 * 0.8 + 0.5 * 0.95)


def test_what_is_under_a_quarter_does_not_read_as_a_quarter() -> None:
    day = Rhythm(busy_ratio=0.2496, busy_ms=86_400_000)
    (finding,) = judged(past(claim(60, rhythm=day), bins=bins(utilization=0.2499))).findings
    assert "filled 24.9% of it over" in finding.sentence and finding.sentence.endswith("24 h 24.9%.")


def test_of_a_younger_job_all_its_work_is_told() -> None:
    day = Rhythm(busy_ratio=0.07, busy_ms=1_800_000)
    (finding,) = judged(past(claim(3, rhythm=day), bins=bins(utilization=0.1))).findings
    assert finding.sentence.endswith("of work (SM active), and over all its work so far 7.0%.")


def test_what_looks_busy_is_of_the_work_that_is_told() -> None:
    kernels = then((BINS - 60, 0.2), (60, 1.0))
    busy = bins(utilization=0.05, busiest=kernels, gpu_utilization=kernels)
    (finding,) = judged(past(claim(), bins=busy)).findings
    assert "It looks busy (100% GPU utilization), and is not." in finding.sentence


def test_a_hogs_use_is_told_with_its_span() -> None:
    finding = next(f for f in judged(hog()).findings if f.kind is FindingKind.MEMORY_HOG)
    assert "hardly touches it: over the last 30 min 8.0% busy (SM active), memory read" in finding.sentence


@pytest.mark.parametrize(
    ("taken", "total", "full"),
    [
        (78 * GIB, 80 * GIB, True),
        (68 * GIB, 80 * GIB, False),  # 85%
        (then((BINS - 4, 20 * GIB), (4, 78 * GIB)), 80 * GIB, True),
        (10 * GIB, 80 * GIB, False),
        (None, 80 * GIB, False),
        (78 * GIB, None, False),
    ],
)
def test_no_larger_batch_is_advised_where_the_memory_is_full(
    taken: object, total: object, full: bool
) -> None:
    gpu = replace(past(claim(), bins=bins(utilization=0.06, memory_bytes=taken)), memory_total_bytes=total)
    found = next(f for f in judged(gpu).findings if f.kind is FindingKind.LOW_SATURATION)
    words = KINDS[FindingKind.LOW_SATURATION]
    assert words.remedy_for("batch", evidence(found)) == (NO_ROOM if full else words.remedy)
    assert "share of" not in words.remedy and "larger batches where" in words.remedy


def test_low_saturation_ends_with_the_work() -> None:
    levels = then((BINS - 40, 0.1), (40, 0.0))
    assert FindingKind.LOW_SATURATION not in kinds(judged(past(claim(), bins=bins(utilization=levels))))


def test_the_holders_predecessor_does_not_count() -> None:
    levels = then((100, 0.05), (140, 0.6))
    assert judged(past(claim(140 / 120), bins=bins(utilization=levels))) == Verdict()


def test_keeping_a_gpu_warm_is_seen_through_where_sm_active_is_measured() -> None:
    warm = bins(utilization=0.03, busiest=0.8, gpu_utilization=0.8)
    (finding,) = judged(past(claim(), bins=warm)).findings
    assert finding.kind is FindingKind.LOW_SATURATION
    assert evidence(finding)["looks_busy"] is True
    assert "It looks busy (80% GPU utilization), and is not." in finding.sentence


def test_without_sm_active_a_warm_gpu_cannot_be_told_from_a_busy_one() -> None:
    blind = past(claim(), rung=Basis.GPU_UTILIZATION, bins=bins(utilization=0.8))
    assert judged(blind) == Verdict()


def test_low_saturation_without_utilization_is_unknown() -> None:
    gpu = past(claim(), bins=bins(utilization=None, busiest=0.3))
    (unknown,) = judged(gpu).unknown
    assert FindingKind.LOW_SATURATION in unknown.kinds


def test_low_saturation_with_holes_is_unknown() -> None:
    holes = then((BINS - 40, True), (20, False), (20, True))
    verdict = judged(past(claim(), bins=bins(utilization=0.1, covered=holes)))
    assert verdict.findings == ()
    assert FindingKind.LOW_SATURATION in verdict.unknown[0].kinds


def test_contradicting_counters_are_no_activity() -> None:
    stuck = bins(utilization=0.1, gpu_utilization=1.0, busiest=1.0, processes=0)
    assert FindingKind.LOW_SATURATION not in kinds(judged(past(claim(), bins=stuck)))


def hog(**changes: object) -> GpuPast:
    full = bins(**({"utilization": 0.08, "memory_bytes": 77 * GIB} | changes))
    return past(claim(), bins=full)


def test_full_memory_that_is_hardly_touched_is_a_suspected_hog() -> None:
    finding = next(f for f in judged(hog()).findings if f.kind is FindingKind.MEMORY_HOG)
    shown = evidence(finding)
    assert shown["memory_used_p5_ratio"] == pytest.approx(77 / 80)
    assert shown["utilization_mean_ratio"] == pytest.approx(0.08)
    assert shown["memory_controller_p95_ratio"] == pytest.approx(0.02)
    assert shown["tensorflow_signature"] is None
    assert "Suspected" in finding.sentence


@pytest.mark.parametrize(
    "changes",
    [
        {"memory_bytes": 63 * GIB},  # 79%
        {"utilization": 0.25},
        {"memory_controller": 0.1},
        {"memory_controller": then((BINS - 4, 0.02), (4, 0.3))},  # 4 of 60 bins: over the 95th percentile
        {"processes": then((BINS - 1, 1), (1, 0))},
    ],
)
def test_any_one_sign_missing_is_no_hog(changes: dict[str, object]) -> None:
    assert FindingKind.MEMORY_HOG not in kinds(judged(hog(**changes)))


def test_a_hog_stays_one_while_its_newest_bin_is_not_measured_yet() -> None:
    holes = {
        name: then((BINS - 1, value), (1, None))
        for name, value in (
            ("utilization", 0.08),
            ("memory_bytes", 77 * GIB),
            ("memory_controller", 0.02),
            ("processes", 1),
        )
    }
    late = hog(**holes, covered=then((BINS - 1, True), (1, False)))
    assert FindingKind.MEMORY_HOG in kinds(judged(late))


def test_three_busy_bins_of_sixty_are_within_the_95th_percentile() -> None:
    rare = hog(memory_controller=then((BINS - 3, 0.02), (3, 0.3)))
    assert FindingKind.MEMORY_HOG in kinds(judged(rare))


def test_hog_without_memory_controller_is_unknown() -> None:
    verdict = judged(hog(memory_controller=None))
    assert FindingKind.MEMORY_HOG not in kinds(verdict)
    assert [e.reason for e in verdict.unknown] == ["its memory controller is not measured"]


def test_job_that_preallocates_before_it_computes_is_no_hog() -> None:
    waiting = past(fresh(1.0), bins=bins(memory_bytes=77 * GIB))
    assert judged(waiting).findings == ()


@pytest.mark.parametrize(
    ("onset", "signature"),
    [
        (Onset(first_used_ms=0, full_after_ms=10_000, flat=True), True),
        (Onset(first_used_ms=0, full_after_ms=10_001, flat=True), False),
        (Onset(first_used_ms=0, full_after_ms=0, flat=False), False),
        (Onset(first_used_ms=0, full_after_ms=None, flat=False), False),
    ],
)
def test_tensorflow_takes_it_all_at_once_and_keeps_it(onset: Onset, signature: bool) -> None:
    full = bins(utilization=0.08, memory_bytes=77 * GIB)
    verdict = judged(past(claim(), bins=full, onset=onset))
    finding = next(f for f in verdict.findings if f.kind is FindingKind.MEMORY_HOG)
    assert evidence(finding)["tensorflow_signature"] is signature
    assert ("as TensorFlow does" in finding.sentence) is signature


def test_interactive_low_saturation_is_told_too() -> None:
    gpu = past(claim(kind=JobKind.INTERACTIVE), bins=bins(utilization=0.1))
    assert kinds(judged(gpu)) == [FindingKind.LOW_SATURATION]
    assert judged(gpu).findings[0].since_ms == minutes_before_noon(600)


def test_video_engines_at_work_are_no_low_saturation_of_the_sms() -> None:
    levels = {"utilization": 0.06, "busiest": 0.7}
    seen = judge(past(claim(), bins=bins(video=0.7, **levels)), NOON_MS, T, TICK_MS).findings
    still = judge(past(claim(), bins=bins(video=0.0, **levels)), NOON_MS, T, TICK_MS).findings
    assert (seen, [finding.kind for finding in still]) == ((), [FindingKind.LOW_SATURATION])


def test_a_servers_reserved_memory_is_no_hogs() -> None:
    # vLLM, SGLang and TGI take most of the memory for a cache: allocator settings don't touch it.
    server = claim(kind=JobKind.INFERENCE, rhythm=Rhythm(busy_ratio=0.05))
    full = bins(utilization=0.05, memory_bytes=72 * GIB)
    kinds = [finding.kind for finding in judge(past(server, bins=full), NOON_MS, T, TICK_MS).findings]
    assert FindingKind.RESERVED_BY_DESIGN in kinds
    assert FindingKind.MEMORY_HOG not in kinds


def test_what_used_its_gpu_well_today_is_no_hog_in_a_thin_half_hour() -> None:
    job = claim(rhythm=Rhythm(busy_ratio=0.6))
    full = bins(utilization=0.05, memory_bytes=72 * GIB)
    assert judge(past(job, bins=full), NOON_MS, T, TICK_MS).findings == ()


@pytest.mark.parametrize("count", [None, 1])
def test_full_memory_of_what_nobody_sees_may_be_a_servers(count: int | None) -> None:
    # Of dcgm-exporter neither a command nor a process is known: vLLM and TensorFlow look the same there. A
    # pod whose processes are counted, in a table or by an exporter, is no better known.
    full = bins(utilization=0.05, memory_bytes=72 * GIB, processes=count)
    verdict = judge(past(claim(process_started_ms=None), bins=full), NOON_MS, T, TICK_MS)
    assert FindingKind.MEMORY_HOG not in {finding.kind for finding in verdict.findings}
    (unknown,) = verdict.unknown
    assert unknown.kinds == (FindingKind.MEMORY_HOG, FindingKind.RESERVED_BY_DESIGN)


@pytest.mark.parametrize("seen", [{"framework": "PyTorch"}, {"command": "python fit.py"}])
def test_a_hog_whose_process_another_fallow_looked_at_is_one(seen: dict[str, str]) -> None:
    # A peer tells the framework, an export the command: each from a process that it saw not to listen.
    job = claim(process_started_ms=None)
    job = replace(job, holder=replace(job.holder, **seen))
    full = bins(utilization=0.05, memory_bytes=72 * GIB)
    verdict = judge(past(job, bins=full), NOON_MS, T, TICK_MS)
    assert FindingKind.MEMORY_HOG in {finding.kind for finding in verdict.findings}


@pytest.mark.parametrize(
    ("command", "framework", "remedy"),
    [
        ("vllm serve m", "PyTorch", "--gpu-memory-utilization"),
        ("python -m sglang.launch_server --model-path m", "PyTorch", "--mem-fraction-static"),
        ("text-generation-launcher --model-id m", None, "--cuda-memory-fraction"),
        ("tritonserver --model-repository=/m", "TensorRT", "kv_cache_free_gpu_mem_fraction"),
        ("llama-server -m m.gguf", "llama.cpp", "--ctx-size"),
        ("python api.py", "JAX", "XLA_PYTHON_CLIENT_MEM_FRACTION"),
        ("python api.py", None, "told to reserve"),
    ],
)
def test_the_remedy_is_the_servers_own_setting(command: str, framework: str | None, remedy: str) -> None:
    server = claim(kind=JobKind.INFERENCE, rhythm=Rhythm(busy_ratio=0.05))
    server = replace(server, holder=replace(server.holder, command=command, framework=framework))
    full = bins(utilization=0.05, memory_bytes=72 * GIB)
    found = {each.kind: each.sentence for each in judged(past(server, bins=full)).findings}
    assert remedy in found[FindingKind.RESERVED_BY_DESIGN]


def test_whether_it_listens_could_not_be_read_so_it_may_be_a_server() -> None:
    unheard = replace(claim(), listening_unknown=True)
    full = bins(utilization=0.05, memory_bytes=72 * GIB)
    verdict = judged(past(unheard, bins=full))
    assert FindingKind.MEMORY_HOG not in kinds(verdict)
    assert [each.kinds for each in verdict.unknown] == [
        (FindingKind.MEMORY_HOG, FindingKind.RESERVED_BY_DESIGN)
    ]


def test_memory_of_a_shared_gpu_is_nobodys_in_particular() -> None:
    gpu = past(claim(), claim(), bins=bins(utilization=0.05, memory_bytes=76 * GIB))
    verdict = judge(gpu, NOON_MS, T, TICK_MS)
    assert FindingKind.MEMORY_HOG not in {finding.kind for finding in verdict.findings}
    assert any(
        FindingKind.MEMORY_HOG in unknown.kinds and "several hold it" in unknown.reason
        for unknown in verdict.unknown
    )
    idle = judge(past(claim(), claim(), bins=bins(memory_bytes=76 * GIB)), NOON_MS, T, TICK_MS).findings
    assert idle and all("while all who hold it keep 76 GiB" in finding.sentence for finding in idle)


# By hand, of 30 h of generating tokens one at a time: 20% of the SMs, a kernel always, memory read for 80% of
# the cycles, which is all that can be reached. Nothing waits for data.
@pytest.mark.parametrize(
    ("kernels", "read", "taken", "waits"),
    [
        (1.0, 0.8, 20 * GIB, False),
        (0.2, 0.5, 20 * GIB, False),
        (1.0, 0.8, 78 * GIB, False),
        (0.9, 0.02, 20 * GIB, False),
        (1.0, None, 78 * GIB, False),
        (0.89, 0.49, 20 * GIB, True),
        (0.3, None, 78 * GIB, True),
        (None, None, 20 * GIB, True),
    ],
)
def test_who_does_not_wait_for_data_is_not_told_to_load_more(
    kernels: float | None, read: float | None, taken: int, waits: bool
) -> None:
    work = bins(
        utilization=0.2, busiest=0.2, gpu_utilization=kernels, memory_controller=read, memory_bytes=taken
    )
    found = next(f for f in judged(past(claim(), bins=work)).findings if f.kind is FindingKind.LOW_SATURATION)
    remedy = KINDS[FindingKind.LOW_SATURATION].remedy_for("batch", evidence(found))
    assert remedy.startswith("more workers that load data") == waits
    assert (read is not None and read >= 0.5) == ("a smaller size, which has less bandwidth" in remedy)
    assert waits or "or the smaller size" not in remedy or (read or 0.0) < 0.5


def test_whose_reading_of_memory_a_shared_gpu_shows_is_not_told() -> None:
    both = bins(utilization=0.2, memory_controller=0.8)
    gpu = past(claim(share=0.5, bins=both), claim(share=0.5, bins=both), bins=both)
    for found in judged(gpu).findings:
        assert evidence(found).get("memory_read_active_mean_ratio") is None

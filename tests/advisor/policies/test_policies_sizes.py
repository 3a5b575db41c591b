"""Memory caps, smaller sizes and moves: what is set, what it frees, and when nothing is said."""

import csv
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from advisor.actions import Move, Notify, ReleaseMemory, SetEnvAtRestart, Start
from advisor.decide import decide
from advisor.explain import Decisions, job_facts
from advisor.planner.guard import approve
from advisor.planner.limits import Limits, Mode, PlannerConfig
from advisor.planner.observed import Price
from advisor.planner.plan import Abstain, Advice, Plan
from advisor.planner.transition import replay
from advisor.policies import consolidate, memory_cap, pack, right_size
from advisor.policies.framework_memory import launch_settings
from advisor.policies.mig_profiles import slices_of
from advisor.state.model import ActionClass, Phase, Use
from collector.model import Basis, JobKind
from tests.advisor.policies.scene import (
    GIB,
    H100,
    advised,
    cluster,
    gpu,
    hog,
    idle_job,
    job,
    observed,
    reports,
    use,
)

RULES, LIMITS = PlannerConfig(), Limits()
TOTAL = 80 * GIB


@pytest.mark.parametrize(
    ("framework", "cap", "version", "settings"),
    [
        ("TensorFlow", None, None, {"TF_FORCE_GPU_ALLOW_GROWTH": "true"}),
        ("TensorFlow", 20 * GIB, None, {"TF_FORCE_GPU_ALLOW_GROWTH": "true"}),
        ("JAX", None, None, {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}),
        ("JAX", 20 * GIB, None, {"XLA_PYTHON_CLIENT_MEM_FRACTION": "0.25"}),
        (
            "PyTorch",
            20 * GIB,
            None,
            {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True,garbage_collection_threshold:0.80"},
        ),
        (
            "PyTorch",
            20 * GIB,
            (2, 13),
            {
                "PYTORCH_ALLOC_CONF": "expandable_segments:True,garbage_collection_threshold:0.80,"
                "per_process_memory_fraction:0.25"
            },
        ),
    ],
)
def test_settings_are_the_frameworks_own(
    framework: str, cap: int | None, version: Any, settings: dict[str, str]
) -> None:
    found = launch_settings(framework, cap, TOTAL, version)
    assert found is not None
    assert dict(found.settings) == settings


def test_only_settings_that_cap_claim_a_cap() -> None:
    tensorflow = launch_settings("TensorFlow", 20 * GIB, TOTAL)
    old_torch = launch_settings("PyTorch", 20 * GIB, TOTAL)
    new_torch = launch_settings("PyTorch", 20 * GIB, TOTAL, (2, 13))
    jax = launch_settings("JAX", 20 * GIB, TOTAL)
    caps = [None if each is None else each.cap_bytes for each in (tensorflow, old_torch, new_torch, jax)]
    assert caps == [None, None, 20 * GIB, 20 * GIB]


@pytest.mark.parametrize("framework", [None, "GROMACS", "llama.cpp"])
def test_framework_without_a_setting_gets_none(framework: str | None) -> None:
    assert launch_settings(framework, None, TOTAL) is None


@pytest.mark.parametrize("cap", [0, -1, TOTAL + 1])
def test_senseless_cap_is_refused(cap: int) -> None:
    with pytest.raises(ValueError, match="a cap lies above 0"):
        launch_settings("JAX", cap, TOTAL)


def test_suspected_hog_is_told_what_to_set_and_no_gain_is_claimed() -> None:
    state = cluster([(job("a", framework="TensorFlow", memory_held_bytes=77 * GIB), ("g0",))])
    (advice,) = advised(memory_cap.advise(state, observed(use("a"), analysis=hog("a")), LIMITS, RULES))
    (step,) = advice.steps
    assert isinstance(step, SetEnvAtRestart)
    assert step.settings == (("TF_FORCE_GPU_ALLOW_GROWTH", "true"),)
    assert step.frees_bytes is None
    assert advice.gain_gpu_hours == 0.0 and advice.confidence == 0.5
    assert "TF_FORCE_GPU_ALLOW_GROWTH=true" in advice.what


def test_confirmed_pytorch_hog_releases_now_and_is_capped_later() -> None:
    told = job("a", memory_held_bytes=70 * GIB, memory_bytes=None, profile=reports(86_400))
    state = cluster([(told, ("g0",))])
    seen = observed(use("a", memory_needed_bytes=9 * GIB), analysis=hog("a"))
    (advice,) = advised(memory_cap.advise(state, seen, LIMITS, RULES))
    release, cap = advice.steps
    spare = 70 * GIB - 9 * GIB - RULES.context_bytes
    assert isinstance(release, ReleaseMemory) and release.frees_bytes == spare
    assert isinstance(cap, SetEnvAtRestart) and cap.frees_bytes == spare
    assert advice.gain_gpu_hours == pytest.approx(min(spare / TOTAL, 1 - 0.14) * 4)
    after = replay(state, advice.steps)
    assert after.jobs[advice.job or release.job].memory_held_bytes == 70 * GIB - spare


def test_hog_that_nobody_may_touch_is_told_only() -> None:
    state = cluster([(job("a", preemptible=False, framework="JAX"), ("g0",))])
    (advice,) = advised(memory_cap.advise(state, observed(analysis=hog("a")), LIMITS, RULES))
    (step,) = advice.steps
    assert isinstance(step, Notify) and "XLA_PYTHON_CLIENT_PREALLOCATE=false" in step.message


def hog_with(waiting: dict[str, Any] | None, **changes: Any) -> tuple[str, ...]:
    """The verbs advised on a TensorFlow hog on half a GPU, while somebody waits or nobody does."""
    taken = job("a", framework="TensorFlow", memory_held_bytes=77 * GIB, share=0.5, **changes)
    others = [] if waiting is None else [job("b", phase=Phase.PENDING, started_ms=None, **waiting)]
    state = cluster([(taken, ("g0",))], waiting=others)
    (advice,) = advised(memory_cap.advise(state, observed(use("a"), analysis=hog("a")), LIMITS, RULES))
    assert replay(state, advice.steps).placements == state.placements
    return tuple(type(step).__name__ for step in advice.steps)


def test_hog_that_saves_itself_is_started_again_for_a_neighbour_that_waits() -> None:
    assert hog_with({"share": 0.5}) == ("SetEnvAtRestart", "Move")


@pytest.mark.parametrize(
    ("waiting", "changes"),
    [
        (None, {}),
        ({"share": 1.0}, {}),
        ({"share": 0.5}, {"checkpointable": False}),
        (
            {"share": 0.5},
            {"acted_ms": 1, "next_launch": (("TF_FORCE_GPU_ALLOW_GROWTH", "true"),)},
        ),
    ],
    ids=["nobody waits", "who waits wants a GPU alone", "it would lose its work", "it was tried"],
)
def test_hog_is_not_started_again_for_nothing(waiting: Any, changes: Any) -> None:
    assert hog_with(waiting, **changes) == ("SetEnvAtRestart",)


@pytest.mark.parametrize("needed_gib", [75, 67, 55])
def test_small_excess_is_no_hog(needed_gib: int) -> None:
    state = cluster([(job("a", memory_held_bytes=72 * GIB), ("g0",))])
    seen = observed(use("a", memory_needed_bytes=needed_gib * GIB))
    assert memory_cap.advise(state, seen, LIMITS, RULES) == ()


def sized(**changes: Any) -> Advice | Abstain:
    state = cluster([(job("a"), ("g0",))])
    (answer,) = right_size.advise(state, observed(use("a", hours=168, **changes)), LIMITS, RULES)
    return answer


def test_nine_of_eighty_gigabytes_and_14_percent_for_a_week_is_a_seventh_or_two_tenths() -> None:
    answer = sized(memory_peak_bytes=9 * GIB)
    assert isinstance(answer, Advice)
    assert "0.2 of a" in answer.what or "1g.20gb" in answer.what
    assert answer.steps == ()
    assert answer.gain_gpu_hours > 100
    assert answer.gain_money == pytest.approx(answer.gain_gpu_hours * 3.0)
    assert "9 GiB of 80 GiB and 14%" in answer.why and "7 d" in answer.why


@pytest.mark.parametrize(
    ("peak_gib", "busy", "share", "room"),
    [
        # memory: of 80 GiB a shared GPU gives 78; 20 / 0.85 = 23.53, of 78 that is 0.302
        (20, 0.15, "0.4", "Memory decides the share, with 15% to spare. A GPU that is shared gives 78 GiB"),
        # 19.5 / 0.85 = 22.94, of 78 that is 0.294
        (19.5, 0.15, "0.3", "Memory decides the share, with 15% to spare."),
        # 24% / 0.8 is 0.3 exactly, also where the number is a float's next one above
        (9, 0.24, "0.3", "The busiest minutes decide the share, with 20% to spare."),
        (9, 0.24000000001, "0.3", "The busiest minutes decide the share"),
        (9, 0.241, "0.4", "The busiest minutes decide the share"),
    ],
)
def test_a_share_is_the_next_tenth_and_says_what_decides_it(
    peak_gib: float, busy: float, share: str, room: str
) -> None:
    answer = sized(
        memory_peak_bytes=round(peak_gib * GIB), utilization_p95_ratio=busy, controller_p95_ratio=None
    )
    assert isinstance(answer, Advice)
    assert f"ask for {share} of a" in answer.what
    assert room in answer.why


@pytest.mark.parametrize("rung", [Basis.SM_ACTIVE, Basis.GPU_UTILIZATION])
@pytest.mark.parametrize("share", [1.0, 0.5])
def test_who_reads_memory_all_the_time_is_given_no_smaller_size_of_any_kind(
    rung: Basis, share: float
) -> None:
    """A slice, a tenth of a GPU, a part of a share: each has a part of the bandwidth, or shares it."""
    state = cluster([(job("a", share=share), ("g0",))])
    for touched, is_advised in ((0.1, True), (0.11, False), (0.6, False)):
        seen = observed(use("a", controller_p95_ratio=touched, rung=rung))
        (answer,) = right_size.advise(state, seen, LIMITS, RULES)
        assert isinstance(answer, Advice) is is_advised
        if isinstance(answer, Abstain):
            assert answer.reason.startswith(f"its memory is read or written for {touched:.0%} of the time")


@pytest.mark.parametrize(
    ("touched", "kernels", "risk"),
    [
        (0.03, 1.0, "its kernels run 100% of the time while it works: with fewer SMs they may take longer"),
        (0.03, 0.5, ""),
        (None, 0.5, "how much it reads and writes memory is not measured"),
    ],
)
def test_the_risk_tells_of_kernels_that_never_pause_and_of_what_nobody_measured(
    touched: float | None, kernels: float, risk: str
) -> None:
    answer = sized(utilization_p95_ratio=0.5, controller_p95_ratio=touched, kernels_ratio=kernels)
    assert isinstance(answer, Advice) and "ask for 0.7 of a" in answer.what  # 0.5 / 0.8 = 0.625
    assert risk in answer.risk
    assert ("kernels run" in answer.risk) is (kernels == 1.0)
    assert ("not measured" in answer.risk) is (touched is None)


def test_small_job_fits_the_smallest_slice() -> None:
    answer = sized(memory_peak_bytes=7 * GIB, utilization_p95_ratio=0.09, rung=Basis.GPU_UTILIZATION)
    assert isinstance(answer, Advice) and "1g.10gb" in answer.what
    assert answer.gain_gpu_hours == pytest.approx(168 * 6 / 7)


@pytest.mark.parametrize(
    "changes",
    [
        {"memory_peak_bytes": 70 * GIB},
        {"utilization_p95_ratio": 0.9},
        {"utilization_p95_ratio": None},
        {"memory_peak_bytes": None},
        {"coverage_ratio": 0.9},
        {"others": True},
        {"by_engines": True, "utilization_p95_ratio": 0.0},
        {"controller_p95_ratio": 0.5, "rung": Basis.GPU_UTILIZATION},
    ],
)
def test_no_smaller_size_without_room_or_measurement(changes: dict[str, Any]) -> None:
    answer = sized(**changes)
    assert isinstance(answer, Abstain) and answer.reason


@pytest.mark.parametrize(("others", "who"), [(False, "takes 10 GiB"), (True, "all who hold it take 10 GiB")])
def test_the_memory_of_a_shared_gpu_is_not_said_to_be_one_jobs(others: bool, who: str) -> None:
    state = cluster([(job("a"), ("g0",))])
    seen = observed(use("a", others=others, memory_peak_bytes=10 * GIB))
    said = Decisions(state=state, observed=seen, answers=(), plan=Plan(as_of_ms=0))
    assert any(f"and {who} (" in fact for fact in job_facts(state.jobs[job("a").id], said))


@pytest.mark.parametrize(
    ("changes", "would_change"),
    [
        ({"coverage_ratio": 0.9}, "a record with fewer gaps"),
        ({"others": True}, "a record of it alone on its GPU"),
        ({"memory_peak_bytes": None}, "a source that measures both"),
        ({"by_engines": True}, ""),
    ],
)
def test_what_would_change_it_is_of_the_reason(changes: dict[str, Any], would_change: str) -> None:
    """No longer record makes the SMs say what a video engine needs."""
    answer = sized(**changes)
    assert isinstance(answer, Abstain) and answer.would_change == would_change


def test_a_few_hours_are_too_thin_to_tell_a_size() -> None:
    state = cluster([(job("a"), ("g0",))])
    (answer,) = right_size.advise(state, observed(use("a", hours=5)), LIMITS, RULES)
    assert isinstance(answer, Abstain) and "it takes 1 d to tell" in answer.reason


def test_inference_is_not_sized_by_minutes() -> None:
    state = cluster([(job("a", kind=JobKind.INFERENCE), ("g0",))])
    (answer,) = right_size.advise(state, observed(use("a")), LIMITS, RULES)
    assert isinstance(answer, Abstain) and "it serves others" in answer.reason


def test_gpus_that_never_computed_are_given_back() -> None:
    state = cluster([(job("a", min_gpus=4, max_gpus=4), ("g0", "g1", "g2", "g3"))])
    seen = observed(use("a", gpus_used=2, held_gpu_hours=96.0))
    (advice,) = advised(right_size.advise(state, seen, LIMITS, RULES))
    assert "2 instead of 4 GPUs" in advice.what
    assert advice.gain_gpu_hours == pytest.approx(48)


@pytest.mark.parametrize(
    ("held", "risk"),
    [
        (GIB // 2, "none seen: the others never computed, and hold no data"),
        (None, "what memory they hold is not measured"),
        (70 * GIB, None),
    ],
)
def test_gpus_that_hold_data_are_not_given_back(held: int | None, risk: str | None) -> None:
    """It computes on two of four, and the other two hold its layers: on two it would not fit."""
    state = cluster([(job("a", min_gpus=4, max_gpus=4), ("g0", "g1", "g2", "g3"))])
    seen = observed(use("a", gpus_used=2, held_gpu_hours=96.0, memory_unused_bytes=held))
    (answer,) = right_size.advise(state, seen, LIMITS, RULES)
    if isinstance(answer, Advice):
        assert risk is not None and risk in answer.risk
        assert (answer.confidence >= 0.9) is (held is not None)
    else:
        assert risk is None
        assert answer.reason.startswith(
            "it computes on 2 of its 4 GPUs, and keeps data on the others, 70 GiB on the fullest"
        )
        assert answer.would_change


@pytest.mark.parametrize(
    ("used", "reason"),
    [
        (8, "no size is known for several GPUs"),
        (7, "it computes on 7 of its 8 GPUs: fewer saves under 25%"),
    ],
)
def test_no_size_is_known_for_several_gpus(used: int, reason: str) -> None:
    """At 6% of eight GPUs nothing says that what it has fits."""
    state = cluster([(job("a", min_gpus=8, max_gpus=8), tuple(f"g{at}" for at in range(8)))])
    seen = observed(use("a", gpus_used=used, utilization_mean_ratio=0.06, memory_peak_bytes=10 * GIB))
    (answer,) = right_size.advise(state, seen, LIMITS, RULES)
    assert isinstance(answer, Abstain) and answer.reason == reason


@pytest.mark.parametrize(
    ("total", "shown"), [(80 * GIB, "It used 9 GiB of 80 GiB and"), (None, "It used 9 GiB and")]
)
def test_a_memory_whose_size_is_not_known_is_not_named(total: int | None, shown: str) -> None:
    cards = tuple(gpu(f"g{at}", memory_bytes=total) for at in range(4))
    state = cluster([(job("a", min_gpus=4, max_gpus=4), ("g0", "g1", "g2", "g3"))], gpus=cards)
    seen = observed(use("a", gpus_used=2, held_gpu_hours=96.0))
    (advice,) = advised(right_size.advise(state, seen, LIMITS, RULES))
    assert advice.why.startswith(shown)


def test_cheaper_model_is_named_with_a_warning() -> None:
    small = gpu("l4", "n2", model="NVIDIA L4", memory_bytes=24 * GIB)
    state = cluster([(job("a"), ("g0",))], gpus=(gpu("g0"), small))
    seen = observed(
        use("a", rung=Basis.GPU_UTILIZATION, controller_p95_ratio=None),
        prices={
            H100: Price(per_gpu_hour=3, currency="EUR"),
            "NVIDIA L4": Price(per_gpu_hour=0.3, currency="EUR"),
        },
    )
    (advice,) = advised(right_size.advise(state, seen, LIMITS, RULES))
    assert "NVIDIA L4" in advice.what and "never measured" in advice.risk and advice.confidence < 0.5


def test_slices_come_from_the_guide_and_instances_are_not_cut_again() -> None:
    names = [piece.name for piece in slices_of("NVIDIA A100-SXM4-40GB", 40 * GIB)]
    assert slices_of("NVIDIA GB200", 186 * GIB) == (), "its profiles are not a B200's"
    assert names == ["1g.5gb", "1g.10gb", "2g.10gb", "3g.20gb", "4g.20gb"]
    assert slices_of("NVIDIA A100-SXM4-40GB MIG 1g.5gb", 5 * GIB) == ()
    assert slices_of("NVIDIA L4", 24 * GIB) == () == slices_of(None, None)


MEMORY_GIB = {
    ("NVIDIA A30", 24): {"1g.6gb": 5.81, "2g.12gb": 11.69},
    ("NVIDIA A100-SXM4-40GB", 40): {"1g.5gb": 4.75, "2g.10gb": 9.62, "3g.20gb": 19.5, "4g.20gb": 19.5},
    ("NVIDIA A100-SXM4-80GB", 80): {"1g.10gb": 9.5, "2g.20gb": 19.5, "3g.40gb": 39.25, "4g.40gb": 39.25},
    ("NVIDIA H100 80GB HBM3", 80): {"1g.10gb": 9.62, "2g.20gb": 19.5, "3g.40gb": 39.25, "4g.40gb": 39.25},
    ("NVIDIA H100 NVL", 94): {"1g.12gb": 10.62, "2g.24gb": 21.5, "3g.47gb": 46.12, "4g.47gb": 46.12},
    ("NVIDIA GH200 480GB", 96): {"1g.12gb": 11.0, "2g.24gb": 23.0, "3g.48gb": 46.5, "4g.48gb": 46.5},
    ("NVIDIA H200", 140): {"1g.18gb": 16.0, "2g.35gb": 32.5, "3g.71gb": 70.2, "4g.71gb": 70.2},
    ("NVIDIA B200", 179): {"1g.23gb": 22.4, "2g.45gb": 44.8, "3g.90gb": 89.5, "4g.90gb": 89.5},
}
"""What ``nvidia-smi mig -lgip`` lists, the least of several drivers; of an H200's largest two and of a B200
no listing was found: there it is the part of the board that NVIDIA's guide gives (1/8, 2/8, 4/8)."""

SMS = {"A30": (14, 56), "A100": (14, 108), "H100 80GB": (16, 132), "H200": (16, 132), "B200": (18, 148)}
"""SMs of the smallest profile, as listed, and of the board, by its data sheet: under 1/7 but on an A30."""


@pytest.mark.parametrize("board", MEMORY_GIB)
def test_a_profile_has_the_memory_that_its_driver_lists_and_not_its_names(board: tuple[str, int]) -> None:
    model, gib = board
    known = {piece.name: piece for piece in slices_of(model, gib * GIB)}
    for name, least in MEMORY_GIB[board].items():
        assert 0.85 * least <= known[name].memory_bytes / GIB <= least + 0.001, name
    for word, (own, sms) in SMS.items():
        if model.startswith(f"NVIDIA {word}"):
            assert min(piece.sm_ratio for piece in known.values()) == pytest.approx(own / sms)


@pytest.mark.parametrize(
    ("model", "gib", "peak", "profile"),
    [
        # 85% of 16.0 GiB are 13.6: of the 18 of its name it would be 15.3
        ("NVIDIA H200", 140, 13.5, "1g.18gb"),
        ("NVIDIA H200", 140, 14.5, "1g.35gb"),
        # 85% of 9.5 GiB are 8.1
        ("NVIDIA A100-SXM4-80GB", 80, 8.0, "1g.10gb"),
        ("NVIDIA A100-SXM4-80GB", 80, 8.3, "1g.20gb"),
        # 85% of 4.75 GiB are 4.0
        ("NVIDIA A100-SXM4-40GB", 40, 4.1, "1g.10gb"),
        ("NVIDIA A30", 24, 5.1, "2g.12gb"),
    ],
)
def test_a_peak_is_held_against_the_profiles_memory(model: str, gib: int, peak: float, profile: str) -> None:
    board = gpu("g0", model=model, memory_bytes=gib * GIB)
    seen = use(
        "a", memory_peak_bytes=round(peak * GIB), utilization_p95_ratio=0.05, rung=Basis.GPU_UTILIZATION
    )
    (advice,) = advised(
        right_size.advise(cluster([(job("a"), ("g0",))], gpus=(board,)), observed(seen), LIMITS, RULES)
    )
    assert f"a {profile} slice" in advice.what


def test_compute_is_held_against_the_profiles_sms() -> None:
    """80% of 16 of 132 SMs are 9.7%; a seventh would allow 11.4%. The next has 26: 80% of them are 15.7%."""
    names = []
    for busy in (0.095, 0.11):
        answer = sized(memory_peak_bytes=4 * GIB, utilization_p95_ratio=busy, rung=Basis.GPU_UTILIZATION)
        assert isinstance(answer, Advice)
        names.append(answer.what.split(" slice")[0].split()[-1])
    assert names == ["1g.10gb", "1g.20gb"]


def test_who_uses_video_engines_is_advised_no_slice() -> None:
    """A 1g.5gb of an A100 has no decoder, and no profile of it an engine for JPEG."""
    small = {"memory_peak_bytes": 2 * GIB, "utilization_p95_ratio": 0.05}
    none = sized(**small, rung=Basis.GPU_UTILIZATION, uses_engines=True)
    assert isinstance(none, Abstain) and "video engines" in none.reason
    share = sized(**small, uses_engines=True)
    assert isinstance(share, Advice) and "slice" not in share.what and "video engines" in share.risk


def test_an_instance_of_another_model_is_no_cheaper_board() -> None:
    """It bears its board's name and has the memory of a part of it; no price is its own."""
    part = gpu("i0", "n2", model="NVIDIA A100-SXM4-80GB", memory_bytes=39 * GIB, part_of_device=3 / 7)
    state = cluster([(job("a"), ("g0",))], gpus=(gpu("g0"), part))
    prices = {
        name: Price(per_gpu_hour=rate, currency="EUR") for name, rate in ((H100, 3.0), (part.model, 0.3))
    }
    seen = use("a", rung=Basis.GPU_UTILIZATION, controller_p95_ratio=None)
    (answer,) = right_size.advise(state, observed(seen, prices=prices), LIMITS, RULES)
    assert isinstance(answer, Abstain)


def test_jobs_that_pass_the_rule_kept_their_speed_on_misos_slices(shared: Path) -> None:
    """MISO's A100 jobs: whoever the rule gives a slice ran there at ``MIG_WORST`` or more, as measured."""
    folder = shared / "traces" / "miso"
    with (folder / "a100_mig_iteration_time.csv").open() as file:
        speeds = {
            (row["model"], row["batch_size"], row["mig_profile"]): float(row["rel_speed_vs_7g"])
            for row in csv.DictReader(file)
        }
    a100 = gpu("g0", model="NVIDIA A100-PCIE-40GB", memory_bytes=40 * GIB)
    state = cluster([(job("a"), ("g0",))], gpus=[a100])
    reached = {}
    with (folder / "a100_single_job_profile.csv").open() as file:
        for row in csv.DictReader(file):
            seen = use(
                "a",
                utilization_p95_ratio=float(row["sm_util_pct"]) / 100,
                controller_p95_ratio=float(row["mem_bw_util_pct"]) / 100,
                memory_peak_bytes=round(float(row["gpu_mem_used_mib"])) << 20,
                rung=Basis.GPU_UTILIZATION,
            )
            (answer,) = right_size.advise(state, observed(seen), LIMITS, RULES)
            if isinstance(answer, Advice):
                profile = answer.what.split(" slice")[0].split()[-1]
                reached[row["model"], row["batch_size"]] = speeds.get(
                    (row["model"], row["batch_size"], profile)
                )
    measured = [speed for speed in reached.values() if speed is not None]
    assert len(measured) >= 3, reached
    assert min(measured) >= right_size.MIG_WORST, reached


def halves(**changes: Any) -> Any:
    """Two half-used GPUs and a gang that waits for a whole one."""
    jobs = [
        (job("a", share=0.5, may_share=True, **changes), ("g0",)),
        (job("b", user="bob", share=0.5, may_share=True, **changes), ("g1",)),
    ]
    gang = job("gang", user="cy", phase=Phase.PENDING, started_ms=None, use=Use.UNKNOWN)
    return cluster(jobs, gpus=(gpu("g0"), gpu("g1")), waiting=[gang])


def test_two_half_used_gpus_become_one_for_a_gang_that_waits() -> None:
    state = halves()
    (advice,) = advised(consolidate.advise(state, observed(), LIMITS, RULES))
    move, start = advice.steps
    assert isinstance(move, Move) and isinstance(start, Start)
    after = replay(state, advice.steps)
    assert len({placement.gpus for placement in after.placements.values()}) == 2
    assert after.jobs[start.job].phase is Phase.RUNNING
    # of the next four hours: none of two has ended that began ten hours ago, and the gang would run on
    chances = ((10.5 / (10.5 + x / 1000)) ** 2 * 0.5 / (0.5 + x / 1000) for x in range(4000))
    waits_h = sum(chances) / 1000
    assert advice.gain_gpu_hours == pytest.approx(waits_h - 0.5 * RULES.move_s / 3600, rel=0.02)


def test_move_that_does_not_pay_is_not_advised() -> None:
    state = halves()
    gang = next(each for each in state.jobs.values() if each.phase is Phase.PENDING)
    brief = replace(state, jobs={**state.jobs, gang.id: replace(gang, limit_s=50.0)})
    (answer,) = consolidate.advise(brief, observed(), LIMITS, RULES)
    assert isinstance(answer, Abstain) and "less than 2 times as much" in answer.reason


@pytest.mark.parametrize(("first", "second", "pairs"), [(True, True, 1), (True, False, 0), (False, False, 0)])
def test_strangers_are_only_paired_when_both_opted_in(first: bool, second: bool, pairs: int) -> None:
    both = [(job("a", may_share=first), ("g0",)), (job("b", user="bob", may_share=second), ("g1",))]
    answers = pack.advise(cluster(both), observed(use("a"), use("b")), LIMITS, RULES)
    assert len(advised(answers)) == pairs


def test_gang_that_fits_gets_no_moves() -> None:
    state = halves()
    roomy = replace(state, gpus={**state.gpus, **{gpu("g2").uuid: gpu("g2")}})
    assert consolidate.advise(roomy, observed(), LIMITS, RULES) == ()


def test_pair_steps_are_possible_and_free_a_gpu() -> None:
    state = cluster([(job("a"), ("g0",)), (job("b"), ("g1",))])
    (advice,) = advised(pack.advise(state, observed(use("a"), use("b")), LIMITS, RULES))
    after = replay(state, advice.steps)
    assert len({placement.gpus for placement in after.placements.values()}) == 1
    assert "may run at" in advice.risk and advice.risk_to == ("ann",)


def test_of_two_that_nobody_tried_the_one_that_counts_its_steps_is_the_foreground() -> None:
    for counts, other in (("a", "b"), ("b", "a")):
        both = [(job(each, paced=each == counts), (f"g{n}",)) for n, each in enumerate("ab")]
        (advice,) = advised(pack.advise(cluster(both), observed(use("a"), use("b")), LIMITS, RULES))
        assert advice.job == other and [step.job for step in advice.steps] == [counts, other]
        assert "for 150 s before it is undone" in advice.risk
    state = cluster([(job("a"), ("g0",)), (job("b"), ("g1",))])
    (advice,) = advised(pack.advise(state, observed(use("a"), use("b")), LIMITS, RULES))
    assert "nobody counts its steps here, so it is not undone by itself" in advice.risk


def test_who_does_not_count_steps_gets_no_neighbour_by_itself_and_one_by_a_persons_yes() -> None:
    auto = Limits(modes={ActionClass.PACK: Mode.AUTO})
    for paced, done in ((True, 2), (False, 0)):
        state = cluster([(job("a", paced=paced), ("g0",)), (job("b"), ("g1",))])
        advice = pack.advise(state, observed(use("a"), use("b")), auto, RULES)
        plan = decide(state, auto, advice)
        ruling = approve(plan, state, auto)
        assert len(ruling.approved.steps) == done, ruling.refused
        assert len(approve(plan, state, auto, frozenset(plan.steps)).approved.steps) == 2
    assert "nobody counts its steps" in ruling.refused[0].reason
    assert "fallow.listen()" in ruling.refused[0].would_change


@pytest.mark.parametrize(
    ("first", "second", "says"),
    [
        ({"utilization_p95_ratio": 0.6}, {}, "60% busy"),
        ({"memory_peak_bytes": 75 * GIB}, {}, "nobody who may share"),
        ({"utilization_p95_ratio": 0.48}, {"utilization_p95_ratio": 0.48}, "nobody who may share"),
        ({"coverage_ratio": 0.5}, {}, "only 50%"),
        ({"rung": Basis.GPU_UTILIZATION}, {}, "SM active is not measured"),
        ({"others": True}, {}, "not its own"),
        ({"by_engines": True}, {}, "video engines"),
    ],
)
def test_who_does_not_fit_is_not_paired(first: dict[str, Any], second: dict[str, Any], says: str) -> None:
    state = cluster([(job("a"), ("g0",)), (job("b"), ("g1",))])
    answers = pack.advise(state, observed(use("a", **first), use("b", **second)), LIMITS, RULES)
    assert not advised(answers)
    assert any(says in answer.reason for answer in answers if isinstance(answer, Abstain)), answers


def test_idle_jobs_are_not_packed_but_reclaimed() -> None:
    state = cluster([(idle_job("a"), ("g0",)), (job("b"), ("g1",))])
    assert not advised(pack.advise(state, observed(use("a"), use("b")), LIMITS, RULES))

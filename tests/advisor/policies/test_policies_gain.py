"""A gain is of boards: an instance counts as its part of one, a share as a share."""

from typing import Any

import pytest

from advisor.live.job_use import use_of
from advisor.live.snapshot import Site
from advisor.planner.limits import Limits, PlannerConfig
from advisor.planner.plan import Abstain
from advisor.policies import idle_reclaim, right_size
from advisor.whatif.history_rows import past_job_of
from tests.advisor.policies.scene import GIB, advised, cluster, gpu, idle_job, job, observed, stretch, use

RULES = PlannerConfig(resume_s=0)
LONG = tuple(stretch(6000, user="bob") for _ in range(12))
"""Idle times that outlast every horizon: all of the 4 h are expected to lie idle."""


@pytest.mark.parametrize(
    ("parts", "share", "gpus"),
    [
        ((None,), 1.0, 1.0),
        ((3 / 7,), 1.0, 3 / 7),
        ((3 / 7, 3 / 7), 1.0, 6 / 7),
        ((None,), 0.5, 0.5),
    ],
)
def test_what_an_idle_job_gives_back_is_its_part_of_the_boards(
    parts: tuple[float | None, ...], share: float, gpus: float
) -> None:
    names = tuple(f"g{at}" for at in range(len(parts)))
    there = [gpu(name, part_of_device=part) for name, part in zip(names, parts, strict=True)]
    state = cluster([(idle_job(minutes=150, share=share), names)], gpus=there)
    (advice,) = advised(idle_reclaim.advise(state, observed(stretches=LONG), Limits(), RULES))
    assert advice.gain_gpu_hours == pytest.approx(4.0 * gpus)
    assert advice.gain_money == pytest.approx(4.0 * gpus * 3.0)


def test_fewer_instances_save_their_part_of_a_board() -> None:
    """Two instances of 2/7 for a day, of which one never computed: 24 h of 2/7 of a board."""
    there = [gpu(name, part_of_device=2 / 7) for name in ("g0", "g1")]
    state = cluster([(job("two"), ("g0", "g1"))], gpus=there)
    seen = use("two", held_gpu_hours=48.0 * 2 / 7, gpus_used=1)
    (advice,) = advised(right_size.advise(state, observed(seen), Limits(), RULES))
    assert advice.gain_gpu_hours == pytest.approx(24 * 2 / 7)
    assert "1 instead of 2 MIG instances" in advice.what


def test_one_instance_is_advised_no_share_of_its_board() -> None:
    """3g.40gb at 50% of its own SMs: 0.7 of the board is more than the 3/7 that are held."""
    there = [gpu("g0", part_of_device=3 / 7, mig_profile="3g.40gb", memory_bytes=40 * GIB)]
    state = cluster([(job("nia"), ("g0",))], gpus=there)
    seen = use("nia", held_gpu_hours=24 * 3 / 7, utilization_p95_ratio=0.5, memory_peak_bytes=20 * GIB)
    (answer,) = right_size.advise(state, observed(seen), Limits(), RULES)
    assert isinstance(answer, Abstain) and "MIG instance" in answer.reason


@pytest.mark.parametrize(
    ("parts", "profiles", "named"),
    [
        ((4 / 7,), ("4g.40gb",), "1 MIG instance 4g.40gb on"),
        ((3 / 7, 4 / 7), ("3g.40gb", "4g.40gb"), "2 MIG instances 3g.40gb or 4g.40gb on"),
        ((4 / 7,), (None,), "1 MIG instance on"),
    ],
)
def test_an_idle_instance_is_named_as_one(
    parts: tuple[float, ...], profiles: tuple[str | None, ...], named: str
) -> None:
    names = tuple(f"g{at}" for at in range(len(parts)))
    told = zip(names, parts, profiles, strict=True)
    there = [gpu(name, part_of_device=part, mig_profile=profile) for name, part, profile in told]
    state = cluster([(idle_job(minutes=150), names)], gpus=there)
    (advice,) = advised(idle_reclaim.advise(state, observed(stretches=LONG), Limits(), RULES))
    assert named in advice.what


def test_hours_of_an_instance_are_its_part_of_the_device_live_and_past() -> None:
    """25 h of 3/7 of a board are 10.7 GPU-hours; of them 7 h idle are 3."""
    hour_ms = 3_600_000
    live: dict[str, Any] = {
        "job": "slurm:2", "uuid": "MIG-1", "seen_from_ms": 0, "share": 1.0, "measured_ms": 25 * hour_ms,
        "idle_ms": 7 * hour_ms, "rung": 3, "utilization_mean_ratio": 0.5, "utilization_p95_ratio": 0.5,
        "memory_peak_bytes": 1, "busy_minutes": 9, "others": 0, "engine_ms": 0,
    }  # fmt: skip
    now = use_of([live], {}, {"MIG-1": 3 / 7}, 25 * hour_ms)
    past = past_job_of(
        {
            **live,
            "user_name": "nia",
            "project": None,
            "job_name": None,
            "kind": "batch",
            "framework": None,
            "gpus": 1,
            "model": "H100",
            "memory_total_bytes": 1,
            "part_of_device": 3 / 7,
            "from_ms": 0,
            "to_ms": 25 * hour_ms,
            "expected_ms": 25 * hour_ms,
            "gpus_used": 1,
            "controller_p95_ratio": 0.3,
        },
        Site(),
    ).use
    assert (past.controller_p95_ratio, past.uses_engines) == (0.3, True)
    for seen in (now, past):
        assert (seen.held_gpu_hours, seen.idle_gpu_hours) == pytest.approx((75 / 7, 3.0))


@pytest.mark.parametrize(
    ("idle_bytes", "unused"), [([5, 7], 7), ([5, None], None), ([None, 7], None), ([], None)]
)
def test_memory_of_unused_gpus_is_that_of_the_fullest(idle_bytes: list[int | None], unused: Any) -> None:
    """Of those with under two busy minutes; one that is not measured may be the fullest."""
    rows: list[dict[str, Any]] = [
        {
            "job": "slurm:2", "uuid": f"g{at}", "seen_from_ms": 0, "share": 1.0, "measured_ms": 1,
            "idle_ms": 0,
            "rung": 3, "utilization_mean_ratio": 0.5, "utilization_p95_ratio": 0.5, "memory_peak_bytes": held,
            "busy_minutes": busy, "others": 0, "engine_ms": 0,
        }
        for at, (held, busy) in enumerate([(99, 2), *((held, 1) for held in idle_bytes)])
    ]  # fmt: skip
    assert use_of(rows, {}, {}, 25 * 3_600_000).memory_unused_bytes == unused


@pytest.mark.parametrize(
    ("kept", "newest", "known"), [(0.3, 0.02, 0.3), (0.02, 0.3, 0.3), (None, 0.02, 0.02), (None, None, None)]
)
def test_the_memorys_traffic_is_the_larger_of_all_minutes_and_the_newest_hours(
    kept: float | None, newest: float | None, known: float | None
) -> None:
    """The newest two hours of a long run may be its quiet end; minutes of an older store have no traffic."""
    row: dict[str, Any] = {
        "job": "slurm:2", "uuid": "g", "seen_from_ms": 0, "share": 1.0, "measured_ms": 1, "idle_ms": 0,
        "rung": 3, "utilization_mean_ratio": 0.5, "utilization_p95_ratio": 0.5, "memory_peak_bytes": 1,
        "busy_minutes": 9, "others": 0, "engine_ms": 0, "controller_p95_ratio": kept,
    }  # fmt: skip
    lately = {} if newest is None else {"g": {"controller_p95_ratio": newest}}
    assert use_of([row], lately, {}, 25 * 3_600_000).controller_p95_ratio == known

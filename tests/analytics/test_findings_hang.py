"""A job that may hang: told by its own past, on all of its GPUs at once; who only looks so is left alone.

Expected values are the world's: a spinning collective shows as 100% GPU utilization at about 70 to 100 W of
an A100 (NVIDIA/nccl#968), its SMs at a few percent, its memory hardly read.
"""

from dataclasses import replace
from typing import Any

import pytest

from analytics.findings import judge, judge_jobs
from analytics.findings.hang import without_hung
from analytics.model import Claim, Finding, FindingKind, GpuPast, PowerFall
from analytics.thresholds import Thresholds
from collector.model import Basis, GpuUuid, JobKind
from tests.analytics.pasts import BINS, NOON_MS, TICK_MS, bins, claim, minutes_before_noon, past, then

T = Thresholds()
SIX_HOURS_MIN = 360
SPINS = {"utilization": 0.05, "gpu_utilization": 1.0, "busiest": 1.0, "power_mw": 95_000}


def fall(minutes: float = SIX_HOURS_MIN, **changes: float) -> PowerFall:
    values = {"before_mw": 350_000.0, "now_mw": 95_000.0, "measured_ratio": 1.0} | changes
    return PowerFall(fell_ms=minutes_before_noon(minutes), **values)


def held(kind: JobKind | None = JobKind.BATCH) -> Claim:
    return claim(54.0, kind=kind, idle_gpu_hours=None, busy_until_ms=NOON_MS)


def stuck(place: int, minutes: float = SIX_HOURS_MIN, **changes: Any) -> GpuPast:
    """A GPU of a training whose power fell so long ago, and whose kernel never ends; a limit of 400 W."""
    own = changes.pop("held", held())
    columns = SPINS | changes.pop("columns", {})
    values = {"bins": bins(**columns), "power_fall": fall(minutes), "power_limit_mw": 400_000} | changes
    return past(own, uuid=GpuUuid(f"GPU-{place}"), gpu_index=place, **values)


def said(*pasts: GpuPast) -> list[Finding]:
    verdicts = [judge(each, NOON_MS, T, TICK_MS) for each in pasts]
    by_gpu = [finding for verdict in verdicts for finding in verdict.findings]
    return list(without_hung((*judge_jobs(pasts, verdicts, T), *by_gpu)))


def kinds(*pasts: GpuPast) -> list[str]:
    return [found.kind.value for found in said(*pasts)]


def test_a_training_whose_kernels_never_end_may_hang_and_nothing_else_is_said() -> None:
    (found,) = said(stuck(0), stuck(1))
    assert (found.kind, found.since_ms, found.wasted_gpu_hours) == (
        FindingKind.MAY_HANG,
        minutes_before_noon(SIX_HOURS_MIN),
        None,
    )
    assert found.sentence == (
        "amara (job sweep) may hang: GPU 0 and 1 of node1 have drawn 95 W each since 2026-10-28 06:00 UTC, "
        "for 6 h, and 350 W before; in the last 1 h kernels ran all the time at 5.0% (SM active). Processes "
        "that wait for each other look so, and so may a long phase of small kernels."
    )
    evidence = {each.name: each.value for each in found.evidence}
    assert (evidence["gpus_stuck"], evidence["stuck_gpu_hours"]) == (2, 12.0)


@pytest.mark.parametrize(
    ("why", "columns", "changes"),
    [
        ("it always drew so little", {}, {"power_fall": None}),
        ("it fell by a third, as an evaluation does", {}, {"power_fall": fall(before_mw=140_000.0)}),
        ("it fell 40 minutes ago", {}, {"power_fall": fall(40)}),
        ("half of the time since was not measured", {}, {"power_fall": fall(measured_ratio=0.5)}),
        ("it reads its weights, as a model that decodes does", {"memory_controller": 0.4}, {}),
        ("its SMs are half active", {"utilization": 0.5}, {}),
        ("its kernels pause", {"gpu_utilization": 0.9}, {}),
        ("its power goes up and down", {"power_mw": (80_000, 110_000) * (BINS // 2)}, {}),
        ("half of its limit is no spinning", {"power_mw": 200_000}, {"power_fall": fall(now_mw=170_000.0)}),
        ("its power is not told", {"power_mw": None}, {}),
        ("its kernels are not told", {"gpu_utilization": None}, {}),
    ],
)
def test_who_only_looks_so_is_not_told(why: str, columns: dict[str, Any], changes: dict[str, Any]) -> None:
    pasts = [stuck(place, columns=columns, **changes) for place in range(2)]
    assert "may-hang" not in kinds(*pasts), why


def test_an_hour_that_stood_still_is_asked_not_what_came_before() -> None:
    still = {"power_mw": then((BINS - 120, 300_000), (120, 95_000))}
    assert kinds(*(stuck(place, 61, columns=still) for place in range(2))) == ["may-hang"]


@pytest.mark.parametrize("kind", [JobKind.INFERENCE, JobKind.INTERACTIVE])
def test_servers_have_the_load_of_their_callers_and_terminals_many_programs(kind: JobKind) -> None:
    assert "may-hang" not in kinds(*(stuck(place, held=held(kind)) for place in range(2)))


def test_gpus_that_fell_at_different_times_did_not_stop_together() -> None:
    assert "may-hang" not in kinds(stuck(0), stuck(1, SIX_HOURS_MIN - 30))
    assert "may-hang" in kinds(stuck(0), stuck(1, SIX_HOURS_MIN - 4))


def test_one_that_evaluates_on_the_cpu_while_others_wait_is_no_hang() -> None:
    """Its process is there, and may be at work beside its GPU: it will come back, as far as anybody knows."""
    idle = stuck(0, columns={"gpu_utilization": 0.0, "utilization": 0.0, "busiest": 0.0})
    assert "may-hang" not in kinds(idle, stuck(1), stuck(2))


def test_others_that_spin_since_one_rank_died_may_hang() -> None:
    dead = past(
        replace(held(), busy_until_ms=minutes_before_noon(SIX_HOURS_MIN)),
        uuid=GpuUuid("GPU-0"),
        gpu_index=0,
        bins=bins(utilization=0.0, processes=0, memory_bytes=0),
    )
    found = said(dead, stuck(1), stuck(2))
    assert [each.kind.value for each in found] == ["may-hang", "allocated-empty"]
    assert "Nothing is seen on 1 other GPU of it." in found[0].sentence


def test_by_gpu_utilization_alone_the_fall_of_several_is_enough_and_that_of_one_is_not() -> None:
    alone = {"rung": Basis.GPU_UTILIZATION, "columns": {"utilization": 1.0, "memory_controller": None}}
    assert kinds(stuck(0, **alone), stuck(1, **alone)) == ["may-hang"]
    assert kinds(stuck(0, **alone)) == []
    assert kinds(stuck(0)) == ["may-hang"], "where its SMs are seen to do next to nothing"


def test_counters_that_contradict_each_other_say_nothing_of_a_hang() -> None:
    latched = {"power_mw": 61_000}
    assert (
        kinds(*(stuck(place, columns=latched, power_fall=fall(now_mw=61_000.0)) for place in range(2)))
        == ["suspect-counters"] * 2
    )

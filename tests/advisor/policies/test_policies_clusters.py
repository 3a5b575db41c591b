"""No move, pack or resize goes from one cluster to another. Pure; the states are written by hand."""

from dataclasses import replace

import pytest

from advisor.actions import Move, Start
from advisor.planner.limits import Limits, Mode, PlannerConfig
from advisor.planner.placement import Board
from advisor.planner.plan import Advice
from advisor.planner.transition import StepError, transition
from advisor.policies import consolidate, pack
from advisor.state.model import ActionClass, ClusterState, Gpu, Phase, Use
from collector.model import GpuUuid
from tests.advisor.policies.scene import GIB, advised, cluster, gpu, job, observed, use

AUTO = Limits(modes=dict.fromkeys(ActionClass, Mode.AUTO), actions_per_hour=None)
RULES = PlannerConfig()


def two(first: str | None, second: str | None) -> tuple[Gpu, ...]:
    return gpu("x/0", node="gpu-1@a", cluster=first), gpu("y/0", node="gpu-1@b", cluster=second)


def quiet_pair(first: str | None, second: str | None) -> list[Advice]:
    """Two jobs of one person, each 14% busy on a GPU of its own: they fit beside each other."""
    jobs = [(job("one"), ("x/0",)), (job("other"), ("y/0",))]
    state = cluster(jobs, gpus=two(first, second))
    return list(advised(pack.advise(state, observed(use("one"), use("other")), AUTO, RULES)))


def test_jobs_of_two_clusters_are_never_packed() -> None:
    assert len(quiet_pair(None, None)) == 1
    assert len(quiet_pair("a", "a")) == 1
    assert quiet_pair("a", "b") == []
    assert quiet_pair("a", None) == []


def moved_for_a_gang(there: str) -> list[Advice]:
    """A gang waits for two GPUs of n0; half of one is in use, and could go beside the half on n1."""
    half = {"share": 0.5, "memory_bytes": GIB, "memory_held_bytes": GIB}
    gpus = (
        gpu("x/0", node="n0", cluster="a"),
        gpu("x/1", node="n0", cluster="a"),
        gpu("y/0", node="n1", cluster=there),
    )
    gang = job("gang", phase=Phase.PENDING, started_ms=None, use=Use.UNKNOWN, min_gpus=2, max_gpus=2)
    state = cluster([(job("s0", **half), ("x/0",)), (job("s1", **half), ("y/0",))], gpus=gpus, waiting=[gang])
    return list(advised(consolidate.advise(state, observed(), AUTO, RULES)))


def test_nobody_is_moved_into_another_cluster_for_a_gang() -> None:
    (advice,) = moved_for_a_gang("a")
    assert [(step.job, step.gpus) for step in advice.steps if isinstance(step, Move)] == [("s0", ("y/0",))]
    assert moved_for_a_gang("b") == []


def state_of(first: str | None, second: str | None) -> ClusterState:
    pending = job("new", phase=Phase.PENDING, started_ms=None, min_gpus=2, max_gpus=2)
    return cluster([(job("one"), ("x/0",))], gpus=two(first, second), waiting=[pending])


def test_no_step_takes_a_job_into_another_cluster() -> None:
    move = Move(job=job("one").id, gpus=(GpuUuid("y/0"),), reason="")
    assert transition(state_of("a", "a"), move).placements[move.job].gpus == ("y/0",)
    with pytest.raises(StepError, match="its GPUs would be in a and b"):
        transition(state_of("a", "b"), move)
    with pytest.raises(StepError, match="its GPUs would be in a and no named cluster"):
        transition(state_of("a", None), move)


def test_no_gang_lies_in_two_clusters() -> None:
    both = (GpuUuid("x/0"), GpuUuid("y/0"))
    empty = replace(state_of("a", "b"), placements={}, jobs={"new": state_of("a", "b").jobs["new"]})  # type: ignore[dict-item]
    with pytest.raises(StepError, match="its GPUs would be in a and b"):
        transition(empty, Start(job=job("new").id, gpus=both, reason=""))
    assert len(Board(empty).pools) == 2
    assert len(Board(replace(empty, gpus={each.uuid: each for each in two("a", "a")})).pools) == 1

"""What cannot be is refused where it enters, by a message that names it."""

from dataclasses import replace
from typing import Any

import pytest

from advisor.decide import decide
from advisor.planner.plan import Rule
from advisor.planner.validate import BadState, checked
from advisor.state.model import ClusterState, Gpu, Job, Phase, Placement, Profile, Project

GPUS = {f"g{at}": Gpu(uuid=f"g{at}", node="n", model="A100", memory_bytes=40 << 30) for at in range(4)}
GOOD = ClusterState(
    as_of_ms=0,
    gpus=GPUS,
    projects={"lab": Project(name="lab", quota_gpus=2), "a": Project(name="a", parent="lab")},
    jobs={"j": Job(id="j", project="a", phase=Phase.RUNNING)},
    placements={"j": Placement(gpus=("g0",))},
)


def with_job(**changes: Any) -> ClusterState:
    job = replace(Job(id="w", project="a"), **changes)
    return replace(GOOD, jobs={**GOOD.jobs, "w": job})


def with_projects(*projects: Project) -> ClusterState:
    return replace(GOOD, projects={project.name: project for project in projects}, jobs={}, placements={})


def test_a_good_state_passes_as_it_is() -> None:
    assert checked(GOOD) is GOOD


BAD = {
    "negative GPUs": (with_job(min_gpus=-1), "job w asks for -1 GPUs: ask for at least 1"),
    "fewer at most than at least": (
        with_job(min_gpus=3, max_gpus=2),
        "job w runs on at least 3 and at most 2 GPUs: swap the two",
    ),
    "a share of two GPUs": (with_job(share=2.0), "job w asks for a share of 2 of a GPU"),
    "no memory at all": (with_job(memory_bytes=0), "job w needs 0 bytes of memory"),
    "a limit in the past": (with_job(limit_s=-5), "job w has a time limit of -5 s"),
    "a step that takes no time": (
        with_job(max_gpus=2, profile=Profile(step_s={1: 1.0, 2: 0.0})),
        "job w has a step time that is not above 0 s",
    ),
    "running on nothing": (with_job(phase=Phase.RUNNING), "job w is running and has no GPUs"),
    "a quota cycle": (
        with_projects(
            Project(name="a", parent="b"), Project(name="b", parent="c"), Project(name="c", parent="a")
        ),
        "projects a -> b -> c -> a are their own ancestors",
    ),
    "an unknown parent": (
        with_projects(Project(name="a", parent="nobody")),
        "project a has the parent nobody, and there is no such project",
    ),
    "a negative quota": (
        with_projects(Project(name="a", quota_gpus=-1)),
        "project a has a quota of -1 GPUs: a quota is 0 or more",
    ),
    "a limit below the quota": (
        with_projects(Project(name="a", quota_gpus=4, limit_gpus=2)),
        "project a has a limit of 2 GPUs, below its quota of 4",
    ),
    "a negative weight": (with_projects(Project(name="a", weight=-1)), "project a has a weight of -1"),
    "jobs of an inner project": (with_job(project="lab"), "project lab has jobs and child projects"),
    "a GPU that is not there": (
        replace(GOOD, placements={"j": Placement(gpus=("g9",))}),
        "job j runs on GPU g9, and there is no such GPU",
    ),
    "a GPU given twice": (
        replace(
            with_job(phase=Phase.RUNNING),
            placements={"j": Placement(gpus=("g0",)), "w": Placement(gpus=("g0",), share=0.5)},
        ),
        "GPU g0 is given away 1.5 times",
    ),
    "the same GPU twice": (
        replace(GOOD, placements={"j": Placement(gpus=("g0", "g0"))}),
        "at least one GPU, each named once",
    ),
    "a place for a job that is not there": (
        replace(GOOD, placements={**GOOD.placements, "ghost": Placement(gpus=("g1",))}),
        "GPUs are given to job ghost, and there is no such job",
    ),
    "memory below nothing": (
        replace(GOOD, gpus={**GPUS, "g1": replace(GPUS["g1"], memory_bytes=-1)}),
        "GPU g1 has -1 bytes of memory",
    ),
    "a GPU under another's name": (
        replace(GOOD, gpus={**GPUS, "x": GPUS["g1"]}),
        "GPU g1 is listed as x",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_what_cannot_be_is_named(name: str) -> None:
    state, message = BAD[name]
    with pytest.raises(BadState) as found:
        checked(state)
    assert any(message in problem for problem in found.value.problems), found.value.problems


def test_everything_wrong_is_said_at_once() -> None:
    state = replace(with_job(min_gpus=0, share=0.0), projects={"a": Project(name="a", weight=-2)})
    with pytest.raises(BadState) as found:
        checked(state)
    assert len(found.value.problems) == 3


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        (
            {"min_gpus": 5, "max_gpus": 5},
            "it needs 5 GPUs of one kind at once, and the cluster has 4 for it",
        ),
        (
            {"gpu_models": ("H100", "H200")},
            "1 GPU of one kind at once, H100 or H200, and the cluster has 0 for it",
        ),
        ({"memory_bytes": 80 << 30}, "at once with 80 GiB of memory, and the cluster has 0 for it"),
    ],
)
def test_a_job_that_can_never_fit_is_told_so(changes: dict[str, Any], reason: str) -> None:
    (refusal,) = decide(with_job(**changes)).refused
    assert (refusal.job, refusal.rule) == ("w", Rule.NEVER_FITS)
    assert reason in refusal.reason

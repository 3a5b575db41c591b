"""Paused jobs: they go on where their state lies, others give way there, and saved work is never dropped."""

from dataclasses import replace

import pytest

from advisor.decide import decide
from advisor.planner.guard import approve
from advisor.planner.limits import Limits, Mode
from advisor.planner.plan import Plan
from advisor.planner.transition import replay
from advisor.planner.validate import checked
from advisor.state.model import (
    ActionClass,
    ClusterState,
    Gpu,
    Job,
    Node,
    Phase,
    Placement,
    Project,
    Telemetry,
)

HOUR_MS = 3_600_000
NOW_MS = 1000 * HOUR_MS
LIMITS = Limits(actions_per_hour=None, modes=dict.fromkeys(ActionClass, Mode.AUTO))
PLAIN = Job(id="", project="guests", preemptible=True, checkpointable=True, attached=False)


def running(id: str, project: str, gpus: int, **more: object) -> Job:
    made = replace(PLAIN, id=id, project=project, min_gpus=gpus, max_gpus=gpus, phase=Phase.RUNNING)
    return replace(made, **{"started_ms": NOW_MS - 10 * HOUR_MS, **more})  # type: ignore[arg-type]


def paused(gpus: tuple[str, ...], **more: object) -> Job:
    size = len(gpus)
    made = replace(PLAIN, id="own", project="guaranteed", min_gpus=size, max_gpus=size, phase=Phase.PAUSED)
    return replace(made, paused_on=gpus, acted_ms=NOW_MS - 3 * HOUR_MS, **more)  # type: ignore[arg-type]


def world(nodes: int, own: Job, *jobs: tuple[Job, tuple[str, ...]]) -> ClusterState:
    """Nodes of two GPUs; the project ``guaranteed`` has a quota of four."""
    names = {f"n{node}/{at}": f"n{node}" for node in range(nodes) for at in range(2)}
    return checked(
        ClusterState(
            as_of_ms=NOW_MS,
            nodes={f"n{node}": Node(name=f"n{node}") for node in range(nodes)},
            gpus={uuid: Gpu(uuid=uuid, node=node, telemetry=Telemetry.GOOD) for uuid, node in names.items()},
            projects={
                "guaranteed": Project(name="guaranteed", quota_gpus=4),
                "guests": Project(name="guests"),
            },
            jobs={own.id: own, **{job.id: job for job, _ in jobs}},
            placements={job.id: Placement(gpus=on) for job, on in jobs},
        )
    )


def told(plan: Plan) -> dict[str, str]:
    return {each.job: each.reason for each in plan.refused}


def deeds(state: ClusterState, limits: Limits = LIMITS) -> list[tuple[str, str]]:
    plan = decide(state, limits)
    assert approve(plan, state, limits).refused == ()
    replay(state, plan.steps)
    return [(type(step).__name__, step.job) for step in plan.steps]


@pytest.mark.parametrize("saved_ms", [None, NOW_MS - 20 * HOUR_MS, NOW_MS - HOUR_MS])
def test_a_borrower_gives_way_where_the_state_of_an_entitled_job_lies(saved_ms: int | None) -> None:
    own = paused(("n0/0", "n0/1"), checkpoint_ms=saved_ms)
    here = (running("here", "guests", 2), ("n0/0", "n0/1"))
    there = (running("there", "guests", 2, started_ms=NOW_MS - HOUR_MS), ("n1/0", "n1/1"))
    assert deeds(world(2, own, here, there)) == [("Requeue", "here"), ("Resume", "own")]


def test_an_elastic_borrower_gives_up_those_that_lie_where_the_state_does() -> None:
    wide = replace(running("wide", "guests", 4), min_gpus=1)
    state = world(2, paused(("n0/0", "n0/1")), (wide, ("n1/0", "n1/1", "n0/0", "n0/1")))
    assert deeds(state) == [("Resize", "wide"), ("Resume", "own")]


def test_another_gpu_of_the_node_does_where_one_has_broken() -> None:
    state = world(2, paused(("n0/0",)))
    broken = {**state.gpus, "n0/0": replace(state.gpus["n0/0"], healthy=False)}
    (step,) = decide(replace(state, gpus=broken), LIMITS).steps
    assert step.gpus == ("n0/1",)


FIRM = (running("firm", "guests", 2, preemptible=False), ("n0/0", "n0/1"))


def test_it_is_put_back_in_the_queue_only_where_there_is_room_and_all_is_saved() -> None:
    fresh = paused(("n0/0", "n0/1"), checkpoint_ms=NOW_MS - HOUR_MS)
    assert deeds(world(2, fresh, FIRM)) == [("Requeue", "own")]
    assert deeds(world(1, fresh, FIRM)) == []
    full = (running("full", "guests", 2, preemptible=False), ("n1/0", "n1/1"))
    assert deeds(world(2, fresh, FIRM, full)) == []


def test_the_place_for_which_it_is_put_back_goes_to_nobody_else_meanwhile() -> None:
    state = world(2, paused(("n0/0", "n0/1"), checkpoint_ms=NOW_MS), FIRM)
    guest = replace(PLAIN, id="guest")
    state = replace(state, jobs={**state.jobs, "guest": guest})
    plan = decide(state, LIMITS)
    assert [step.job for step in plan.steps] == ["own"]
    later = replace(replay(state, plan.steps), as_of_ms=NOW_MS + 60_000)
    assert [(type(step).__name__, step.job) for step in decide(later, LIMITS).steps] == [("Start", "own")]


@pytest.mark.parametrize("saved_ms", [None, NOW_MS - 20 * HOUR_MS])
def test_work_that_was_not_saved_is_never_dropped(saved_ms: int | None) -> None:
    state = world(2, paused(("n0/0", "n0/1"), checkpoint_ms=saved_ms), FIRM)
    plan = decide(state, LIMITS)
    assert plan.steps == ()
    assert told(plan)["own"] == (
        "it is paused, and its state lies on n0: it needs 2 GPUs there, and 0 are free for it; "
        "the quota of guaranteed guarantees it a place, and those who have it cannot give way "
        "(1 not-preemptible); "
        "there is room elsewhere, but it would lose what it has not saved"
    )


def test_who_is_not_entitled_waits_for_room_and_hears_why() -> None:
    own = replace(paused(("n0/0", "n0/1")), project="guests", checkpoint_ms=NOW_MS)
    state = world(1, own, (running("r", "guaranteed", 2), ("n0/0", "n0/1")))
    plan = decide(state, LIMITS)
    assert plan.steps == ()
    assert "guests has 0 of its fair share of 0 GPUs, so others need not give way" in told(plan)["own"]


def test_what_is_free_there_is_held_back_until_a_minimal_run_time_is_over() -> None:
    young = (running("young", "guests", 1), ("n0/0",))
    state = world(1, paused(("n0/0", "n0/1")), (replace(young[0], started_ms=NOW_MS - 1), young[1]))
    state = replace(state, jobs={**state.jobs, "guest": replace(PLAIN, id="guest")})
    assert deeds(state) == []
    later = replace(state, as_of_ms=NOW_MS + 700_000)
    assert deeds(later) == [("Requeue", "young"), ("Resume", "own")]

"""What was begun for a waiting job: who still gives way, what is held back for it, and what is finished."""

from dataclasses import replace

import pytest

from advisor.actions import Action, Pause, Requeue, Resize, Start
from advisor.journal.in_progress import HELD_MS, InProgress, owed, with_owed
from advisor.journal.records import ActionRecord, Moment, Result, Stood
from advisor.planner.guard import approve
from advisor.planner.limits import Limits, Mode
from advisor.planner.plan import Plan, Rule
from advisor.state.model import (
    ActionClass,
    ActionTaken,
    ClusterState,
    Gpu,
    Job,
    Phase,
    Placement,
    Project,
    Telemetry,
)
from collector.model import JobId

NOW_MS = 100 * 3_600_000
NOW = Moment(at_ms=NOW_MS, steady_ms=NOW_MS, boot="b")
AUTO = Limits(modes=dict.fromkeys(ActionClass, Mode.AUTO))
HEIR, GIVER = JobId("heir"), JobId("giver")
PAUSE = Pause(job=GIVER, for_job=HEIR)


def deed(
    step: Action, number: int = 1, *, result: Result | None = None, ago_ms: int = 1_000, **more: object
) -> ActionRecord:
    at_ms = NOW_MS - ago_ms
    made = ActionRecord(
        number=number,
        begun=Moment(at_ms=at_ms, steady_ms=at_ms, boot="b"),
        plan=7,
        job=step.job,
        verb=type(step).__name__.lower(),
        actor="fallow",
        reason="",
        step=step,
        stood=Stood(phase=Phase.RUNNING, gpus=("g0", "g1")),
        result=result,
        settled_ms=None if result is None else at_ms,
    )
    return replace(made, **more)  # type: ignore[arg-type]


def world(*placed: str, **changes: object) -> ClusterState:
    heir = Job(id=HEIR, project="a", min_gpus=2, max_gpus=2)
    giver = Job(id=GIVER, project="b", phase=Phase.RUNNING, preemptible=True, attached=False, started_ms=0)
    state = ClusterState(
        as_of_ms=NOW_MS,
        gpus={f"g{n}": Gpu(uuid=f"g{n}", node="n", telemetry=Telemetry.GOOD) for n in range(4)},
        projects={name: Project(name=name) for name in "ab"},
        jobs={HEIR: heir, GIVER: giver if placed else replace(giver, phase=Phase.PENDING)},
        placements={GIVER: Placement(gpus=placed)} if placed else {},
    )
    return replace(state, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("deeds", "found"),
    [
        ([], {}),
        ([deed(PAUSE)], {HEIR: InProgress(coming=(GIVER,), plan=7)}),
        ([deed(PAUSE, result=Result.DONE)], {HEIR: InProgress(freed=("g0", "g1"), plan=7)}),
        ([deed(PAUSE, result=Result.FAILED)], {}),
        ([deed(PAUSE, result=Result.DONE, ago_ms=HELD_MS + 1)], {}),
        ([deed(PAUSE, ago_ms=HELD_MS + 1)], {HEIR: InProgress(coming=(GIVER,), plan=7)}),
        ([deed(PAUSE, actor="user ann", plan=None)], {}),
        ([deed(Pause(job=GIVER))], {}),
        ([deed(Pause(job=GIVER, for_job=JobId("gone")))], {}),
        ([deed(PAUSE, result=Result.DONE), deed(Start(job=HEIR, gpus=("g0",)), 2)], {}),
        (
            [deed(Resize(job=GIVER, gpus=("g1",), for_job=HEIR), result=Result.DONE)],
            {HEIR: InProgress(freed=("g0",), plan=7)},
        ),
    ],
    ids=range(11),
)
def test_what_is_owed_is_read_from_the_journal(
    deeds: list[ActionRecord], found: dict[JobId, InProgress]
) -> None:
    assert owed(deeds, world(), NOW) == found


def test_an_heir_is_asked_nothing_more_for_and_its_place_is_held_back() -> None:
    state = with_owed(
        world("g0"), {HEIR: InProgress(coming=(GIVER,), freed=("g1",), plan=7)}, {HEIR: ("g0", "g1", "g2")}
    )
    assert state.jobs[HEIR].held and state.begun == {HEIR: (GIVER,)}
    assert state.reservations[HEIR].gpus == ("g1", "g2"), "what another holds still cannot be held back"


def test_an_heir_for_which_all_gave_way_is_free_to_start() -> None:
    state = with_owed(world(), {HEIR: InProgress(freed=("g1",))}, {})
    assert not state.jobs[HEIR].held and state.begun == {HEIR: ()}


@pytest.mark.parametrize(("begun", "rule"), [({}, Rule.RATE), ({HEIR: ()}, None)])
def test_half_a_gang_is_finished_though_the_hours_bound_is_reached(
    begun: dict[JobId, tuple[JobId, ...]], rule: Rule | None
) -> None:
    lately = tuple(ActionTaken(at_ms=NOW_MS - 1, job=JobId(f"j{n}"), verb="pause") for n in range(5))
    state = world("g0", actions=lately, begun=begun)
    step = Requeue(job=GIVER, for_job=HEIR)
    ruling = approve(Plan(as_of_ms=NOW_MS, steps=(step,)), state, AUTO)
    assert (ruling.refused[0].rule if ruling.refused else None) is rule


def test_an_elastic_job_that_is_to_grow_asks_nobody_else_meanwhile() -> None:
    """What it grows onto is not held back: it grows before anybody borrows, as soon as it is free."""
    state = world("g0", "g1")
    heir = replace(
        state.jobs[HEIR], min_gpus=1, max_gpus=3, phase=Phase.RUNNING, started_ms=0, attached=False
    )
    state = replace(
        state,
        jobs={**state.jobs, HEIR: heir},
        placements={**state.placements, HEIR: Placement(gpus=("g2",))},
    )
    asked = deed(Requeue(job=GIVER, for_job=HEIR))
    found = owed([asked], state, NOW)
    assert found == {HEIR: InProgress(coming=(GIVER,), plan=7)}
    after = with_owed(state, found, {})
    assert after.begun == {HEIR: (GIVER,)}
    assert (after.jobs, after.reservations) == (state.jobs, state.reservations)
    grown = deed(
        Resize(job=HEIR, gpus=("g2", "g3")),
        2,
        result=Result.DONE,
        stood=Stood(phase=Phase.RUNNING, gpus=("g2",)),
    )
    assert owed([asked, grown], state, NOW) == {}

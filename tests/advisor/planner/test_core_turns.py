"""What is done by itself, and what is only proposed: nobody waits for a yes while a GPU is free."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.actions import Action, Move, Pause, Requeue, Resize
from advisor.decide import QUEUES, decide
from advisor.journal.proposals import asking
from advisor.planner.guard import approve
from advisor.planner.limits import Limits, Mode, Order
from advisor.planner.plan import Advice, Plan, Rule
from advisor.planner.transition import replay
from advisor.planner.validate import checked
from advisor.state.model import (
    ActionClass,
    ActionTaken,
    ClusterState,
    Gpu,
    Job,
    Node,
    Phase,
    Placement,
    Project,
    Telemetry,
    Use,
)
from tests.advisor.planner.worlds import clusters

HOUR_MS = 3_600_000
NOW_MS = 1000 * HOUR_MS
GIB = 1 << 30
QUEUE = {ActionClass.SCHEDULE: Mode.AUTO}
BESIDE = (
    Move(job="host", gpus=("n0/0",), share=0.5, action=ActionClass.PACK),
    Move(job="guest", gpus=("n0/0",), share=0.5, action=ActionClass.PACK),
)
PACK = Advice(action=ActionClass.PACK, what="x", why="y", job="guest", steps=BESIDE)


def running(name: str, project: str = "borrower", gpus: int = 1, **changes: object) -> Job:
    made = Job(
        id=name,
        project=project,
        user="ann",
        phase=Phase.RUNNING,
        min_gpus=gpus,
        max_gpus=gpus,
        preemptible=True,
        checkpointable=True,
        attached=False,
        use=Use.ACTIVE,
        paced=True,
        memory_bytes=10 * GIB,
        started_ms=NOW_MS - 10 * HOUR_MS,
    )
    return replace(made, **changes)


def waiting(name: str, project: str = "owed", gpus: int = 1, **changes: object) -> Job:
    return Job(id=name, project=project, user="bob", min_gpus=gpus, max_gpus=gpus, **changes)


def world(
    nodes: int, each: int, on: dict[str, tuple[Job, tuple[str, ...]]], *line: Job, **changes: object
) -> ClusterState:
    """``each`` GPUs on every node; the project "owed" is guaranteed two of them."""
    uuids = [f"n{node}/{index}" for node in range(nodes) for index in range(each)]
    made = ClusterState(
        as_of_ms=NOW_MS,
        nodes={f"n{node}": Node(name=f"n{node}") for node in range(nodes)},
        gpus={
            uuid: Gpu(
                uuid=uuid,
                node=uuid.split("/")[0],
                model="A",
                memory_bytes=80 * GIB,
                telemetry=Telemetry.GOOD,
            )
            for uuid in uuids
        },
        projects={"owed": Project(name="owed", quota_gpus=2)},
        jobs={name: job for name, (job, _) in on.items()} | {job.id: job for job in line},
        placements={name: Placement(gpus=gpus) for name, (_, gpus) in on.items()},
    )
    return replace(made, **changes)


def pair(*line: Job, **changes: object) -> ClusterState:
    on = {"host": (running("host"), ("n0/0",)), "guest": (running("guest"), ("n0/1",))}
    return world(2, 2, on, *line, **changes)


def limits(**modes: Mode) -> Limits:
    return Limits(modes=QUEUE | {ActionClass[name.upper()]: mode for name, mode in modes.items()})


def done(state: ClusterState, bounds: Limits, *advice: Advice) -> tuple[Action, ...]:
    return approve(decide(state, bounds, advice), state, bounds).approved.steps


@pytest.mark.parametrize("mode", [Mode.OFF, Mode.ADVISE, Mode.ASK])
def test_advice_that_nobody_approved_keeps_nobody_waiting(mode: Mode) -> None:
    (start,) = done(pair(waiting("w")), limits(pack=mode), PACK)
    assert (start.job, start.gpus[0].split("/")[0]) == ("w", "n1")


@pytest.mark.parametrize("mode", [Mode.ADVISE, Mode.ASK])
def test_a_pause_that_nobody_approved_keeps_nobody_waiting(mode: Mode) -> None:
    idle = Advice(action=ActionClass.RECLAIM, what="x", why="y", job="host", steps=(Pause(job="host"),))
    assert [step.job for step in done(pair(waiting("w")), limits(reclaim=mode), idle)] == ["w"]


@pytest.mark.parametrize("mode", [Mode.OFF, Mode.ADVISE, Mode.ASK])
@pytest.mark.parametrize("wide", [False, True])
def test_what_nobody_takes_from_a_borrower_is_not_waited_for(mode: Mode, wide: bool) -> None:
    """The entitled gang needs the borrower's GPUs as well; what is free goes to who fits on it."""
    holds = running("b", gpus=1, max_gpus=2) if wide else running("b", gpus=2)
    state = world(1, 3, {"b": (holds, ("n0/0", "n0/1"))}, waiting("gang", gpus=2), waiting("small", "other"))
    bounds = limits(fair_share=mode, resize=mode)
    assert [step.job for step in done(state, bounds)] == ["small"]
    alone = replace(state, jobs={name: job for name, job in state.jobs.items() if name != "small"})
    plan = decide(alone, bounds)
    gives_way = [step for step in plan.steps if isinstance(step, Requeue | Resize)]
    assert [(step.job, step.for_job) for step in gives_way] == ([] if mode is Mode.OFF else [("b", "gang")])
    proposals = asking(plan, approve(plan, alone, bounds).refused, alone, bounds)
    found = [[each.step.job for each in proposal.steps] for proposal in proposals]
    assert found == ([["b", "gang"]] if mode is Mode.ASK else [])


def test_who_would_follow_hears_for_whose_yes_it_waits() -> None:
    state = world(1, 2, {"b": (running("b", gpus=2), ("n0/0", "n0/1"))}, waiting("gang", gpus=2))
    bounds = limits(fair_share=Mode.ASK)
    ruling = approve(decide(state, bounds), state, bounds)
    told = {each.job: each.reason for each in ruling.refused}
    assert told["gang"] == "b would have to give way first, and the mode of fair-share is ask"


def test_what_waits_for_a_yes_does_not_rest_on_what_is_only_advised() -> None:
    """Packing is only advised: the plan that somebody may approve has the borrower give way instead."""
    on = {
        "host": (running("host", "owed"), ("n0/0",)),
        "guest": (running("guest", "owed"), ("n0/1",)),
        "b": (running("b"), ("n0/2",)),
    }
    state = world(1, 3, on, waiting("w", "entitled"))
    state = replace(state, projects={**state.projects, "entitled": Project(name="entitled", quota_gpus=1)})
    bounds = limits(fair_share=Mode.ASK)
    plan = decide(state, bounds, [replace(PACK, steps=BESIDE)])
    (proposal,) = asking(plan, approve(plan, state, bounds).refused, state, bounds)
    assert [each.step.job for each in proposal.steps] == ["b", "w"]


@pytest.mark.parametrize(
    ("lately", "jobs", "rules"),
    [
        (3, ["host", "guest"], []),
        (4, [], [Rule.STALE, Rule.RATE]),
        (5, [], [Rule.RATE, Rule.STALE]),
    ],
)
def test_a_pair_is_made_whole_or_not_at_all(lately: int, jobs: list[str], rules: list[Rule]) -> None:
    """The bound on disturbances leaves room for one of the two moves; nobody is left with half a GPU."""
    recent = tuple(ActionTaken(at_ms=NOW_MS - 60_000, job=f"o{at}", verb="pause") for at in range(lately))
    state, bounds = pair(actions=recent), limits(pack=Mode.AUTO)
    assert [step.job for step in done(state, bounds, PACK)] == jobs
    ruling = approve(Plan(as_of_ms=NOW_MS, steps=BESIDE), state, bounds)
    assert [step.job for step in ruling.approved.steps] == jobs
    assert [each.rule for each in ruling.refused] == rules


def test_what_the_bound_on_disturbances_refuses_keeps_nobody_waiting() -> None:
    recent = tuple(ActionTaken(at_ms=NOW_MS - 60_000, job=f"o{at}", verb="pause") for at in range(5))
    assert [step.job for step in done(pair(waiting("w"), actions=recent), limits(pack=Mode.AUTO), PACK)] == [
        "w"
    ]


def test_who_cannot_be_put_back_in_the_queue_keeps_nobody_waiting() -> None:
    cannot = {"requeue": "Fallow did not launch it, so it cannot launch it anew"}
    on = {"b": (running("b", gpus=2, cannot=cannot), ("n0/0", "n0/1"))}
    state = world(1, 3, on, waiting("gang", gpus=2), waiting("small", "other"))
    assert [step.job for step in done(state, limits(fair_share=Mode.AUTO))] == ["small"]


def test_nobody_gives_way_to_who_does_not_wait_any_more() -> None:
    state = world(1, 2, {"b": (running("b", gpus=2), ("n0/0", "n0/1"))})
    bounds = limits(fair_share=Mode.AUTO)
    ruling = approve(Plan(as_of_ms=NOW_MS, steps=(Requeue(job="b", for_job="gone"),)), state, bounds)
    assert [each.reason for each in ruling.refused] == [
        "gone, for which it would be done, does not wait any more"
    ]


MODES = st.fixed_dictionaries(dict.fromkeys(ActionClass, st.sampled_from(list(Mode))))
BOUNDS = st.builds(
    Limits,
    modes=MODES,
    project_modes=st.one_of(st.just({}), st.fixed_dictionaries({"beta": MODES})),
    order=st.sampled_from(list(Order)),
    actions_per_hour=st.sampled_from([None, 0, 5]),
)


@pytest.mark.slow
@given(clusters(), BOUNDS)
@settings(max_examples=150)
def test_what_is_planned_to_be_done_by_itself_is_what_is_done(state: ClusterState, bounds: Limits) -> None:
    plan = decide(state, bounds)
    approved = approve(plan, state, bounds).approved.steps
    if any(Mode.AUTO in bounds.modes_of(action) for action in QUEUES):
        assert approved == plan.steps[: plan.alone]
    else:
        assert approved == ()
    assert checked(replay(state, plan.steps)).jobs.keys() == state.jobs.keys()


@pytest.mark.slow
@given(clusters(), BOUNDS)
@settings(max_examples=100)
def test_what_needs_a_yes_changes_nothing_of_what_is_done_without(
    state: ClusterState, bounds: Limits
) -> None:
    """Classes that are not AUTO might as well be off; only whether somebody starts larger hangs on a word."""
    bounds = replace(bounds, modes={**bounds.modes, ActionClass.RESIZE: Mode.AUTO}, project_modes={})
    off = {action: mode if mode is Mode.AUTO else Mode.OFF for action, mode in bounds.modes.items()}
    assert done(state, bounds) == done(state, replace(bounds, modes=off))

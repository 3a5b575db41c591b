"""Modes by class of action and by project: the nearest word holds, for guard and planner alike."""

from dataclasses import replace

import pytest

from advisor.actions import Pause, Start
from advisor.decide import decide
from advisor.planner.guard import approve
from advisor.planner.limits import Limits, Mode
from advisor.planner.plan import Plan, Rule
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
TREE = {
    "lab": Project(name="lab"),
    "vision": Project(name="vision", parent="lab"),
    "demo": Project(name="demo", parent="vision"),
    "nlp": Project(name="nlp", parent="lab"),
}
RECLAIM = ActionClass.RECLAIM


def limits(site: Mode | None = None, **own: Mode) -> Limits:
    return Limits(
        modes={} if site is None else {RECLAIM: site, ActionClass.SCHEDULE: site},
        project_modes={name: {RECLAIM: mode, ActionClass.SCHEDULE: mode} for name, mode in own.items()},
    )


@pytest.mark.parametrize(
    ("said", "project", "mode"),
    [
        (limits(), "demo", Mode.ADVISE),
        (limits(Mode.ASK), "demo", Mode.ASK),
        (limits(Mode.ASK, lab=Mode.AUTO), "demo", Mode.AUTO),
        (limits(Mode.ASK, lab=Mode.AUTO, vision=Mode.OFF), "demo", Mode.OFF),
        (limits(Mode.ASK, lab=Mode.AUTO, vision=Mode.OFF), "nlp", Mode.AUTO),
        (limits(Mode.ASK, vision=Mode.OFF, demo=Mode.AUTO), "demo", Mode.AUTO),
        (limits(Mode.ASK, vision=Mode.OFF), "never heard of", Mode.ASK),
    ],
)
def test_the_nearest_word_holds(said: Limits, project: str, mode: Mode) -> None:
    assert said.mode_for(RECLAIM, project, TREE) is mode
    assert said.within(project, TREE).mode(RECLAIM) is mode


def test_a_project_that_speaks_of_one_class_keeps_the_others() -> None:
    said = limits(Mode.ASK, vision=Mode.AUTO)
    assert said.mode_for(ActionClass.PACK, "vision", TREE) is Mode.ADVISE
    assert said.mode_for(ActionClass.TERMINATE, "vision", TREE) is Mode.OFF


def test_ancestors_that_go_in_a_circle_end() -> None:
    circle = {"a": Project(name="a", parent="b"), "b": Project(name="b", parent="a")}
    assert limits(Mode.ASK).mode_for(RECLAIM, "a", circle) is Mode.ASK


def world() -> ClusterState:
    job = Job(
        id="j",
        project="demo",
        phase=Phase.RUNNING,
        preemptible=True,
        attached=False,
        started_ms=0,
    )
    return ClusterState(
        as_of_ms=10 * HOUR_MS,
        nodes={"n": Node(name="n")},
        gpus={f"g{at}": Gpu(uuid=f"g{at}", node="n", telemetry=Telemetry.GOOD) for at in range(2)},
        projects=TREE,
        jobs={
            "j": job,
            "v": Job(id="v", project="demo", submitted_ms=2),
            "w": Job(id="w", project="nlp", submitted_ms=1),
        },
        placements={"j": Placement(gpus=("g0",))},
    )


@pytest.mark.parametrize(
    ("mode", "agreed", "rule"),
    [
        (Mode.OFF, False, Rule.MODE),
        (Mode.ADVISE, True, Rule.MODE),
        (Mode.ASK, False, Rule.MODE),
        (Mode.ASK, True, None),
        (Mode.AUTO, False, None),
    ],
)
def test_the_guard_asks_the_project_of_the_job(mode: Mode, agreed: bool, rule: Rule | None) -> None:
    pause = Pause(job="j")
    plan = Plan(as_of_ms=0, steps=(pause,))
    ruling = approve(plan, world(), limits(Mode.ADVISE, vision=mode), frozenset({pause} if agreed else ()))
    assert [each.rule for each in ruling.refused] == ([] if rule is None else [rule])
    if mode is Mode.OFF:
        assert ruling.refused[0].reason == "the mode of reclaim is off for demo"


def test_a_project_that_is_off_does_not_keep_others_waiting() -> None:
    state = world()
    waiting = {id: job for id, job in state.jobs.items() if id != "j"}
    one = replace(state, gpus={"g0": state.gpus["g0"]}, jobs=waiting, placements={})
    first = decide(one, limits(Mode.AUTO))
    assert [step.job for step in first.steps if isinstance(step, Start)] == ["w"]
    second = decide(one, limits(Mode.AUTO, nlp=Mode.OFF))
    assert [step.job for step in second.steps if isinstance(step, Start)] == ["v"]
    only = decide(one, limits(Mode.OFF, vision=Mode.AUTO))
    assert [step.job for step in only.steps if isinstance(step, Start)] == ["v"]

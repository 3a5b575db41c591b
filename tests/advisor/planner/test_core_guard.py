"""The guard: what it lets through, by mode and by rule; and that nobody else can approve."""

from dataclasses import replace
from typing import Any

import pytest

from advisor.actions import (
    Action,
    Cancel,
    Move,
    Notify,
    Pause,
    ReleaseMemory,
    Requeue,
    Resize,
    Resume,
    SetEnvAtRestart,
    Start,
)
from advisor.decide import decide
from advisor.planner.guard import Approved, approve
from advisor.planner.limits import Limits, Mode
from advisor.planner.plan import Plan, Rule
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
)
from collector.model import JobKind

HOUR_MS = 3_600_000
AUTO = Limits(modes=dict.fromkeys(ActionClass, Mode.AUTO))
CALM = Job(
    id="j",
    project="guests",
    phase=Phase.RUNNING,
    preemptible=True,
    attached=False,
    max_gpus=4,
    started_ms=0,
    memory_held_bytes=8 << 30,
)


def world(job: Job = CALM, gpus: int = 2, **changes: Any) -> ClusterState:
    devices = {
        f"n/{at}": Gpu(uuid=f"n/{at}", node="n", telemetry=Telemetry.GOOD, memory_bytes=40 << 30)
        for at in range(4)
    }
    state = ClusterState(
        as_of_ms=10 * HOUR_MS,
        gpus=devices,
        nodes={"n": Node(name="n")},
        projects={"guests": Project(name="guests"), "owed": Project(name="owed", quota_gpus=4)},
        jobs={"j": job, "w": Job(id="w", project="owed")},
        placements={"j": Placement(gpus=tuple(devices)[:gpus])},
    )
    return replace(state, **changes)


def ruled(
    state: ClusterState, *steps: Action, limits: Limits = AUTO, agreed: tuple[Action, ...] = ()
) -> list[Rule | str]:
    """For each step the rule that refused it, or "done"."""
    plan = Plan(as_of_ms=state.as_of_ms, steps=steps)
    ruling = approve(plan, state, limits, frozenset(agreed))
    refused = {refusal.step: refusal.rule for refusal in ruling.refused}
    return [refused.get(step, "done") for step in steps]


DISTURBING: tuple[Action, ...] = (
    Pause(job="j", for_job="w"),
    Requeue(job="j", for_job="w"),
    Move(job="j", gpus=("n/2", "n/3")),
)
PROTECTED = {
    Rule.PROTECTED: world(replace(CALM, protected=True)),
    Rule.NOT_PREEMPTIBLE: world(replace(CALM, preemptible=False)),
    Rule.INFERENCE: world(replace(CALM, kind=JobKind.INFERENCE)),
    Rule.ATTACHED: world(replace(CALM, attached=True)),
    Rule.OPTED_OUT: world(replace(CALM, opted_out=frozenset(ActionClass))),
    Rule.KEPT: world(replace(CALM, keep_until_ms=11 * HOUR_MS)),
    Rule.MIN_RUNTIME: world(replace(CALM, started_ms=10 * HOUR_MS - 599_999)),
    Rule.COOLDOWN: world(replace(CALM, acted_ms=10 * HOUR_MS - 1_799_999)),
    Rule.IN_FLIGHT: world(nodes={"n": Node(name="n", in_flight=True)}),
    Rule.IN_QUOTA: world(projects={"guests": Project(name="guests", quota_gpus=2)}),
}


@pytest.mark.parametrize("step", DISTURBING, ids=lambda step: type(step).__name__)
def test_a_borrower_that_nothing_protects_may_be_disturbed(step: Action) -> None:
    assert ruled(world(), step) == ["done"]


@pytest.mark.parametrize("step", DISTURBING, ids=lambda step: type(step).__name__)
@pytest.mark.parametrize("rule", PROTECTED)
def test_each_rule_protects_from_each_disturbance(rule: Rule, step: Action) -> None:
    assert ruled(PROTECTED[rule], step) == [rule]


@pytest.mark.parametrize(
    ("asker", "rule"),
    [("above", "done"), ("equal", Rule.IN_QUOTA), ("w", Rule.IN_QUOTA)],
)
def test_a_quota_protects_from_all_but_a_higher_priority_of_the_same_project(
    asker: str, rule: Rule | str
) -> None:
    state = PROTECTED[Rule.IN_QUOTA]
    jobs = {
        "above": Job(id="above", project="guests", priority=1),
        "equal": Job(id="equal", project="guests"),
        "w": replace(state.jobs["w"], priority=1),
    }
    state = replace(state, jobs={**state.jobs, **jobs})
    assert ruled(state, Requeue(job="j", for_job=asker)) == [rule]


def test_what_the_site_protects_is_not_even_told() -> None:
    steps = (Notify(job="j", message="it idles"), SetEnvAtRestart(job="j", settings=(("A", "1"),)))
    assert ruled(world(replace(CALM, protected=True)), *steps) == [Rule.PROTECTED] * 2
    assert ruled(world(), *steps) == ["done"] * 2


def test_nobody_is_started_on_a_protected_gpu_or_moved_there() -> None:
    state = world()
    gpus = {**state.gpus, "n/2": replace(state.gpus["n/2"], protected=True)}
    steps = (
        Start(job="w", gpus=("n/2",)),
        Move(job="j", gpus=("n/2", "n/3")),
        Resize(job="j", gpus=("n/0", "n/1", "n/2")),
    )
    assert ruled(replace(state, gpus=gpus), *steps) == [Rule.PROTECTED] * 3
    assert ruled(replace(state, gpus=gpus), Start(job="w", gpus=("n/3",))) == ["done"]


def test_a_protected_job_starts_like_any_other() -> None:
    waiting = Job(id="w", project="owed", protected=True)
    state = world(jobs={"j": CALM, "w": waiting})
    assert ruled(state, Start(job="w", gpus=("n/2",))) == ["done"]


def test_protected_gpus_are_nobodys_to_give_away() -> None:
    state = world()
    gpus = {uuid: replace(gpu, protected=uuid != "n/3") for uuid, gpu in state.gpus.items()}
    plan = decide(replace(state, gpus=gpus), AUTO)
    assert plan.steps == (replace(plan.steps[0], gpus=("n/3",)),)


def test_what_no_engine_here_can_do_is_refused_before_the_plan_stops_at_it() -> None:
    state = world(replace(CALM, cannot={"pause": "it cannot be checkpointed here"}))
    assert ruled(state, Pause(job="j"), Requeue(job="j", for_job="w")) == [Rule.UNSUPPORTED, "done"]


def test_a_held_job_waits_until_it_is_touched() -> None:
    paused = replace(CALM, phase=Phase.PAUSED, paused_on=("n/0",), started_ms=None, max_gpus=1)
    state = world(jobs={"j": replace(paused, held=True)}, placements={})
    assert decide(state, AUTO).steps == ()
    assert [type(step) for step in decide(replace(state, jobs={"j": paused}), AUTO).steps] == [Resume]


@pytest.mark.parametrize("telemetry", [Telemetry.SUSPECT, Telemetry.UNKNOWN])
def test_one_doubtful_gpu_protects_the_whole_job(telemetry: Telemetry) -> None:
    state = world()
    gpus = {**state.gpus, "n/1": replace(state.gpus["n/1"], telemetry=telemetry)}
    steps = (*DISTURBING, Resize(job="j", gpus=("n/0",), for_job="w"), ReleaseMemory(job="j", frees_bytes=1))
    for step in steps:
        assert ruled(replace(state, gpus=gpus), step) == [Rule.TELEMETRY]


def test_an_interactive_job_is_sat_at_until_known_otherwise() -> None:
    sat_at = world(replace(CALM, kind=JobKind.INTERACTIVE, attached=None))
    left = world(replace(CALM, kind=JobKind.INTERACTIVE, attached=False))
    assert ruled(sat_at, Pause(job="j", for_job="w")) == [Rule.ATTACHED]
    assert ruled(left, Pause(job="j", for_job="w")) == ["done"]


def test_a_job_of_unknown_kind_may_be_sat_at() -> None:
    sat_at = world(replace(CALM, kind=None, attached=None))
    left = world(replace(CALM, kind=None, attached=False))
    assert ruled(sat_at, Pause(job="j", for_job="w")) == [Rule.ATTACHED]
    assert ruled(left, Pause(job="j", for_job="w")) == ["done"]


def test_an_elastic_job_shrinks_to_its_quota_and_no_further_for_others() -> None:
    state = world(projects={"guests": Project(name="guests", quota_gpus=2)}, gpus=3)
    assert ruled(state, Resize(job="j", gpus=("n/0", "n/1"), for_job="w")) == ["done"]
    assert ruled(state, Resize(job="j", gpus=("n/0",), for_job="w")) == [Rule.IN_QUOTA]


@pytest.mark.parametrize(
    ("first", "also", "came"),
    [
        ("w", (("s", 1),), "done"),
        ("w", (("s", 2),), "done"),
        ("s", (), "done"),
        ("w", (("x", 1),), Rule.IN_QUOTA),
        ("s", (("w", 1),), Rule.IN_QUOTA),
        ("w", (("s", 0),), Rule.IN_QUOTA),
        ("w", (("s", -1),), Rule.STALE),
    ],
)
def test_each_part_of_a_shrink_is_judged_by_who_gets_it(
    first: str, also: tuple[tuple[str, int], ...], came: Rule | str
) -> None:
    """The quota covers two of three GPUs against others; a job of the same project may have them."""
    waiting = {id: Job(id=id, project="owed") for id in ("w", "x")} | {"s": Job(id="s", project="guests")}
    state = world(
        projects={"guests": Project(name="guests", quota_gpus=2), "owed": Project(name="owed", quota_gpus=2)},
        jobs={"j": CALM, **waiting},
        gpus=3,
    )
    assert ruled(state, Resize(job="j", gpus=("n/0",), for_job=first, also_for=also)) == [came]


def test_terminating_is_off_unless_an_administrator_switched_it_on() -> None:
    assert ruled(world(), Cancel(job="j"), limits=Limits()) == [Rule.MODE]
    assert ruled(world(), Cancel(job="j")) == ["done"]


def test_by_default_nothing_is_done() -> None:
    steps = (*DISTURBING[:1], Start(job="w", gpus=("n/2",)), Notify(job="j", message="it idles"))
    assert ruled(world(), *steps, limits=Limits()) == [Rule.MODE] * 3


def test_asking_does_what_somebody_agreed_to_and_only_that() -> None:
    ask = Limits(modes=dict.fromkeys(ActionClass, Mode.ASK))
    yes, no = Start(job="w", gpus=("n/2",)), SetEnvAtRestart(job="j", settings=(("A", "1"),))
    assert ruled(world(), yes, no, limits=ask, agreed=(yes,)) == ["done", Rule.MODE]


def test_a_step_that_rests_on_a_refused_one_is_refused_with_it() -> None:
    state = world(replace(CALM, preemptible=False), gpus=4)
    steps = (Requeue(job="j", for_job="w"), Start(job="w", gpus=("n/0",)))
    assert ruled(state, *steps) == [Rule.NOT_PREEMPTIBLE, Rule.STALE]


def test_an_hour_has_a_bound_but_a_gang_is_finished() -> None:
    recent = tuple(ActionTaken(at_ms=10 * HOUR_MS - 60_000, job=f"o{at}", verb="pause") for at in range(4))
    others = {f"v{at}": replace(CALM, id=f"v{at}", max_gpus=1) for at in range(3)}
    state = world(
        actions=recent,
        jobs={**others, "w": Job(id="w", project="owed"), "x": Job(id="x", project="owed")},
        placements={f"v{at}": Placement(gpus=(f"n/{at}",)) for at in range(3)},
    )
    gang = (Requeue(job="v0", for_job="w"), Requeue(job="v1", for_job="w"))
    assert ruled(state, *gang, Requeue(job="v2", for_job="x")) == ["done", "done", Rule.RATE]
    an_hour_later = replace(state, as_of_ms=11 * HOUR_MS)
    assert ruled(an_hour_later, *gang, Requeue(job="v2", for_job="x")) == ["done"] * 3


def test_nobody_but_the_guard_can_approve() -> None:
    with pytest.raises(TypeError, match="only the guard approves"):
        Approved(as_of_ms=0, steps=(), seal=object())

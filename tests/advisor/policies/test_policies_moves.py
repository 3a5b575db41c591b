"""Moves for a gang: only where small jobs that lie apart keep it waiting, and the queue starts it then."""

from dataclasses import replace

import pytest

from advisor.actions import Move, Start
from advisor.decide import decide
from advisor.planner.guard import approve
from advisor.planner.limits import Limits, Mode, PlannerConfig
from advisor.planner.plan import Advice
from advisor.planner.validate import checked
from advisor.policies import consolidate
from advisor.state.model import ActionClass, ClusterState, Job, Phase, Project, Reservation, Use
from tests.advisor.policies.scene import GIB, HOUR_MS, NOW_MS, advised, cluster, gpu, job, observed

AUTO = Limits(modes=dict.fromkeys(ActionClass, Mode.AUTO), actions_per_hour=None)
RULES = PlannerConfig()
GPUS = [gpu(name, node=name[:2]) for name in ("n0/0", "n0/1", "n0/2", "n1/0")]


def waiting(name: str, project: str, gpus: int, **changes: object) -> Job:
    made = job(
        name,
        project=project,
        user=project,
        phase=Phase.PENDING,
        started_ms=None,
        use=Use.UNKNOWN,
        min_gpus=gpus,
        max_gpus=gpus,
    )
    return replace(made, **changes)


def scattered(*line: Job, small: tuple[str, ...] = ("n0/0", "n1/0"), **changes: object) -> ClusterState:
    """A small job on one of three GPUs of a node, and on the one of another; "q" alone has a quota."""
    jobs = [
        (job(f"s{at}", project="small", share=0.5, memory_bytes=GIB, memory_held_bytes=GIB), (uuid,))
        for at, uuid in enumerate(small)
    ]
    made = cluster(jobs, gpus=GPUS, waiting=line)
    projects = {name: Project(name=name) for name in ("small", "g")} | {"q": Project(name="q", quota_gpus=4)}
    return checked(replace(made, projects=projects, **changes))


def decided(state: ClusterState, bounds: Limits = AUTO) -> tuple[list[str], list[str]]:
    """Who is moved and who starts; all of it is what the guard approves."""
    plan = decide(state, bounds, consolidate.advise(state, observed(), bounds, RULES))
    assert approve(plan, state, bounds).refused == ()
    moved = [step.job for step in plan.steps if isinstance(step, Move)]
    return moved, [step.job for step in plan.steps if isinstance(step, Start)]


def test_small_jobs_are_moved_together_for_a_gang() -> None:
    moved, started = decided(scattered(waiting("gang", "g", 3)))
    assert (len(moved), started) == (1, ["gang"])


def test_gang_that_fits_over_two_nodes_gets_no_moves() -> None:
    gpus = [gpu(name, node=name[:2]) for name in ("n0/0", "n0/1", "n1/0", "n1/1")]
    state = scattered(waiting("gang", "g", 2))
    state = replace(state, gpus={each.uuid: each for each in gpus})
    assert decided(checked(state)) == ([], ["gang"])


def test_nobody_is_moved_for_a_gang_beyond_its_projects_limit() -> None:
    state = scattered(waiting("gang", "g", 3))
    state = replace(state, projects={**state.projects, "g": Project(name="g", limit_gpus=2)})
    assert decided(state) == ([], [])


def test_nobody_is_moved_for_a_gang_that_may_not_borrow() -> None:
    assert decided(scattered(waiting("gang", "g", 3, preemptible=False))) == ([], [])


def test_nobody_is_moved_for_a_borrower_when_an_entitled_job_takes_the_room() -> None:
    line = waiting("gang", "g", 3, priority=5), waiting("entitled", "q", 2)
    assert decided(scattered(*line)) == ([], ["entitled"])


def test_nobody_is_moved_onto_what_was_promised_or_for_a_gang_that_would_take_it() -> None:
    promised = {"head": Reservation(start_ms=NOW_MS + HOUR_MS, gpus=("n0/1", "n0/2"))}
    line = waiting("gang", "g", 3, priority=1), waiting("head", "small", 4)
    assert decided(scattered(*line, reservations=promised)) == ([], [])


def test_gang_gets_moves_beside_what_it_was_promised_itself() -> None:
    promised = {"gang": Reservation(start_ms=NOW_MS + HOUR_MS, gpus=("n0/1", "n0/2"))}
    moved, started = decided(scattered(waiting("gang", "g", 3), reservations=promised))
    assert (len(moved), started) == (1, ["gang"])


def test_advice_of_another_world_moves_nobody_where_the_queue_starts_somebody_else() -> None:
    """The advice was made before the entitled job came."""
    before = scattered(waiting("gang", "g", 3))
    (advice,) = advised(consolidate.advise(before, observed(), AUTO, RULES))
    late = waiting("entitled", "q", 2)
    state = checked(replace(before, jobs={**before.jobs, "entitled": late}))
    plan = decide(state, AUTO, [advice])
    assert [(type(step), step.job) for step in plan.steps] == [(Start, "entitled")]
    told = {each.job: each.reason for each in plan.refused}
    assert told["s0"] == "the queue would not start gang on what that frees"


def test_moves_of_two_gangs_help_both_or_only_the_one_that_starts() -> None:
    gpus = [gpu(f"n/{at}", node="n") for at in range(4)]
    halves = [
        (job(f"s{at}", project="small", share=0.5, memory_bytes=GIB, memory_held_bytes=GIB), (f"n/{at}",))
        for at in range(4)
    ]
    line = [waiting(name, "g", 1) for name in ("first", "second")]
    state = checked(replace(cluster(halves, gpus=gpus, waiting=line), projects={"g": Project(name="g")}))
    moved, started = decided(state)
    assert len(moved) == len(started) >= 1
    assert started == ["first", "second"][: len(started)]


@pytest.mark.parametrize("mode", [Mode.ADVISE, Mode.ASK])
def test_moves_that_nobody_approved_keep_nobody_waiting(mode: Mode) -> None:
    bounds = replace(AUTO, modes={**AUTO.modes, ActionClass.CONSOLIDATE: mode})
    state = scattered(waiting("gang", "g", 3), waiting("single", "g", 1, priority=-1))
    (answer,) = consolidate.advise(state, observed(), bounds, RULES) or (None,)
    assert answer is None or not isinstance(answer, Advice) or answer.job == "gang"
    plan = decide(state, bounds, () if answer is None else [answer])
    assert [step.job for step in approve(plan, state, bounds).approved.steps] == ["single"]

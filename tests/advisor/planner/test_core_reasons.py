"""What a waiting person reads: true in each case, and what would have to happen."""

from dataclasses import replace

import pytest

from advisor.decide import decide
from advisor.planner.limits import Limits
from advisor.state.model import (
    ActionClass,
    ClusterState,
    Gpu,
    Job,
    Phase,
    Placement,
    Project,
    Reservation,
    Telemetry,
)
from analytics import text
from collector.model import JobKind

NOW_MS = 100 * 3_600_000


def world(gpus: int, projects: dict[str, float], running: dict[str, tuple[str, bool, int]]) -> ClusterState:
    """``running``: job = (project, preemptible, GPUs), laid on GPUs in order."""
    at, jobs, placements = 0, {}, {}
    for name, (project, preemptible, size) in running.items():
        jobs[name] = Job(
            id=name,
            project=project,
            phase=Phase.RUNNING,
            preemptible=preemptible,
            min_gpus=size,
            max_gpus=size,
            attached=False,
            started_ms=0,
        )
        placements[name] = Placement(gpus=tuple(f"g{n}" for n in range(at, at + size)))
        at += size
    return ClusterState(
        as_of_ms=NOW_MS,
        gpus={f"g{n}": Gpu(uuid=f"g{n}", node="n", telemetry=Telemetry.GOOD) for n in range(gpus)},
        projects={name: Project(name=name, quota_gpus=quota) for name, quota in projects.items()},
        jobs=jobs,
        placements=placements,
    )


def wish(project: str = "a", gpus: int = 1, **more: object) -> Job:
    plain = Job(id="w", project=project, min_gpus=gpus, max_gpus=gpus, submitted_ms=NOW_MS - 1)
    return replace(plain, **more)  # type: ignore[arg-type]


CASES = {
    "quotas take up everything, and one is free": (
        world(4, {"a": 0, "b": 4}, {"r": ("b", True, 3)}),
        wish(),
        "it is not preemptible, and 1 of its GPUs would lie beyond the quota of a: quotas guarantee all 4 to "
        "projects; 1 are free now and stay free for whoever is guaranteed them",
        "submitting it as one that may give way (--preemptible), or a quota of at least 1 for a",
    ),
    "quotas add up to more than there is": (
        world(4, {"a": 2, "b": 4}, {"r": ("a", False, 2)}),
        wish(),
        "quotas add up to 6, and there are 4",
        "a quota of at least 3 for a",
    ),
    "another one borrowed firmly before": (
        world(4, {"a": 0, "b": 2}, {"r": ("c", False, 2)}),
        wish(),
        "quotas guarantee 2 of 4 to projects, and 2 of the other 2 are held by jobs that cannot give way",
        "or the end of one of those jobs",
    ),
    "some are left, and not enough": (
        world(4, {"a": 0, "b": 3}, {}),
        wish(gpus=2),
        "2 of its GPUs would lie beyond the quota of a: quotas guarantee 3 of 4 to projects, which leaves 1",
        "a quota of at least 2 for a",
    ),
    "an interactive job that says it may give way": (
        world(4, {"a": 0, "b": 4}, {}),
        wish(kind=JobKind.INTERACTIVE, preemptible=True),
        "interactive jobs are never made to give way, and",
        "submitting it as a preemptible batch job",
    ),
    "nothing free, and it is owed nothing": (
        world(2, {"a": 1, "b": 1}, {"r": ("a", True, 1), "s": ("b", True, 1)}),
        wish(preemptible=True),
        "it needs 1 GPUs at once and 0 that it can use are free whole; a has 1 of its fair share of 1 GPUs, "
        "so others need not give way",
        "jobs ending",
    ),
    "owed, and those over their share have just begun": (
        world(2, {"a": 1, "b": 1}, {"r": ("b", True, 1), "s": ("b", True, 1)}),
        wish(preemptible=True),
        "the quota of a guarantees it a place, and those who have it cannot give way "
        "(1 in-quota, 1 min-runtime)",
        "their minimal run time being over",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_the_reason_is_true_and_says_what_would_have_to_happen(case: str) -> None:
    state, job, reason, would_change = CASES[case]
    if "just begun" in case:
        young = {id: replace(each, started_ms=NOW_MS - 1) for id, each in state.jobs.items()}
        state = replace(state, jobs=young)
    plan = decide(replace(state, jobs={**state.jobs, "w": job}), Limits())
    (refused,) = [each for each in plan.refused if each.job == "w"]
    assert reason in refused.reason
    assert would_change in refused.would_change


def test_behind_one_that_is_owed_a_place_nobody_is_told_that_he_is_owed_nothing() -> None:
    state = world(2, {"a": 2, "b": 0}, {"r": ("b", True, 2)})
    young = {id: replace(each, started_ms=NOW_MS - 1) for id, each in state.jobs.items()}
    first = replace(wish(gpus=2, preemptible=True), id="first", submitted_ms=0)
    second = wish(preemptible=True)
    plan = decide(replace(state, jobs={**young, "first": first, "w": second}), Limits())
    told = {each.job: each for each in plan.refused}
    assert "need not give way" not in told["w"].reason
    assert "goes first to an earlier job of a" in told["w"].reason


@pytest.mark.parametrize("before", [{}, {"picky": wish("green", gpu_models=("no such GPU",))}])
def test_a_gang_over_its_quota_has_no_turn_before_a_job_within_its_own(before: dict[str, Job]) -> None:
    """Nor where another job of its project, which cannot start, stands before it."""
    waiting = {**before, "gang": wish("green", 4), "small": wish("red")}
    jobs = {
        name: replace(job, id=name, submitted_ms=NOW_MS - 10 + place)
        for place, (name, job) in enumerate(waiting.items())
    }
    state = world(8, {"green": 4, "red": 4}, {"g": ("green", True, 1), "r": ("red", True, 3)})
    plan = decide(replace(state, jobs={**state.jobs, **jobs}), Limits())
    assert [step.job for step in plan.steps] == ["small"]


def test_the_order_of_a_map_changes_no_plan_and_no_sentence() -> None:
    """Sums of shares are rounded once: 0.1 + 0.2 + 0.3 is not 0.3 + 0.2 + 0.1 otherwise."""
    state = world(4, {"a": 0, "b": 0}, dict.fromkeys(("r", "s", "t"), ("b", True, 1)))
    parts = dict(zip(("r", "s", "t"), (0.1, 0.2, 0.3), strict=True))
    jobs = {id: replace(job, share=parts[id], memory_bytes=1 << 30) for id, job in state.jobs.items()}
    places = {id: replace(placed, share=parts[id], gpus=("g0",)) for id, placed in state.placements.items()}
    gpus = {uuid: replace(gpu, memory_bytes=80 << 30) for uuid, gpu in state.gpus.items()}
    state = replace(state, jobs={**jobs, "w": wish("b", 5)}, placements=places, gpus=gpus)
    turned = replace(
        state, placements=dict(reversed(places.items())), jobs=dict(reversed(state.jobs.items()))
    )
    assert decide(turned, Limits()) == decide(state, Limits())


@pytest.mark.parametrize(
    ("gpus", "said"), [(1.63e-16, "0"), (-1e-17, "0"), (4 / 3, "1.33"), (1250.0, "1,250")]
)
def test_what_rounding_left_over_is_said_to_be_nothing(gpus: float, said: str) -> None:
    assert text.count(gpus) == said


def test_who_is_guaranteed_a_place_hears_whom_to_ask_for_it() -> None:
    """One H100, on which somebody who opted out sits; an A100 is free, and there is enough for both."""
    state = world(2, {"a": 1, "b": 0}, {"r": ("b", True, 1)})
    stays = replace(state.jobs["r"], user="gus", opted_out=frozenset({ActionClass.FAIR_SHARE}))
    models = {"g0": "H100", "g1": "A100"}
    gpus = {uuid: replace(gpu, model=models[uuid]) for uuid, gpu in state.gpus.items()}
    job = wish(gpu_models=("H100",), preemptible=True)
    told = refusals(replace(state, gpus=gpus, jobs={"r": stays, "w": job}))
    reason, would_change = told["w"]
    assert (
        "the quota of a guarantees it a place, and those who have it cannot give way (1 opted-out)" in reason
    )
    assert would_change == "gus letting r give way (opted-out)"


def test_quotas_above_what_there_is_are_said() -> None:
    """Each is guaranteed two of two: half of it each, and neither can have its own gang by right."""
    state = world(2, {"a": 2, "b": 2}, {"r": ("b", True, 2)})
    (reason, would_change) = refusals(
        replace(state, jobs={**state.jobs, "w": wish(gpus=2, preemptible=True)})
    )["w"]
    assert "a has 0 of its fair share of 1 GPUs (quotas of the site add up to 4, and there are 2)" in reason
    assert "quotas that fit" in would_change


def promised(state: ClusterState, gpus: tuple[str, ...], **jobs: Job) -> ClusterState:
    """``jobs`` wait too, and ``head`` is promised these GPUs, an hour from now; who runs is gone by then."""
    bound = {id: replace(job, limit_s=(NOW_MS + 3_000_000) / 1000) for id, job in state.jobs.items()}
    waiting = {id: replace(job, id=id) for id, job in jobs.items()}
    kept = Reservation(start_ms=NOW_MS + 3_600_000, gpus=gpus)
    return replace(state, jobs={**bound, **waiting}, reservations={"head": kept})


def refusals(state: ClusterState) -> dict[str, tuple[str, str]]:
    return {each.job: (each.reason, each.would_change) for each in decide(state, Limits()).refused}


def test_who_is_kept_out_by_a_promise_is_told_to_whom() -> None:
    """Its fair share entitles it to a place, but no quota does, so the promise binds it."""
    state = world(5, {"a": 0, "b": 0}, {"r": ("b", True, 4)})
    head = wish("b", 5, submitted_ms=0, preemptible=True)
    two = wish("a", 2, preemptible=True)
    told = refusals(promised(state, ("g0", "g1", "g2", "g3", "g4"), head=head, w=two))
    reason, would_change = told["w"]
    assert "0 that it can use are free whole, 1 more are free and promised to head; those over" in reason
    assert "cannot give way for it (1 on GPUs promised to head)" in reason
    assert would_change == "the start of head"


def test_what_is_held_back_for_a_job_is_not_told_to_be_promised_to_others() -> None:
    state = world(4, {"a": 4, "b": 0}, {"r": ("a", True, 3)})
    told = refusals(promised(state, ("g0", "g1", "g2", "g3"), head=wish("a", 4, preemptible=True)))
    assert "0 that it can use are free whole, 1 more are free and held back for it" in told["head"][0]
    assert "promised to start within 1 h" in told["head"][0]

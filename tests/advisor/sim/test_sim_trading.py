"""Sizes by marginal goodput, and turns within a project: what is given, to whom, and what is left alone."""

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.actions import Requeue, Resize, Start
from advisor.decide import decide
from advisor.planner.limits import Limits, Order
from advisor.planner.transition import replay
from advisor.policies.elastic_placement import reshape
from advisor.policies.elastic_sizes import Claim, apportion, claim_of
from advisor.policies.time_slicing import QUANTUM_GPU_S, take_turns
from advisor.state.model import (
    ClusterState,
    Gpu,
    Job,
    Phase,
    Placement,
    Profile,
    Project,
    ProjectName,
    Reservation,
    Telemetry,
)
from collector.model import GpuUuid, JobId, NodeName
from tests.searches import examples

LAB, OTHER = ProjectName("lab"), ProjectName("other")
NOW_MS = 100_000_000
FREELY = Limits(min_runtime_s=0.0, cooldown_s=0.0, actions_per_hour=None, resize_pause_s=0.0)
GOODPUT = replace(FREELY, order=Order.GOODPUT)
YOUNGEST = replace(FREELY, order=Order.YOUNGEST)


def perfect(most: int, seconds: float = 1.0) -> dict[int, float]:
    return {n: seconds / n for n in range(1, most + 1)}


def elastic(name: str, most: int = 4, left: float | None = 10_000.0, **more: object) -> Job:
    profile = Profile(step_s=perfect(most), steps_left=left, resize_s=1.0)
    made = {"project": LAB, "preemptible": True, "checkpointable": True, "attached": False, **more}
    return Job(id=JobId(name), min_gpus=1, max_gpus=most, profile=profile, **made)  # type: ignore[arg-type]


def cluster(gpus: int, *jobs: tuple[Job, tuple[int, ...]]) -> ClusterState:
    names = [GpuUuid(f"g{number:02d}") for number in range(gpus)]
    return ClusterState(
        as_of_ms=NOW_MS,
        gpus={
            name: Gpu(uuid=name, node=NodeName(f"n{at // 4}"), telemetry=Telemetry.GOOD)
            for at, name in enumerate(names)
        },
        jobs={job.id: replace(job, phase=Phase.RUNNING, started_ms=0) if at else job for job, at in jobs},
        placements={
            job.id: Placement(gpus=tuple(names[number] for number in held)) for job, held in jobs if held
        },
    )


@st.composite
def claims(draw: st.DrawFn) -> list[Claim]:
    made = []
    for number in range(draw(st.integers(0, 12))):
        most = draw(st.integers(1, 9))
        speeds = {n: draw(st.floats(0.1, 10.0)) for n in range(1, most + 1)}
        held = draw(st.sampled_from([0, *speeds]))
        made.append(
            Claim(
                job=JobId(f"j{number}"),
                project=draw(st.sampled_from([LAB, OTHER])),
                speeds=speeds,
                gpu_s_left=draw(st.floats(60.0, 1e6)),
                held=held,
            )
        )
    return made


@given(claims(), st.integers(0, 20), st.none() | st.integers(0, 12))
@settings(max_examples=examples(50, 100))
def test_no_more_is_given_than_there_is_nor_than_a_project_may_have(
    asked: list[Claim], gpus: int, budget: int | None
) -> None:
    budgets = None if budget is None else {LAB: float(budget), OTHER: 3.0}
    given_gpus = apportion(asked, gpus, budgets=budgets)
    by_name = {claim.job: claim for claim in asked}
    assert sum(given_gpus.values()) <= gpus
    assert all(size in by_name[job].speeds for job, size in given_gpus.items())
    for project, most in (budgets or {}).items():
        own = sum(size for job, size in given_gpus.items() if by_name[job].project == project)
        assert own <= most


def test_a_job_goes_past_a_size_that_is_worse_than_a_smaller_one() -> None:
    claim = Claim(job=JobId("a"), project=LAB, speeds={1: 1.0, 2: 0.8, 3: 2.7}, gpu_s_left=1e4)
    assert apportion([claim], 3) == {"a": 3}
    assert apportion([claim], 2) == {"a": 1}


def test_the_shorter_of_two_equal_jobs_gets_more() -> None:
    curve = {n: n**0.5 for n in range(1, 9)}
    short = Claim(job=JobId("short"), project=LAB, speeds=curve, gpu_s_left=2e5)
    long = Claim(job=JobId("long"), project=LAB, speeds=curve, gpu_s_left=1e6)
    sizes = apportion([long, short], 8)
    assert sizes["short"] > sizes["long"] >= 1


def test_gpus_go_to_the_job_that_scales() -> None:
    good = Claim(job=JobId("good"), project=LAB, speeds={n: float(n) for n in range(1, 9)}, gpu_s_left=1e5)
    poor = Claim(job=JobId("poor"), project=LAB, speeds={n: n**0.1 for n in range(1, 9)}, gpu_s_left=1e5)
    assert apportion([poor, good], 8) == {"good": 7, "poor": 1}


def test_sizes_that_cost_more_than_twice_the_gpu_time_are_not_claimed() -> None:
    job = replace(elastic("a"), profile=Profile(step_s={1: 1.0, 2: 0.9, 3: 0.85, 4: 0.3}, steps_left=1e4))
    claim = claim_of(job, 0, GOODPUT)
    assert claim is not None
    assert set(claim.speeds) == {1, 2, 4}


def test_a_job_that_reports_nothing_counts_by_what_it_has_had() -> None:
    new = claim_of(elastic("new", left=None), 0, GOODPUT)
    old = claim_of(elastic("old", left=None, attained_gpu_s=1e6), 0, GOODPUT)
    assert new is not None
    assert old is not None
    assert new.gpu_s_left < old.gpu_s_left


def test_a_live_decision_shrinks_a_long_job_for_a_short_one_of_the_same_project() -> None:
    curve = {n: n**-0.5 for n in range(1, 5)}
    long, short = (
        replace(elastic(name), profile=Profile(step_s=curve, steps_left=left, resize_s=1.0))
        for name, left in (("long", 1e6), ("short", 2e5))
    )
    state = cluster(4, (long, (0, 1, 2, 3)), (short, ()))
    plan = decide(state, GOODPUT)
    assert [type(step) for step in plan.steps] == [Resize, Start]
    after = replay(state, plan.steps)
    assert sum(len(placed.gpus) for placed in after.placements.values()) == 4
    assert len(after.placements) == 2


def test_who_opted_out_or_cannot_be_preempted_keeps_all_it_has() -> None:
    for left_alone in (
        elastic("long", left=1e6, preemptible=False),
        elastic("long", left=1e6, keep_until_ms=NOW_MS + 1),
        elastic("long", left=1e6, attached=True),
    ):
        state = cluster(4, (left_alone, (0, 1, 2, 3)), (elastic("short", left=500.0), ()))
        assert not decide(state, GOODPUT).steps


def test_growth_that_does_not_pay_for_its_resize_is_left() -> None:
    state = cluster(4, (elastic("ending", left=5.0), (0,)))
    assert not decide(state, GOODPUT).steps


def test_an_old_job_gives_way_to_a_young_one_right_after_a_checkpoint() -> None:
    old = rigid("old", attained_gpu_s=2 * QUANTUM_GPU_S, checkpoint_ms=NOW_MS - 30_000)
    state = cluster(4, (old, (0, 1, 2, 3)), (rigid("young"), ()))
    steps = decide(state, YOUNGEST).steps
    assert [(type(step), step.job) for step in steps] == [(Requeue, "old"), (Start, "young")]


def rigid(name: str, **more: object) -> Job:
    plain = {"project": LAB, "preemptible": True, "checkpointable": True, "attached": False}
    return Job(id=JobId(name), **{"min_gpus": 4, "max_gpus": 4, **plain, **more})  # type: ignore[arg-type]


def test_nobody_gives_way_long_after_a_checkpoint_nor_while_young_nor_to_another_project() -> None:
    hours = 2 * QUANTUM_GPU_S
    fresh = NOW_MS - 30_000
    for holder, waiting in (
        (rigid("old", attained_gpu_s=hours, checkpoint_ms=NOW_MS - 900_000), rigid("young")),
        (rigid("old", attained_gpu_s=hours), rigid("young")),
        (rigid("young-too", attained_gpu_s=60.0, checkpoint_ms=fresh), rigid("young")),
        (rigid("old", attained_gpu_s=hours, checkpoint_ms=fresh, preemptible=False), rigid("young")),
        (rigid("old", attained_gpu_s=hours, checkpoint_ms=fresh), rigid("old-too", attained_gpu_s=hours)),
        (rigid("old", attained_gpu_s=hours, checkpoint_ms=fresh, project=OTHER), rigid("young")),
    ):
        assert not take_turns(cluster(4, (holder, (0, 1, 2, 3)), (waiting, ())), YOUNGEST)


def test_turns_stop_at_the_bound_on_disturbances() -> None:
    old = rigid("old", attained_gpu_s=2 * QUANTUM_GPU_S, checkpoint_ms=NOW_MS)
    state = cluster(4, (old, (0, 1, 2, 3)), (rigid("young"), ()))
    assert take_turns(state, replace(YOUNGEST, actions_per_hour=1))
    assert not take_turns(state, replace(YOUNGEST, actions_per_hour=0))


def test_in_other_orders_nobody_trades() -> None:
    old = rigid("old", attained_gpu_s=2 * QUANTUM_GPU_S, checkpoint_ms=NOW_MS)
    state = cluster(4, (old, (0, 1, 2, 3)), (rigid("young"), ()))
    assert not decide(state, FREELY).steps


def test_trading_keeps_what_was_promised_to_the_head_of_a_queue() -> None:
    """Neither a growing job nor a young one takes the GPUs that are held back for it."""
    ending = rigid("ending", min_gpus=2, max_gpus=2, limit_s=(NOW_MS + 1000) / 1000)
    old = rigid("old", attained_gpu_s=2 * QUANTUM_GPU_S, checkpoint_ms=NOW_MS, min_gpus=1, max_gpus=1)
    growing = elastic("growing", most=8, left=1e6, project=OTHER)
    young = rigid("young", min_gpus=3, max_gpus=3)
    state = cluster(6, (ending, (0, 1)), (old, (4,)), (growing, (5,)), (rigid("head"), ()), (young, ()))
    kept = Reservation(start_ms=NOW_MS + 10_000, gpus=("g00", "g01", "g02", "g03"))  # type: ignore[arg-type]
    for limits in (GOODPUT, YOUNGEST):
        plan = decide(replace(state, reservations={JobId("head"): kept}), limits)
        taken = {uuid for step in plan.steps if isinstance(step, Start | Resize) for uuid in step.gpus}
        assert not taken & {"g02", "g03"}
        (told,) = [each.reason for each in plan.refused if each.job == "head"]
        assert "promised to start within" in told


def test_trading_disturbs_nobody_in_his_minimal_run_time() -> None:
    """A job that may not be disturbed shrinks for a shorter one, and never leaves for it."""
    long, short = elastic("long", left=1e7, most=2), elastic("short", left=500.0, most=2)
    state = cluster(2, (long, (0, 1)), (short, ()))
    for runs_s, leaves in ((60.0, 0), (700.0, 1)):
        began = replace(state.jobs[JobId("long")], min_gpus=2, started_ms=NOW_MS - round(runs_s * 1000))
        young = replace(state, jobs={**state.jobs, began.id: began})
        plan = decide(young, replace(GOODPUT, min_runtime_s=600.0))
        assert sum(isinstance(step, Requeue) for step in plan.steps) == leaves


def test_trading_keeps_within_the_limits_of_projects() -> None:
    old = rigid("old", attained_gpu_s=2 * QUANTUM_GPU_S, checkpoint_ms=NOW_MS, min_gpus=1, max_gpus=1)
    small = rigid("small", min_gpus=2, max_gpus=2)
    limited = {LAB: Project(name=LAB, limit_gpus=2.0)}
    wide = replace(cluster(4, (old, (0,)), (rigid("young"), ())), projects=limited)
    assert not take_turns(wide, YOUNGEST)
    within = replace(cluster(4, (old, (0,)), (small, ())), projects=limited)
    assert [(type(step), step.job) for step in take_turns(within, YOUNGEST)] == [
        (Requeue, "old"),
        (Start, "small"),
    ]


def test_no_more_give_way_than_the_bound_allows() -> None:
    jobs = [(elastic(f"long{at}", left=1e7, most=1), (at,)) for at in range(4)]
    comers = [(elastic(f"short{at}", left=500.0, most=1), ()) for at in range(4)]
    for bound in range(5):
        plan = decide(cluster(4, *jobs, *comers), replace(GOODPUT, actions_per_hour=bound))
        assert sum(isinstance(step, Requeue) for step in plan.steps) == bound


def test_what_a_project_holds_stays_with_it_however_short_the_jobs_of_others_are() -> None:
    mine = [elastic(f"mine{at}", left=1e7, most=1) for at in range(4)]
    theirs = [elastic(f"theirs{at}", left=500.0, most=1, project=OTHER) for at in range(4)]
    state = cluster(4, *((job, (at,)) for at, job in enumerate(mine)), *((job, ()) for job in theirs))
    assert reshape(state, GOODPUT) == ()

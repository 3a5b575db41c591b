"""What must hold of any plan, whatever the cluster: tried on random clusters in the middle of their lives."""

from collections import Counter, defaultdict
from dataclasses import replace

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from advisor.actions import Cancel, HoldForJob, Move, Pause, Requeue, Resize, Resume, Start
from advisor.decide import decide
from advisor.planner.fair_share import fair_shares
from advisor.planner.guard import approve
from advisor.planner.limits import Lending, Limits, Mode, Order
from advisor.planner.quota import allocated, quota_cover, upward
from advisor.planner.transition import memory_beside, replay, transition
from advisor.planner.validate import checked
from advisor.state.model import ActionClass, ClusterState, Phase, Telemetry
from analytics.thresholds import SHARED_RESERVE_BYTES
from collector.model import JobKind
from tests.advisor.planner.worlds import NOW_MS, clusters
from tests.searches import examples

FREE = Limits(actions_per_hour=None)
AUTO = Limits(actions_per_hour=None, modes=dict.fromkeys(ActionClass, Mode.AUTO))
LIMITS = st.sampled_from(
    [
        Limits(),
        FREE,
        Limits(order=Order.SHORTEST, usage_weight=0.0, min_runtime_s=0),
        Limits(order=Order.YOUNGEST, actions_per_hour=None),
        Limits(order=Order.GOODPUT, actions_per_hour=None),
        Limits(lending=Lending.JOBS, actions_per_hour=None),
    ]
)
EPSILON = 1e-6


def end_of(state: ClusterState, limits: Limits) -> ClusterState:
    return replay(state, decide(state, limits).steps)


@given(clusters(), LIMITS)
@settings(max_examples=60)
def test_no_gpu_and_no_memory_is_ever_given_twice(state: ClusterState, limits: Limits) -> None:
    after = checked(end_of(state, limits))
    tenants = defaultdict(list)
    for id, placement in after.placements.items():
        for uuid in placement.gpus:
            tenants[uuid].append((after.jobs[id], placement.share))
    for uuid, own in tenants.items():
        gpu = after.gpus[uuid]
        assert sum(share for _, share in own) <= 1 + EPSILON
        needs = [memory_beside(job, gpu, share) for job, share in own]
        reserve = SHARED_RESERVE_BYTES if len(own) > 1 else 0
        assert sum(need or 0 for need in needs) <= gpu.memory_bytes - reserve


@given(clusters(), LIMITS)
@settings(max_examples=60)
def test_gpus_and_jobs_are_conserved(state: ClusterState, limits: Limits) -> None:
    after = end_of(state, limits)
    assert after.gpus == state.gpus
    assert set(after.jobs) == set(state.jobs)
    for id, job in after.jobs.items():
        assert (id in after.placements) == (job.phase is Phase.RUNNING)


@given(clusters(), LIMITS)
@settings(max_examples=60)
def test_a_gang_runs_whole_or_not_at_all(state: ClusterState, limits: Limits) -> None:
    after = end_of(state, limits)
    for id, placement in after.placements.items():
        assert after.jobs[id].min_gpus <= len(placement.gpus) <= after.jobs[id].max_gpus
        kinds = {(after.gpus[uuid].model, after.gpus[uuid].memory_bytes) for uuid in placement.gpus}
        assert len(kinds) == 1 or placement == state.placements.get(id)
        nodes = {after.gpus[uuid].node for uuid in placement.gpus}
        assert len(nodes) == 1 or not after.jobs[id].on_one_node


@given(clusters(), LIMITS)
@settings(max_examples=60)
def test_steps_lead_to_the_outlook_that_the_plan_gave(state: ClusterState, limits: Limits) -> None:
    plan = decide(state, limits)
    after = replay(state, plan.steps)
    assert plan.outlook is not None
    given = upward(fair_shares(after, limits).tree, allocated(after))
    promised = dict(plan.outlook.allocated_gpus)
    assert {k: round(v, 6) for k, v in given.items() if v > EPSILON} == {
        k: round(v, 6) for k, v in promised.items()
    }
    assert plan.outlook.running == len(after.placements)
    assert plan.outlook.waiting == len(after.jobs) - len(after.placements)
    held = {uuid for placement in after.placements.values() for uuid in placement.gpus}
    usable = [
        gpu
        for gpu in after.gpus.values()
        if gpu.healthy and not gpu.occupied and after.nodes[gpu.node].schedulable
    ]
    assert plan.outlook.free_gpus == sum(1 for gpu in usable if gpu.uuid not in held)


@given(clusters(), LIMITS, st.randoms(use_true_random=False))
@settings(max_examples=60)
def test_the_same_snapshot_gives_the_same_plan(state: ClusterState, limits: Limits, random) -> None:
    def shuffled(mapping):
        items = list(mapping.items())
        random.shuffle(items)
        return dict(items)

    again = replace(
        state,
        gpus=shuffled(state.gpus),
        jobs=shuffled(state.jobs),
        projects=shuffled(state.projects),
        placements=shuffled(state.placements),
        nodes=shuffled(state.nodes),
    )
    assert decide(again, limits) == decide(state, limits)


def losers(state: ClusterState, steps) -> dict[str, object]:
    """Jobs that a plan takes GPUs from, with the step that does."""
    found = {}
    for step in steps:
        match step:
            case Pause() | Requeue() | Cancel() | Move():
                found[step.job] = step
            case Resize() if len(step.gpus) < len(state.placements[step.job].gpus):
                found[step.job] = step
    return found


@given(clusters())
@settings(max_examples=60)
def test_what_a_quota_covers_is_never_taken_by_another_project(state: ClusterState) -> None:
    cover = quota_cover(state)
    after = end_of(state, FREE)
    for id, step in losers(state, decide(state, FREE).steps).items():
        taker = state.jobs[step.for_job]
        if taker.project == state.jobs[id].project:
            continue
        kept = after.placements[id].size_gpus if id in after.placements else 0.0
        assert (
            kept >= min(cover.gpus(state.jobs[id], taker.project), state.placements[id].size_gpus) - EPSILON
        )


@given(clusters())
@settings(max_examples=60)
def test_whoever_is_protected_is_never_disturbed(state: ClusterState) -> None:
    for id, step in losers(state, decide(state, FREE).steps).items():
        job = state.jobs[id]
        assert job.kind is not JobKind.INFERENCE
        assert job.attached is False
        gpus = [state.gpus[uuid] for uuid in state.placements[id].gpus]
        assert all(gpu.telemetry is Telemetry.GOOD for gpu in gpus)
        if not isinstance(step, Resize):
            assert job.preemptible
            assert ActionClass.FAIR_SHARE not in job.opted_out
            assert NOW_MS - job.started_ms >= FREE.min_runtime_s * 1000


@pytest.mark.slow
@given(clusters())
@settings(max_examples=60)
def test_who_takes_ends_no_higher_than_the_victim_was(state: ClusterState) -> None:
    plan = decide(state, FREE)
    fair, tree = plan.fair_gpus, fair_shares(state, FREE).tree
    before = upward(tree, allocated(state))
    after = upward(tree, allocated(replay(state, plan.steps)))
    grown_later = {step.job for step in plan.steps if isinstance(step, Start | Resize)}
    takers = {step.for_job for step in losers(state, plan.steps).values()}
    for id, step in losers(state, plan.steps).items():
        mine, other = (tree.paths[state.jobs[each].project] for each in (step.for_job, id))
        if mine == other:
            continue
        level = next(name for name in reversed(mine) if name not in other)
        victim = next(name for name in reversed(other) if name not in mine)
        below = mine[: mine.index(level) + 1]
        guaranteed = any(after[name] <= tree.quotas[name] + EPSILON for name in below)
        assert guaranteed or before[victim] > fair[victim] - EPSILON
        elastic = any(  # or started on what was left over of what others gave up
            state.jobs[each].elastic or each not in takers
            for each in grown_later
            if level in tree.paths[state.jobs[each].project]
        )
        if not elastic:
            assert after[level] <= fair[level] + EPSILON or after[level] <= before[level] + EPSILON


@pytest.mark.slow
@given(clusters())
@settings(max_examples=60)
def test_nobody_preempts_the_one_who_preempted_him(state: ClusterState) -> None:
    """But once, where the other's project has filled what was left over meanwhile, and is above its share."""
    free = replace(FREE, min_runtime_s=0.0, cooldown_s=0.0, resize_pause_s=0.0)
    took_from: set[tuple[str, str]] = set()
    turned: set[tuple[str, str]] = set()
    filled: set[str | None] = set()
    for _ in range(6):
        plan = decide(state, free)
        taken = losers(state, plan.steps)
        for id, step in taken.items():
            if not isinstance(step, Resize):
                turn = (id, step.for_job)
                back = turn in took_from
                is_above = state.jobs[id].project in filled and turn not in turned
                assert not back or is_above, f"{step.for_job} and {id} take turns"
                turned |= {turn, turn[::-1]} if back else set()
                took_from.add((step.for_job, id))
        takers = {step.for_job for step in taken.values()}
        filled |= {
            state.jobs[step.job].project
            for step in plan.steps
            if isinstance(step, Start) and step.job not in takers
        }
        state = replace(replay(state, plan.steps), as_of_ms=state.as_of_ms + 60_000)


@given(clusters())
@settings(max_examples=60)
def test_plans_come_to_rest(state: ClusterState) -> None:
    free = replace(FREE, min_runtime_s=0.0, cooldown_s=0.0, resize_pause_s=0.0)
    for _ in range(12):
        plan = decide(state, free)
        state = replace(replay(state, plan.steps), as_of_ms=state.as_of_ms + 60_000)
        if not any(not isinstance(step, HoldForJob) for step in plan.steps):
            return
    raise AssertionError(f"still moving after 12 rounds: {plan.steps}")


@given(clusters())
@settings(max_examples=examples(30, 60))
def test_nobody_waits_for_want_of_a_turn_while_a_gpu_is_free(state: ClusterState) -> None:
    """Whoever is refused for lack of room finds none in the end, but what is held back for heads."""
    plan = decide(state, FREE)
    after = replay(state, plan.steps)
    assume(not any(isinstance(step, HoldForJob) for step in plan.steps))
    assume(not any("held back" in refusal.reason for refusal in plan.refused))
    for refusal in plan.refused:
        job = after.jobs[refusal.job]
        if refusal.rule == "no-room" and job.phase is Phase.PENDING and job.share == 1:
            free = Counter(
                (gpu.model, gpu.memory_bytes, gpu.node if job.on_one_node else None)
                for gpu in after.gpus.values()
                if gpu.healthy
                and not gpu.occupied
                and after.nodes[gpu.node].schedulable
                and not any(gpu.uuid in placement.gpus for placement in after.placements.values())
            )
            assert max(free.values(), default=0) < job.min_gpus


@given(clusters(), LIMITS)
@settings(max_examples=60)
def test_every_waiting_job_starts_or_hears_why_not(state: ClusterState, limits: Limits) -> None:
    plan = decide(state, limits)
    started = {step.job for step in plan.steps if isinstance(step, Start | Resume)}
    told = {refusal.job for refusal in plan.refused}
    for id, job in state.jobs.items():
        if job.phase is not Phase.RUNNING and not (job.acted_ms is not None):
            assert (id in started) != (id in told), id
    assert all(refusal.reason for refusal in plan.refused)
    assert all(step.reason for step in plan.steps)


@pytest.mark.slow
@given(clusters(), LIMITS)
@settings(max_examples=100)
def test_the_guard_approves_what_the_planner_plans(state: ClusterState, limits: Limits) -> None:
    """Both ask the same rules; a plan that the guard would refuse is a planner that lost count."""
    auto = replace(limits, modes=AUTO.modes)
    plan = decide(state, auto)
    ruling = approve(plan, state, auto)
    assert ruling.refused == ()
    assert ruling.approved.steps == plan.steps


@given(clusters())
@settings(max_examples=60)
def test_a_step_at_a_time_is_the_same_as_all_at_once(state: ClusterState) -> None:
    steps = decide(state, FREE).steps
    one_by_one = state
    for step in steps:
        one_by_one = transition(one_by_one, step)
    assert one_by_one == replay(state, steps)


@pytest.mark.slow
@given(clusters(), LIMITS)
@settings(max_examples=100)
def test_limits_hold(state: ClusterState, limits: Limits) -> None:
    tree = fair_shares(state, limits).tree
    before = upward(tree, allocated(state))
    after = upward(tree, allocated(end_of(state, limits)))
    for name, project in tree.projects.items():
        if project.limit_gpus is not None:
            assert after[name] <= max(project.limit_gpus, before[name]) + EPSILON


@given(clusters())
@settings(max_examples=60)
def test_fair_shares_never_exceed_capacity_demand_or_limit(state: ClusterState) -> None:
    shares = fair_shares(state, FREE)
    roots = sum(shares.fair_gpus[name] for name in shares.tree.roots)
    assert roots <= shares.capacity_gpus + EPSILON
    for name, fair in shares.fair_gpus.items():
        assert fair <= shares.demand_gpus[name] + EPSILON
        children = sum(shares.fair_gpus[child] for child in shares.tree.children[name])
        assert not shares.tree.children[name] or children <= fair + EPSILON
    wanted = sum(shares.demand_gpus[name] for name in shares.tree.roots)
    assert abs(roots - min(wanted, shares.capacity_gpus)) < EPSILON

"""A guarantee is kept in every shape of cluster: whoever waits within it finds no borrower in its place.

The oracle is blunt. Of a random cluster in which everything was lent out, all borrowers are taken away; if
whoever waits within its guarantee fits then, it has to have been started.
"""

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.actions import HoldForJob, Move, Pause, Requeue, Start
from advisor.decide import decide
from advisor.planner.fair_share import fair_shares
from advisor.planner.limits import Limits
from advisor.planner.placement import Board
from advisor.planner.plan import Plan
from advisor.planner.quota import allocated, quota_cover, upward
from advisor.planner.transition import Draft, replay
from advisor.planner.validate import checked
from advisor.state.model import ClusterState, Gpu, Job, Node, Phase, Project, Telemetry, Topology

GIB = 1 << 30
NOW_MS = 100 * 3_600_000
ANY = Limits(actions_per_hour=None, min_runtime_s=0.0, cooldown_s=0.0, resize_pause_s=0.0)
SLACK = 1e-6
ROUNDS = 12


@st.composite
def lent_out(draw: st.DrawFn) -> ClusterState:
    """A tree of projects, three levels deep, on GPUs of one or two models, shared in parts or not; all of it
    is lent before who is guaranteed it comes."""
    nodes, each, mixed = draw(st.integers(1, 2)), draw(st.sampled_from([2, 4])), draw(st.booleans())
    gpus = {
        f"n{node}/{at}": Gpu(
            uuid=f"n{node}/{at}",
            node=f"n{node}",
            model="B" if mixed and node else "A",
            memory_bytes=80 * GIB,
            telemetry=Telemetry.GOOD,
        )
        for node in range(nodes)
        for at in range(each)
    }
    projects = draw(trees(len(gpus)))
    state = ClusterState(
        as_of_ms=NOW_MS,
        nodes={f"n{node}": Node(name=f"n{node}") for node in range(nodes)},
        gpus=gpus,
        projects=projects,
    )
    for at in range(draw(st.integers(1, 8))):
        borrower = draw(jobs(f"b{at}", ("guests", "sibling", "cousin")))
        state = with_running(state, borrower, draw(st.integers(0, 300)))
    line = [draw(jobs(f"w{at}", ("owner", "owner", "sibling"))) for at in range(draw(st.integers(1, 3)))]
    return checked(replace(state, jobs={**state.jobs, **{job.id: job for job in line}}))


@st.composite
def trees(draw: st.DrawFn, gpus: int) -> dict[str, Project]:
    """``owner`` beside ``sibling`` in a department, beside ``cousin`` on a site; ``guests`` have nothing."""
    own = draw(st.integers(1, gpus))
    named = [
        Project(name="guests", quota_gpus=0, weight=draw(st.sampled_from([1, 2]))),
        Project(name="site", quota_gpus=draw(st.sampled_from([None, gpus]))),
        Project(name="dept", parent="site", quota_gpus=draw(st.sampled_from([None, own, gpus]))),
        Project(name="cousin", parent="site", quota_gpus=0),
        Project(name="owner", parent="dept", quota_gpus=own),
        Project(name="sibling", parent="dept", quota_gpus=draw(st.sampled_from([0, 0, gpus - own]))),
    ]
    return {each.name: each for each in named}


@st.composite
def jobs(draw: st.DrawFn, name: str, projects: tuple[str, ...]) -> Job:
    share = draw(st.sampled_from([1.0, 1.0, 1.0, 0.6, 0.5, 0.25]))
    least = draw(st.sampled_from([1, 1, 2, 3])) if share == 1 else 1
    elastic = share == 1 and draw(st.integers(0, 3)) == 0
    return Job(
        id=name,
        project=draw(st.sampled_from(projects)),
        user="ann",
        share=share,
        gpu_models=draw(st.sampled_from([(), (), ("A",)])),
        min_gpus=least,
        max_gpus=least + 2 if elastic else least,
        priority=draw(st.sampled_from([0, 0, 1])),
        memory_bytes=draw(st.sampled_from([None, 10 * GIB, 50 * GIB])),
        topology=draw(st.sampled_from([Topology.ANY, Topology.ANY, *Topology])),
        submitted_ms=NOW_MS - 1000,
        preemptible=True,
        attached=False,
    )


def with_running(state: ClusterState, job: Job, minutes: int) -> ClusterState:
    """The state in which the job runs where there is room; without it where there is none."""
    gpus = Board(state).find(job, job.max_gpus) or Board(state).find(job, job.min_gpus)
    if gpus is None:
        return state
    draft = Draft(replace(state, jobs={**state.jobs, job.id: job}))
    draft.take(Start(job=job.id, gpus=gpus, share=job.share))
    after = draft.state()
    begun = replace(after.jobs[job.id], started_ms=NOW_MS - minutes * 60_000)
    return replace(after, jobs={**after.jobs, job.id: begun})


def kept_out(state: ClusterState) -> list[str]:
    """Jobs that wait within their guarantee, and would fit if who borrowed were gone."""
    found, asked = [], set()
    for job in sorted(state.jobs.values(), key=lambda each: (-each.priority, each.submitted_ms, each.id)):
        if job.phase is not Phase.PENDING or job.project in asked:
            continue
        asked.add(job.project)  # whoever stands behind the first of a project waits for that one
        below = {id for id in state.placements if is_below(state.jobs[id], job)}
        left = without_borrowers(state, job, job.min_gpus * job.share, below)
        if left is not None and Board(left).find(job, job.min_gpus) is not None:
            found.append(job.id)
    return found


def held_small(state: ClusterState) -> list[str]:
    """Elastic jobs that a quota would cover more of, and could have it if who borrowed were gone."""
    waiting = {job.project for job in state.jobs.values() if job.phase is Phase.PENDING}
    found = []
    for id, placement in state.placements.items():
        job = state.jobs[id]
        if len(placement.gpus) >= job.max_gpus or job.project in waiting:
            continue
        left = without_borrowers(state, job, 1.0, set(), state.gpus[placement.gpus[0]].model)
        if left is None or id not in left.placements:
            continue
        if Board(left).find_beside(job, placement.gpus, 1) is not None:
            found.append(id)
    return found


def without_borrowers(
    state: ClusterState, job: Job, size: float, below: set[str], model: str | None = None
) -> ClusterState | None:
    """The cluster without those who borrow what the job's project is guaranteed, and without ``below``.

    Whoever borrows GPUs of a model that is of no use to it is not put back only to make its share larger.
    ``None`` where that much more for the job is not within guarantee and fair share then, on every level.
    """
    shares = fair_shares(state, ANY)
    tree, held, cover = shares.tree, upward(shares.tree, allocated(state)), quota_cover(state, shares.tree)
    gone = below | {
        id
        for id in state.placements
        if state.jobs[id].project != job.project
        and cover.gpus(state.jobs[id], job.project) == 0
        and state.gpus[state.placements[id].gpus[0]].model in ((model,) if model else job.gpu_models or "AB")
    }
    for id in gone:
        for name in tree.paths[state.jobs[id].project]:
            held[name] -= state.placements[id].size_gpus
    path = tree.paths[job.project]
    if any(held[name] + size > min(tree.quotas[name], shares.fair_gpus[name]) + SLACK for name in path):
        return None
    return replace(
        state, placements={id: placed for id, placed in state.placements.items() if id not in gone}
    )


def is_below(other: Job, job: Job) -> bool:
    return other.project == job.project and other.priority < job.priority


@given(lent_out())
@settings(max_examples=80, deadline=None)
def test_whoever_waits_within_its_guarantee_finds_no_borrower_in_its_place(state: ClusterState) -> None:
    plan, state = at_rest(state)
    out = kept_out(state)
    assert not out, (out, [each.reason for each in plan.refused if each.job in out])
    small = held_small(state)
    assert not small, (small, state.placements)


def at_rest(state: ClusterState) -> tuple[Plan, ClusterState]:
    """The last plan and the cluster when nothing more happens: who shrank leaves a round later, if at all.

    Nobody takes from whom took from him.
    """
    took: set[tuple[str, str]] = set()
    for _ in range(ROUNDS):
        plan = decide(state, ANY)
        for step in plan.steps:
            if isinstance(step, Pause | Requeue | Move):
                assert (step.job, step.for_job) not in took, f"{step.job} and {step.for_job} take turns"
                took.add((step.for_job or "", step.job))
        if not any(not isinstance(step, HoldForJob) for step in plan.steps):
            return plan, state
        state = replace(replay(state, plan.steps), as_of_ms=state.as_of_ms + 60_000)
    raise AssertionError(f"still moving after {ROUNDS} rounds: {plan.steps}")

"""Back-fill never delays the head of a queue past its promised start, however the running jobs end."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.actions import HoldForJob
from advisor.decide import decide
from advisor.planner.limits import Limits
from advisor.planner.transition import replay
from advisor.planner.validate import checked
from advisor.state.model import ClusterState, Gpu, Job, Phase, Project, Topology

STEP_MS = 600_000
FREE = Limits(actions_per_hour=None)


@st.composite
def arrivals(draw: st.DrawFn) -> list[tuple[int, Job, int]]:
    """Jobs with the tick at which each comes and the ticks it really runs: never beyond its limit."""
    found = []
    for at in range(draw(st.integers(3, 14))):
        limit = draw(st.sampled_from([None, 1, 2, 4, 8]))
        runs = draw(st.integers(1, 8 if limit is None else limit))
        gpus = draw(st.sampled_from([1, 1, 1, 2, 3, 4]))
        job = Job(
            id=f"j{at:02d}",
            project=draw(st.sampled_from(["alpha", "beta"])),
            min_gpus=gpus,
            max_gpus=gpus,
            limit_s=None if limit is None else limit * STEP_MS / 1000,
            preemptible=draw(st.booleans()),
            topology=draw(st.sampled_from([Topology.ANY, Topology.NODE])) if gpus < 3 else Topology.ANY,
            attached=False,
        )
        found.append((draw(st.integers(0, 6)), job, runs))
    return found


def tick(
    state: ClusterState, at: int, coming: list[tuple[int, Job, int]], runs: dict[str, int]
) -> ClusterState:
    """The world at tick ``at``: those that are done have gone, those that came wait."""
    now = at * STEP_MS
    over = {id for id in state.placements if now - (state.jobs[id].started_ms or 0) >= runs[id] * STEP_MS}
    jobs = {id: job for id, job in state.jobs.items() if id not in over}
    jobs |= {job.id: replace(job, submitted_ms=now) for when, job, _ in coming if when == at}
    places = {id: placed for id, placed in state.placements.items() if id not in over}
    return checked(replace(state, as_of_ms=now, jobs=jobs, placements=places))


def is_firm(state: ClusterState, id: str, quota: float) -> bool:
    """Whether nobody who asks for his quota goes before: nobody has one, or with the job its project is
    within its own."""
    if quota == 0 or id not in state.jobs:
        return True
    own = state.jobs[id].project
    given = sum(
        len(placed.gpus) for other, placed in state.placements.items() if state.jobs[other].project == own
    )
    return id in state.placements or given + state.jobs[id].min_gpus <= quota


@pytest.mark.slow
@given(arrivals(), st.sampled_from([0.0, 2.0]))
@settings(max_examples=150)
def test_a_promised_start_is_kept(coming: list[tuple[int, Job, int]], quota: float) -> None:
    runs = {job.id: ticks for _, job, ticks in coming}
    state = ClusterState(
        as_of_ms=0,
        gpus={f"n{at // 2}/{at}": Gpu(uuid=f"n{at // 2}/{at}", node=f"n{at // 2}") for at in range(4)},
        projects={name: Project(name=name, quota_gpus=quota) for name in ("alpha", "beta")},
    )
    promised: dict[str, int] = {}
    for at in range(60):
        state = tick(state, at, coming, runs)
        promised = {id: start_ms for id, start_ms in promised.items() if is_firm(state, id, quota)}
        plan = decide(state, FREE)
        for step in plan.steps:
            if isinstance(step, HoldForJob) and not step.gpus:
                assert step.job not in promised, "a promise was taken back"
            elif isinstance(step, HoldForJob):
                assert step.job not in promised or step.start_ms <= promised[step.job], (
                    "a promise was put off"
                )
                promised[step.job] = step.start_ms
        state = replay(state, plan.steps)
        late = [
            id
            for id, start_ms in promised.items()
            if id in state.jobs and state.jobs[id].phase is not Phase.RUNNING and state.as_of_ms >= start_ms
        ]
        assert not late, f"{late} should have started by now"
        for id in set(promised) - set(state.jobs):
            del promised[id]
        for id in [id for id in promised if state.jobs[id].phase is Phase.RUNNING]:
            del promised[id]

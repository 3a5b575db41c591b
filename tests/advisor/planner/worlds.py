"""Random clusters in the middle of their lives, for properties: always possible, often awkward."""

from dataclasses import replace

from hypothesis import strategies as st

from advisor.actions import Pause, Start
from advisor.planner.placement import Board
from advisor.planner.transition import Draft, StepError, transition
from advisor.planner.validate import checked
from advisor.state.model import (
    ActionClass,
    ClusterState,
    Gpu,
    Job,
    Node,
    Phase,
    Profile,
    Project,
    Telemetry,
    Topology,
    Usage,
    Use,
)
from collector.model import JobKind

GIB = 1024**3
NOW_MS = 100 * 3_600_000
PROJECTS = ("alpha", "beta", "gamma")


@st.composite
def clusters(draw: st.DrawFn) -> ClusterState:
    """A whole state: some jobs run, some wait, some are paused. In every other one all goes well, and the
    projects to which nothing was guaranteed came first; in the rest things are broken or protected."""
    awkward = draw(st.booleans())
    projects = draw(trees(awkward))
    leaves = sorted(set(projects) - {project.parent for project in projects.values()})
    count = draw(st.integers(2, 14))
    state = ClusterState(
        as_of_ms=NOW_MS,
        gpus=draw(hardware(awkward)),
        nodes={
            f"n{at}": Node(name=f"n{at}", schedulable=not (awkward and draw(rarely(True, False))))
            for at in range(4)
        },
        projects=projects,
        jobs={f"j{at:02d}": draw(jobs(f"j{at:02d}", leaves, awkward)) for at in range(count)},
        usage={name: Usage(allocated_ratio=draw(st.sampled_from([0.0, 0.2, 0.9]))) for name in leaves},
    )
    return checked(with_some_running(draw, state, greedy=not awkward))


@st.composite
def hardware(draw: st.DrawFn, awkward: bool) -> dict[str, Gpu]:
    nodes, each = draw(st.integers(1, 4)), draw(st.integers(1, 4))
    mixed = awkward and draw(rarely(True, False))
    return {
        f"n{node}/{index}": Gpu(
            uuid=f"n{node}/{index}",
            node=f"n{node}",
            model="B" if mixed and node % 2 else "A",
            memory_bytes=40 * GIB,
            healthy=not (awkward and draw(rarely(True, False))),
            occupied=awkward and draw(rarely(True, False)),
            telemetry=draw(rarely(Telemetry.SUSPECT, Telemetry.GOOD)) if awkward else Telemetry.GOOD,
        )
        for node in range(nodes)
        for index in range(each)
    }


@st.composite
def trees(draw: st.DrawFn, awkward: bool) -> dict[str, Project]:
    found = {
        name: Project(
            name=name,
            quota_gpus=0.0 if name == "alpha" else draw(st.sampled_from([None, 1.0, 2.0, 4.0])),
            limit_gpus=draw(rarely(5.0, None)) if awkward else None,
            weight=draw(st.sampled_from([1.0, 2.0])),
            priority=draw(rarely(1, 0)),
        )
        for name in PROJECTS[: draw(st.integers(2, 3))]
    }
    if len(found) == 3 and draw(st.booleans()):
        found["house"] = Project(name="house", quota_gpus=draw(st.sampled_from([None, 3.0, 6.0])))
        found["alpha"] = replace(found["alpha"], parent="house")
        found["beta"] = replace(found["beta"], parent="house")
    return found


@st.composite
def jobs(draw: st.DrawFn, name: str, leaves: list[str], awkward: bool) -> Job:
    least = draw(st.sampled_from([1, 1, 1, 2, 2, 3, 4]))
    elastic = draw(rarely(True, False)) or draw(rarely(True, False))
    share = draw(st.sampled_from([1.0, 1.0, 1.0, 0.5, 0.3, 0.1])) if least == 1 and not elastic else 1.0
    most = least + draw(st.integers(1, 4)) if elastic else least
    calm = Job(
        id=name,
        project=draw(st.sampled_from(leaves)),
        user=draw(st.sampled_from(["ann", "bob"])),
        priority=draw(rarely(1, 0)),
        min_gpus=least,
        max_gpus=most,
        after=draw(rarely(("j00",), ())) if name != "j00" else (),
        share=share,
        memory_bytes=draw(st.sampled_from([None, 8 * GIB, 20 * GIB])),
        submitted_ms=draw(st.integers(0, 5)) * 60_000,
        limit_s=draw(st.sampled_from([None, None, 3600.0, 400 * 3600.0])),
        preemptible=True,
        checkpointable=draw(st.booleans()),
        attached=False,
        use=draw(st.sampled_from([Use.ACTIVE, Use.IDLE])),
        idle_gpu_hours=draw(st.sampled_from([None, 0.0, 3.0])),
        profile=draw(profiles(least, most)) if elastic else None,
        topology=draw(st.sampled_from([Topology.ANY, Topology.ANY, *Topology]))
        if share == 1
        else Topology.ANY,
    )
    return draw(protected(calm)) if awkward else calm


@st.composite
def protected(draw: st.DrawFn, job: Job) -> Job:
    return replace(
        job,
        kind=draw(rarely(JobKind.INFERENCE, JobKind.BATCH)),
        preemptible=draw(rarely(False, True)),
        attached=draw(rarely(True, False)),
        opted_out=frozenset({ActionClass.FAIR_SHARE}) if draw(rarely(True, False)) else frozenset(),
        use=draw(st.sampled_from(list(Use))),
    )


@st.composite
def profiles(draw: st.DrawFn, least: int, most: int) -> Profile | None:
    if draw(rarely(True, False)):
        return None
    exponent = draw(st.sampled_from([0.0, 0.5, 0.9, 1.0]))
    return Profile(
        step_s={n: n**-exponent for n in range(least, most + 1)},
        steps_left=draw(st.sampled_from([None, 10.0, 1e6])),
        resize_s=draw(st.sampled_from([None, 0.1, 30.0])),
    )


def with_some_running(draw: st.DrawFn, state: ClusterState, *, greedy: bool) -> ClusterState:
    """Start some of the jobs where there is room, long ago or just now, and pause one of them at times."""
    for job in sorted(state.jobs.values(), key=lambda each: (each.project, each.id)):
        gpus = None
        if (greedy and job.project == "alpha") or draw(st.booleans()):
            gpus = Board(state).find(job, draw(st.integers(job.min_gpus, job.max_gpus)))
        if gpus is None:
            continue
        draft = Draft(state)
        draft.take(Start(job=job.id, gpus=gpus, share=job.share))
        if draw(rarely(True, False)) and job.checkpointable:
            draft.take(Pause(job=job.id))
        state = draft.state()
        ago_ms = draw(st.sampled_from([0, 300, 300, 300])) * 60_000
        aged = state.jobs[job.id]
        if aged.phase is Phase.RUNNING:
            aged = replace(aged, started_ms=NOW_MS - ago_ms)
        state = replace(state, jobs={**state.jobs, job.id: replace(aged, acted_ms=None)}, actions=())
    return state


def rarely(this: object, else_that: object) -> st.SearchStrategy:
    """One in eight."""
    return st.sampled_from([else_that] * 7 + [this])


def can_take(state: ClusterState, step: object) -> bool:
    try:
        transition(state, step)
    except StepError:
        return False
    return True

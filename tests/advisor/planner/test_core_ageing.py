"""A gang beyond its share is reached in bounded time while small jobs keep coming, none with a time limit."""

from dataclasses import replace

import pytest

from advisor.decide import decide
from advisor.planner.limits import Limits
from advisor.planner.transition import replay
from advisor.planner.validate import checked
from advisor.state.model import ClusterState, Gpu, Job, Node, Phase, Project, Telemetry

HOUR_MS = 3_600_000
GPUS, RUNS_H = 4, 3


def small(at: int, project: str = "busy") -> Job:
    return Job(id=f"s{at:03d}", project=project, submitted_ms=at * HOUR_MS, preemptible=True, attached=False)


def hour(state: ClusterState, at: int, *more: Job) -> ClusterState:
    """The world after an hour: two small jobs came, those that ran for three hours are done."""
    done = {
        id for id in state.placements if at * HOUR_MS - (state.jobs[id].started_ms or 0) >= RUNS_H * HOUR_MS
    }
    jobs = {id: job for id, job in state.jobs.items() if id not in done}
    jobs |= {job.id: job for job in (replace(small(at), id=f"s{at:03d}-{n}") for n in range(2))}
    jobs |= {job.id: job for job in more}
    places = {id: placed for id, placed in state.placements.items() if id not in done}
    return checked(replace(state, as_of_ms=at * HOUR_MS, jobs=jobs, placements=places))


def start_of_the_gang(
    limits: Limits, hours: int, *owner: Job, until: int = 0, priority: int = 0
) -> int | None:
    """The hour in which the gang starts that came first; ``None`` when it does not.

    ``priority`` is that of the project of the small jobs.
    """
    state = ClusterState(
        as_of_ms=0,
        nodes={"n": Node(name="n")},
        gpus={f"n/{at}": Gpu(uuid=f"n/{at}", node="n", telemetry=Telemetry.GOOD) for at in range(GPUS)},
        projects={
            "busy": Project(name="busy", weight=9, priority=priority),
            "wide": Project(name="wide"),
            "owner": Project(name="owner", quota_gpus=1),
        },
    )
    gang = Job(
        id="gang", project="wide", min_gpus=GPUS, max_gpus=GPUS, preemptible=True, submitted_ms=HOUR_MS
    )
    for at in range(hours):
        state = hour(state, at, *((gang,) if at == 1 else ()), *(owner if at == until else ()))
        state = replay(state, decide(state, limits).steps)
        if any(job.id == "gang" and job.phase is Phase.RUNNING for job in state.jobs.values()):
            return at
        if owner and at >= until and state.jobs.get(owner[0].id, owner[0]).phase is not Phase.RUNNING:
            raise AssertionError("who is within its guarantee waits for the gang")
    return None


@pytest.mark.parametrize(("aging_h", "latest"), [(24, 1 + 24 + RUNS_H), (6, 1 + 6 + RUNS_H)])
def test_a_gang_starts_once_those_on_its_gpus_have_ended(aging_h: int, latest: int) -> None:
    start = start_of_the_gang(Limits(aging_s=aging_h * 3600.0), 60)
    assert start is not None and 1 + aging_h <= start <= latest


def test_a_gang_of_a_project_that_deserves_nothing_is_reached_too() -> None:
    start = start_of_the_gang(Limits(aging_s=6 * 3600.0), 60, priority=1)
    assert start is not None and 7 <= start <= 1 + 6 + RUNS_H


def test_without_ageing_it_would_wait_as_long_as_small_jobs_come() -> None:
    assert start_of_the_gang(Limits(aging_s=1e9), 60) is None


def test_who_is_within_its_guarantee_takes_what_is_held_back() -> None:
    """It comes in the hour in which the last GPU but one is free, and starts at once."""
    own = Job(id="own", project="owner", submitted_ms=0, preemptible=True, attached=False)
    start = start_of_the_gang(Limits(aging_s=6 * 3600.0), 60, own, until=8)
    assert start is not None and start > 8

"""A clock that tests set, and small clusters, shared by the tests of the journal."""

from dataclasses import dataclass, replace
from typing import Any

from advisor.state.model import ClusterState, Gpu, Job, Node, Phase, Placement, Project, Telemetry

T0 = 1_767_225_600_000
HOUR_MS = 3_600_000
GIB = 1 << 30


@dataclass
class Hands:
    """A clock whose hands a test moves: ``pass_ms`` is time, ``set_ms`` somebody setting the clock."""

    wall_ms: int = T0
    steady_ms: int = 50 * HOUR_MS

    def now_ms(self) -> int:
        return self.wall_ms

    def monotonic_ms(self) -> int:
        return self.steady_ms

    def sleep(self, seconds: float) -> None:
        self.pass_ms(round(seconds * 1000))

    def pass_ms(self, ms: int) -> None:
        self.wall_ms += ms
        self.steady_ms += ms

    def set_ms(self, ms: int) -> None:
        self.wall_ms = ms


def calm(id: str, **changes: Any) -> Job:
    """A job that may be disturbed by every rule."""
    job = Job(
        id=id,
        project="guests",
        user="ann",
        phase=Phase.RUNNING,
        preemptible=True,
        checkpointable=True,
        attached=False,
        started_ms=T0 - 9 * HOUR_MS,
        memory_held_bytes=8 * GIB,
    )
    return replace(job, **changes)


def cluster(*jobs: Job, on: dict[str, tuple[str, ...]], gpus: int = 4, **changes: Any) -> ClusterState:
    """One node of some GPUs with jobs on them."""
    state = ClusterState(
        as_of_ms=T0,
        nodes={"n": Node(name="n")},
        gpus={
            f"n/{at}": Gpu(uuid=f"n/{at}", node="n", telemetry=Telemetry.GOOD, memory_bytes=40 * GIB)
            for at in range(gpus)
        },
        projects={"guests": Project(name="guests"), "owed": Project(name="owed", quota_gpus=gpus)},
        jobs={job.id: job for job in jobs},
        placements={id: Placement(gpus=held) for id, held in on.items()},
    )
    return replace(state, **changes)


def running(id: str, gpus: int = 1, **changes: Any) -> ClusterState:
    """A cluster with one job on the first GPUs."""
    held = tuple(f"n/{at}" for at in range(gpus))
    return cluster(calm(id, max_gpus=4, **changes), on={id: held})

"""How long deciding takes: placing, reclaiming, proving that a gang cannot fit, and a whole cycle.

Every state is built before the clock starts; timed is ``decide`` (and, for the whole cycle, what a cycle does
around it: checking the snapshot and the guard's ruling). Each figure is the median of several runs in this
process, one thread, no GPU; the processor time of the same runs stands beside it, which other work on the
machine lengthens less. Garbage is collected as in the service (``service.server.processor_share``): by
Python's own setting a cycle's new objects have those that stay looked through again and again, the more there
are of them.

Growth is the processor time of a cycle at ten times the size over that before. Ten times the objects take
more than ten times as long to merely walk over, because less of them is in the processor's caches, so a plain
linear pass over the same state is timed in turn with the cycle, and the target is n log n of what it took:
its own growth times the ratio of the logarithms (1.33 and 1.25).

    python bench/decide.py [--json] [--quick]
"""

import argparse
import gc
import json
import random
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from math import log
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from advisor.actions import Requeue, Start  # noqa: E402
from advisor.decide import decide  # noqa: E402
from advisor.planner.guard import approve  # noqa: E402
from advisor.planner.limits import Limits, Mode  # noqa: E402
from advisor.planner.plan import Plan  # noqa: E402
from advisor.planner.transition import replay  # noqa: E402
from advisor.planner.validate import checked  # noqa: E402
from advisor.state.model import (  # noqa: E402
    ActionClass,
    ClusterState,
    Gpu,
    Job,
    Node,
    Phase,
    Placement,
    Project,
    ProjectName,
    Telemetry,
)
from collector.model import GpuUuid, JobId, NodeName  # noqa: E402
from service.server import processor_share  # noqa: E402

NOW_MS = 10**9
GIB = 1024**3
UNBOUND = Limits(actions_per_hour=None, modes=dict.fromkeys(ActionClass, Mode.AUTO))
"""No brake on how many jobs are disturbed in an hour: with it there would be little to decide."""

SIZES = (1_000, 10_000, 100_000)

Figure = dict[str, Any]


@dataclass(frozen=True)
class Took:
    """Seconds on the wall and seconds of processor time."""

    wall_s: float
    cpu_s: float

    @staticmethod
    def now() -> "Took":
        """Both clocks."""
        return Took(wall_s=time.perf_counter(), cpu_s=time.process_time())

    def __sub__(self, other: "Took") -> "Took":
        return Took(wall_s=self.wall_s - other.wall_s, cpu_s=self.cpu_s - other.cpu_s)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    processor_share.settle()
    runs = 3 if options.quick else 7
    found: dict[str, Figure] = {
        "place_4000_s": figure(timed(placing(), placed_all, runs), 2.0),
        "reclaim_4000_s": figure(timed(reclaiming(4000), reclaimed(4000), runs), 5.0),
        "reclaim_one_s": figure(timed(reclaiming(1), reclaimed(1), runs * 3), 0.020),
        "unplaceable_80_s": figure(timed(gang_of(80), refused_one, runs * 3), 0.050),
    }
    cycles = {gpus: cycle(gpus, 1 if options.quick and gpus > 10_000 else runs) for gpus in SIZES}
    for gpus, (took, _) in cycles.items():
        found[f"cycle_{gpus}_s"] = figure(took, 1.0 if gpus == 10_000 else None)
    for small, large in pairwise(SIZES):
        found[f"growth_{large}"] = grown(small, large, cycles)
    show(found, as_json=options.json)


def grown(small: int, large: int, cycles: dict[int, tuple[Took, Took]]) -> Figure:
    """How much longer the larger cycle takes, beside how much longer a linear pass over it takes."""
    growth, linear = (cycles[large][at].cpu_s / cycles[small][at].cpu_s for at in (0, 1))
    bound = linear * log(large) / log(small)
    return {
        "value": round(growth, 2),
        "target": round(bound, 2),
        "ok": growth <= bound,
        "beside": {"a linear pass": round(linear, 2)},
    }


def timed(state: ClusterState, correct: Callable[[ClusterState, Plan], bool], runs: int) -> Took:
    """The time of ``decide``, whose plan must be right each time."""
    took = []
    for _ in range(runs):
        gc.collect()
        begun = Took.now()
        plan = decide(state, UNBOUND)
        took.append(Took.now() - begun)
        assert correct(state, plan), "the plan is not what the case asks for"
    return median(took)


def cycle(gpus: int, runs: int) -> tuple[Took, Took]:
    """The time of a whole cycle's thinking (check, decide, ask the guard), and of a linear pass, in turn."""
    state = busy(gpus)
    took, walked = [], []
    for _ in range(runs):
        gc.collect()
        begun = Took.now()
        plan = decide(checked(state), UNBOUND)
        ruling = approve(plan, state, UNBOUND)
        took.append(Took.now() - begun)
        assert not ruling.refused and replay(state, plan.steps)
        gc.collect()
        begun = Took.now()
        seen = walk(state)
        walked.append(Took.now() - begun)
        assert seen == len(state.jobs) + len(state.gpus)
    return median(took), median(walked)


def walk(state: ClusterState) -> int:
    """Look at every job, GPU and placement once and sort them by owner: linear by its form."""
    by_owner: dict[str, list[tuple[object, ...]]] = {}
    for job in state.jobs.values():
        by_owner.setdefault(job.project, []).append((job.id, job.min_gpus, job.preemptible, job.submitted_ms))
    for gpu in state.gpus.values():
        by_owner.setdefault(gpu.node, []).append((gpu.uuid, gpu.model, gpu.memory_bytes))
    holders = {uuid: id for id, placement in state.placements.items() for uuid in placement.gpus}
    assert len(holders) <= len(state.gpus)
    return sum(map(len, by_owner.values()))


def placing() -> ClusterState:
    """4,000 one-GPU jobs wait for 500 empty nodes of 8."""
    return cluster(500, jobs=waiting(4000), projects=())


def reclaiming(count: int) -> ClusterState:
    """``count`` one-GPU jobs of a project that is owed all GPUs, against 4,000 of one that is owed none."""
    owed = (project("owed", 4000.0), project("guest", 0.0))
    return full(waiting(count, project_name="owed"), owed)


def gang_of(size: int) -> ClusterState:
    """A gang on a full cluster, where those in its way are as entitled as it is."""
    gang = Job(id=JobId("gang"), project=ProjectName("late"), min_gpus=size, max_gpus=size, preemptible=True)
    return full({gang.id: gang}, (project("guest", 4000.0), project("late", 0.0)))


def busy(gpus: int, seed: int = 7) -> ClusterState:
    """A full cluster and as many jobs waiting: twice as many jobs as GPUs, a project for every 50 GPUs."""
    draw = random.Random(seed)
    names = [f"p{at:04d}" for at in range(gpus // 50)]
    quotas = tuple(project(name, 50.0) for name in names)
    state = cluster(gpus // 8, jobs={}, projects=quotas)
    free = list(state.gpus)
    jobs: dict[JobId, Job] = {}
    placements: dict[JobId, Placement] = {}
    for at in range(2 * gpus):
        name = names[min(int(draw.expovariate(3 / len(names))), len(names) - 1)]
        size = draw.choice((1, 1, 1, 1, 1, 2, 4, 8))
        limit_s = draw.choice((None, 3600.0 * 24 * 30))
        job = Job(
            id=JobId(f"j{at:06d}"), project=ProjectName(name), min_gpus=size, max_gpus=size, limit_s=limit_s
        )
        runs = len(free) >= size and at < gpus
        if runs:
            job = replace(job, phase=Phase.RUNNING, started_ms=NOW_MS - draw.randrange(10**8))
        jobs[job.id] = replace(job, preemptible=draw.random() < 0.8, submitted_ms=at, user=f"u{at % 300}")
        if runs:
            placements[job.id] = Placement(gpus=tuple(free[:size]))
            del free[:size]
    return replace(state, jobs=jobs, placements=placements)


def cluster(nodes: int, *, jobs: dict[JobId, Job], projects: tuple[Project, ...]) -> ClusterState:
    """Nodes of 8 healthy, well-measured GPUs."""
    gpus: dict[GpuUuid, Gpu] = {}
    for node in range(nodes):
        for index in range(8):
            uuid = GpuUuid(f"GPU-{node:06d}-{index}")
            gpus[uuid] = Gpu(
                uuid=uuid,
                node=NodeName(f"n{node:06d}"),
                model="H100",
                memory_bytes=80 * GIB,
                telemetry=Telemetry.GOOD,
            )
    return ClusterState(
        as_of_ms=NOW_MS,
        gpus=gpus,
        nodes={name: Node(name=name) for name in (NodeName(f"n{at:06d}") for at in range(nodes))},
        projects={each.name: each for each in projects},
        jobs=jobs,
    )


def full(more: dict[JobId, Job], projects: tuple[Project, ...]) -> ClusterState:
    """4,000 one-GPU jobs of the project ``guest`` fill 500 nodes of 8, and ``more`` wait."""
    state = cluster(500, jobs={}, projects=projects)
    running = {
        id: Job(id=id, project=ProjectName("guest"), preemptible=True, phase=Phase.RUNNING, started_ms=at)
        for at, id in enumerate(JobId(f"r{at:05d}") for at in range(4000))
    }
    places = {id: Placement(gpus=(uuid,)) for id, uuid in zip(running, state.gpus, strict=True)}
    return checked(replace(state, jobs=running | more, placements=places))


def waiting(count: int, project_name: str = "lab") -> dict[JobId, Job]:
    return {
        id: Job(id=id, project=ProjectName(project_name), preemptible=True, submitted_ms=at)
        for at, id in enumerate(JobId(f"w{at:05d}") for at in range(count))
    }


def project(name: str, quota: float) -> Project:
    return Project(name=ProjectName(name), quota_gpus=quota)


def placed_all(state: ClusterState, plan: Plan) -> bool:
    return len(plan.steps) == len(state.jobs) and len(replay(state, plan.steps).placements) == 4000


def reclaimed(count: int) -> Callable[[ClusterState, Plan], bool]:
    def correct(state: ClusterState, plan: Plan) -> bool:
        kinds = [type(step) for step in plan.steps]
        return kinds.count(Requeue) == kinds.count(Start) == count and bool(replay(state, plan.steps))

    return correct


def refused_one(_: ClusterState, plan: Plan) -> bool:
    return not plan.steps and [refusal.job for refusal in plan.refused] == ["gang"]


def median(took: list[Took]) -> Took:
    return Took(
        wall_s=statistics.median(each.wall_s for each in took),
        cpu_s=statistics.median(each.cpu_s for each in took),
    )


def figure(took: Took, target: float | None) -> Figure:
    return {
        "value": round(took.wall_s, 4),
        "target": target,
        "ok": target is None or took.wall_s <= target,
        "beside": {"cpu_s": round(took.cpu_s, 4)},
    }


def show(found: dict[str, Figure], *, as_json: bool) -> None:
    if as_json:
        print(json.dumps(found))
        return
    print(f"{'figure':<20}{'measured':>12}{'target':>12}")
    for name, each in found.items():
        target = "" if each["target"] is None else each["target"]
        beside = "".join(f"  {label} {value}" for label, value in each["beside"].items())
        print(f"{name:<20}{each['value']:>12}{target:>12}  {'ok' if each['ok'] else 'MISSED':<8}{beside}")


if __name__ == "__main__":
    main()

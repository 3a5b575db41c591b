"""Small clusters for policy tests: one node of H100s, jobs on them, and what was measured of each."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from advisor.planner.observed import IdleStretch, JobUse, Observed, Price
from advisor.planner.plan import Abstain, Advice
from advisor.state.model import (
    ActionClass,
    ClusterState,
    Gpu,
    Job,
    Node,
    Phase,
    Placement,
    Profile,
    Project,
    ProjectName,
    Telemetry,
    Use,
)
from analytics.model import Analysis, Coverage, Evidence, Finding, FindingKind
from collector.model import Basis, GpuUuid, Holder, JobId, JobKind, NodeName

MINUTE_MS, HOUR_MS = 60_000, 3_600_000
NOW_MS = 1_800_000_000_000
GIB = 1 << 30
H100 = "NVIDIA H100 80GB HBM3"
VISION = ProjectName("vision")


def gpu(name: str, node: str = "n1", **changes: Any) -> Gpu:
    made = Gpu(
        uuid=GpuUuid(name),
        node=NodeName(node),
        model=H100,
        memory_bytes=80 * GIB,
        telemetry=Telemetry.GOOD,
    )
    return replace(made, **changes)


def job(name: str, **changes: Any) -> Job:
    """A batch job of ann's that began ten hours ago, works, and that may be disturbed."""
    made = Job(
        id=JobId(name),
        project=VISION,
        user="ann",
        name=name,
        framework="PyTorch",
        phase=Phase.RUNNING,
        preemptible=True,
        checkpointable=True,
        attached=False,
        use=Use.ACTIVE,
        memory_bytes=10 * GIB,
        memory_held_bytes=10 * GIB,
        submitted_ms=NOW_MS - 11 * HOUR_MS,
        started_ms=NOW_MS - 10 * HOUR_MS,
    )
    return replace(made, **changes)


def reports(steps: float) -> Profile:
    """Of a job that says it has so many steps left, of a second each on one GPU."""
    return Profile(step_s={1: 1.0}, steps_left=steps)


def idle_job(name: str = "idle", minutes: float = 150, **changes: Any) -> Job:
    """The same, idle for so long and told of it an hour ago."""
    defaults: dict[str, Any] = {
        "use": Use.IDLE,
        "idle_since_ms": NOW_MS - round(minutes * MINUTE_MS),
        "idle_gpu_hours": minutes / 60,
        "notified_ms": NOW_MS - HOUR_MS,
        "notifications": 1,
    }
    return job(name, **(defaults | changes))


def cluster(
    jobs: Iterable[tuple[Job, tuple[str, ...]]] = (),
    *,
    gpus: Iterable[Gpu] | None = None,
    quota: float = 0.0,
    waiting: Iterable[Job] = (),
) -> ClusterState:
    """Jobs on the named GPUs of one cluster; vision's quota is ``quota``."""
    placed = tuple(jobs)
    there = tuple(gpus) if gpus is not None else tuple(gpu(f"g{at}") for at in range(8))
    return ClusterState(
        as_of_ms=NOW_MS,
        nodes={each.node: Node(name=each.node) for each in there},
        gpus={each.uuid: each for each in there},
        projects={VISION: Project(name=VISION, quota_gpus=quota)},
        jobs={each.id: each for each in (*(one for one, _ in placed), *waiting)},
        placements={
            one.id: Placement(gpus=tuple(GpuUuid(name) for name in on), share=one.share) for one, on in placed
        },
    )


def use(name: str, hours: float = 24, **changes: Any) -> JobUse:
    """A job that was wholly measured for a day, on SM active: 10% busy, 9 GiB at most.

    Unless told otherwise it has no peaks: each minute of its work fills its 95th percentile.
    """
    level = changes.get("utilization_p95_ratio", 0.14)
    flat = None if level is None else tuple(max(0.0, level - edge / 20) for edge in range(1, 20))
    made = JobUse(
        job=JobId(name),
        from_ms=NOW_MS - round(hours * HOUR_MS),
        to_ms=NOW_MS,
        coverage_ratio=1.0,
        rung=Basis.SM_ACTIVE,
        held_gpu_hours=hours,
        utilization_mean_ratio=0.1,
        utilization_p95_ratio=0.14,
        excess_ratios=flat,
        controller_p95_ratio=0.03,
        memory_peak_bytes=9 * GIB,
        gpus_used=1,
    )
    return replace(made, **changes)


def observed(*uses: JobUse, **changes: Any) -> Observed:
    made = Observed(
        uses={each.job: each for each in uses}, prices={H100: Price(per_gpu_hour=3.0, currency="EUR")}
    )
    return replace(made, **changes)


def hog(name: str, uuid: str = "g0") -> Analysis:
    """An analysis that suspects this job of keeping memory that it doesn't need."""
    return Analysis(
        as_of_ms=NOW_MS,
        window_from_ms=NOW_MS - HOUR_MS,
        coverage=Coverage(ratio=1.0, gpus=1, silent_gpus=0),
        findings=(
            Finding(
                kind=FindingKind.MEMORY_HOG,
                uuid=GpuUuid(uuid),
                node=NodeName("n1"),
                gpu_index=0,
                holder=Holder(job=JobId(name)),
                since_ms=NOW_MS - HOUR_MS,
                window_from_ms=NOW_MS - HOUR_MS,
                window_to_ms=NOW_MS,
                coverage=1.0,
                rung=Basis.SM_ACTIVE,
                wasted_gpu_hours=1.0,
                sentence="It keeps 96% of the memory and hardly touches it.",
                evidence=(Evidence(name="memory_used_p5_ratio", value=0.96),),
            ),
        ),
    )


def stretch(
    minutes: float, *, user: str = "ann", kind: JobKind = JobKind.BATCH, **changes: Any
) -> IdleStretch:
    made = IdleStretch(
        job=JobId("past"),
        user=user,
        kind=kind,
        gpus=1,
        from_ms=0,
        to_ms=round(minutes * MINUTE_MS),
    )
    return replace(made, **changes)


def advised(answers: Iterable[Advice | Abstain]) -> list[Advice]:
    return [each for each in answers if isinstance(each, Advice)]


def touched(answers: Iterable[Advice | Abstain]) -> set[str]:
    """Jobs that some step would do something to; telling is nothing."""
    quiet = {"Notify", "SetEnvAtRestart"}
    return {
        step.job
        for advice in advised(answers)
        for step in advice.steps
        if type(step).__name__ not in quiet and type(step).__name__ != "Start"
    }


def without(action: ActionClass) -> dict[str, Any]:
    return {"opted_out": frozenset({action})}

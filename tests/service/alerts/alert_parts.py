"""Conditions, looks and states that the tests of the alerts share; nothing of it knows a store."""

from dataclasses import replace
from typing import Any

from advisor.planner.limits import Limits, Mode, PlannerConfig
from advisor.planner.observed import Observed
from advisor.state.model import ActionClass, ClusterState, Gpu, Job, Node, Phase, Placement, Telemetry, Use
from analytics.model import Analysis, Coverage, Evidence, Finding, FindingKind, Unknown
from collector.model import Basis, GpuUuid, Holder, JobId, JobKind, NodeName
from service.alerts.facts import Facts
from service.alerts.model import AlertKind, Condition, Evaluation, Patience

MINUTE_MS, HOUR_MS = 60_000, 3_600_000
NOW_MS = 1_793_577_600_000  # 2026-11-02 00:00 UTC, a Monday
NODE = NodeName("node1")
GPUS = tuple(GpuUuid(f"GPU-{n}") for n in range(4))
ANN = JobId("pid:node1/7@1")
PATIENCE = Patience(opens_after_ms=2 * MINUTE_MS, closes_after_ms=10 * MINUTE_MS, quiet_ms=4 * HOUR_MS)


def condition(key: str = "gpu-fault:GPU-0", level: int = 2, **changes: Any) -> Condition:
    plain = Condition(
        key=key,
        kind=AlertKind(key.partition(":")[0]),
        level=level,
        rung=f"level {level}",
        since_ms=NOW_MS - HOUR_MS,
        title=f"{key} is odd",
        says="It is odd since 2026-11-01 23:00 UTC.",
        next="Nothing is done.",
    )
    return replace(plain, **changes)


def look(at_ms: int, *holds: Condition, unknown: tuple[str, ...] = (), **more: Any) -> Evaluation:
    return Evaluation(
        at_ms=at_ms, holds={each.key: each for each in holds}, unknown=frozenset(unknown), **more
    )


def job(id: JobId = ANN, **changes: Any) -> Job:
    plain = Job(
        id=id,
        project="vision",  # type: ignore[arg-type]
        user="ann",
        name="notebook",
        kind=JobKind.INTERACTIVE,
        phase=Phase.RUNNING,
        use=Use.IDLE,
        started_ms=NOW_MS - 9 * HOUR_MS,
        idle_since_ms=NOW_MS - 40 * MINUTE_MS,
        idle_gpu_hours=0.7,
        preemptible=True,
        checkpointable=True,
        attached=False,
    )
    return replace(plain, **changes)


def state(*jobs: Job, on: dict[JobId, tuple[GpuUuid, ...]] | None = None, **changes: Any) -> ClusterState:
    placed = {each.id: GPUS[:1] for each in jobs if each.phase is Phase.RUNNING} if on is None else on
    gpus = {uuid: Gpu(uuid=uuid, node=NODE, model="H100", telemetry=Telemetry.GOOD) for uuid in GPUS}
    plain = ClusterState(
        as_of_ms=NOW_MS,
        nodes={NODE: Node(name=NODE)},
        gpus=gpus,
        jobs={each.id: each for each in jobs},
        placements={id: Placement(gpus=held) for id, held in placed.items()},
    )
    return replace(plain, **changes)


def finding(kind: FindingKind = FindingKind.HELD_IDLE, uuid: GpuUuid = GPUS[0], **changes: Any) -> Finding:
    plain = Finding(
        kind=kind,
        uuid=uuid,
        node=NODE,
        gpu_index=0,
        holder=Holder(job=ANN, user="ann", project="vision", name="notebook"),
        since_ms=NOW_MS - HOUR_MS,
        window_from_ms=NOW_MS - HOUR_MS,
        window_to_ms=NOW_MS,
        coverage=0.98,
        rung=Basis.SM_ACTIVE,
        wasted_gpu_hours=1.0,
        sentence=f"{kind.value} on {uuid} since 2026-11-01 23:00 UTC.",
        evidence=(Evidence(name="utilization_mean_ratio", value=0.003),),
    )
    return replace(plain, **changes)


def facts(
    of: ClusterState,
    *findings: Finding,
    unknown: tuple[Unknown, ...] = (),
    modes: dict[ActionClass, Mode] | None = None,
    **changes: Any,
) -> Facts:
    analysis = Analysis(
        as_of_ms=NOW_MS,
        window_from_ms=NOW_MS,
        coverage=Coverage(ratio=1.0, gpus=4, silent_gpus=0),
        findings=findings,
        unknown=unknown,
    )
    plain = Facts(
        now_ms=NOW_MS,
        tick_ms=10_000,
        state=of,
        observed=Observed(analysis=analysis),
        limits=Limits(modes=modes or {}),
        advice=PlannerConfig(),
        last_tick_ms=NOW_MS,
        places={uuid: f"{NODE}:{n}" for n, uuid in enumerate(GPUS)},
        newest_ms={NODE: (NOW_MS,) * 4},
    )
    return replace(plain, **changes)

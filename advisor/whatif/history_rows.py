"""A recorded window from the rows of named queries, as any client gets them. Pure.

Who may be disturbed, shared with or checkpointed is never guessed: of a job that was submitted its owner said
so, of another it stands in the site's configuration.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from advisor.jobs.model import Elasticity
from advisor.live.job_use import LAG_MS, excesses_of
from advisor.live.snapshot import EVERYBODY, HOUR_MS, NO_PROJECT, Site, kind_of
from advisor.planner.observed import ENGINES_RATIO, JobUse, PastJob
from advisor.state.model import ActionClass, Gpu, Job, Profile, ProjectName, Telemetry
from advisor.whatif.history import Holding, Installed, Submitted
from collector.gpu_place import node_place
from collector.model import Basis, GpuUuid, JobId, JobKind, NodeName

Row = Mapping[str, Any]


def past_job_of(row: Row, site: Site, submitted: Submitted | None = None) -> PastJob:
    """One row of the query ``past_jobs``, with what its owner allows."""
    expected_ms = max(1, row["expected_ms"])
    alone = not row["others"]
    part = 1.0 if row["part_of_device"] is None else row["part_of_device"]
    use = JobUse(
        job=JobId(row["job"]),
        from_ms=row["from_ms"],
        to_ms=row["to_ms"],
        coverage_ratio=min(1.0, row["measured_ms"] / max(1, expected_ms - LAG_MS * row["gpus"])),
        rung=Basis(row["rung"] or 0),
        held_gpu_hours=row["expected_ms"] * row["share"] * part / HOUR_MS,
        idle_gpu_hours=row["idle_ms"] * part / HOUR_MS,
        utilization_mean_ratio=row["utilization_mean_ratio"],
        utilization_p95_ratio=row["utilization_p95_ratio"],
        excess_ratios=excesses_of(row),
        controller_p95_ratio=row.get("controller_p95_ratio"),
        memory_peak_bytes=row["memory_peak_bytes"],
        memory_needed_bytes=None if submitted is None else submitted.memory_needed_bytes,
        gpus_used=row["gpus_used"],
        memory_unused_bytes=row.get("memory_unused_bytes"),
        others=not alone,
        by_engines=row["engine_ms"] > ENGINES_RATIO * max(1, row["measured_ms"]),
        # Engines that did less than the SMs are in no roll-up, and a slice may have none: none is advised.
        uses_engines=True,
    )
    names = {EVERYBODY, row["user_name"], row["project"]} - {None}
    memory_bytes = None if submitted is None else submitted.job.memory_held_bytes
    job = Job(
        id=use.job,
        project=ProjectName(row["project"] or NO_PROJECT),
        user=row["user_name"],
        name=row["job_name"],
        kind=kind_of(row),
        framework=row["framework"],
        min_gpus=row["gpus"],
        max_gpus=row["gpus"],
        share=min(1.0, row["share"]),
        memory_bytes=(row["memory_peak_bytes"] or None) if alone else None,
        memory_held_bytes=memory_bytes or ((row["memory_peak_bytes"] or None) if alone else None),
        started_ms=row["from_ms"],
        submitted_ms=row["from_ms"],
        preemptible=bool(names & site.preemptible),
        checkpointable=bool(names & site.checkpointable),
        may_share=bool(names & site.may_share),
        opted_out=frozenset().union(*(site.opted_out.get(name, frozenset()) for name in names)),
        attached=False,
    )
    return PastJob(
        job=job if submitted is None else _with_its_word(job, submitted.job),
        gpus=row["gpus"],
        model=row["model"],
        memory_total_bytes=row["memory_total_bytes"],
        from_ms=row["from_ms"],
        to_ms=row["to_ms"],
        use=use,
        part_of_device=row["part_of_device"],
    )


def submitted_of(rows: Iterable[Row]) -> dict[JobId, Submitted]:
    """The rows of the query ``submitted_jobs``, by job."""
    return {JobId(row["job"]): _submitted(row) for row in rows}


def holding_of(row: Row) -> Holding:
    """One row of the query ``past_holdings``."""
    return Holding(
        job=JobId(row["job"]),
        uuid=GpuUuid(row["uuid"]),
        share=row["share"],
        from_ms=row["from_ms"],
        to_ms=row["to_ms"],
    )


def installed_of(row: Row) -> Installed:
    """One row of the query ``past_gpus``; taken to have been well all the time."""
    gpu = Gpu(
        uuid=GpuUuid(row["uuid"]),
        node=NodeName(row["node"]),
        model=row["model"],
        memory_bytes=row["memory_total_bytes"] or None,
        part_of_device=row["part_of_device"],
        telemetry=Telemetry.GOOD,
    )
    place = node_place(row["node"], row["gpu_place"], row["uuid"])
    return Installed(gpu=gpu, place=place, from_ms=row["from_ms"], to_ms=row["to_ms"])


def _with_its_word(job: Job, asked: Job) -> Job:
    return replace(
        job,
        preemptible=asked.preemptible,
        checkpointable=asked.checkpointable,
        may_share=asked.may_share,
        opted_out=asked.opted_out,
    )


def _submitted(row: Row) -> Submitted:
    moves = row["mobility"] != Elasticity.RIGID
    job = Job(
        id=JobId(row["job"]),
        project=ProjectName(row["project"]),
        user=row["user_name"],
        name=row["job_name"],
        kind=JobKind(row["kind"]),
        priority=row["priority"],
        min_gpus=row["min_gpus"],
        max_gpus=row["max_gpus"],
        share=row["share"],
        memory_bytes=row["memory_needed_bytes"] or row["memory_bytes"],
        memory_held_bytes=row["memory_held_bytes"],
        gpu_models=tuple(json.loads(row["gpu_models"] or "[]")),
        submitted_ms=row["submitted_ms"],
        limit_s=row["limit_s"],
        preemptible=row["preemptible"] and moves,
        checkpointable=moves,
        may_share=row["may_share"],
        opted_out=frozenset(ActionClass(each) for each in json.loads(row["opted_out"] or "[]")),
        profile=_profile(row),
    )
    return Submitted(
        job=job,
        rigid=not moves,
        memory_needed_bytes=row["memory_needed_bytes"],
    )


def _profile(row: Row) -> Profile | None:
    step_s: dict[str, float] = json.loads(row["step_s"] or "{}")
    measured = {int(size): seconds for size, seconds in step_s.items() if seconds > 0}
    return Profile(step_s=measured, resize_s=row["resize_s"]) if measured else None

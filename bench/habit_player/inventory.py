"""Who was given what, as those who give GPUs say it: Slurm's text through its parsers, pods, leases."""

from dataclasses import replace

from bench.habit_player.model import USES
from bench.habit_player.naming import job_name, namespace, pod_name, slurm_number
from bench.habit_player.timeline import Holding
from bench.habit_player.world import World
from collector.inventory.kubernetes import pod_holder
from collector.inventory.leases import Lease, as_allocation
from collector.managers.model import Look
from collector.managers.slurm import queue_text
from collector.managers.slurm.details import grants_of
from collector.managers.source import claims_of
from collector.model import (
    Allocation,
    ClaimSource,
    GpuUuid,
    JobId,
)
from collector.reading import Reading

MARK = "\x1fmark\x1f"
"""In place of what the reader draws for each call."""


def holding_at(world: World, at_ms: int) -> tuple[Holding, ...]:
    """The jobs that hold a GPU in the tick that ends at an instant."""
    since_ms = at_ms - world.begin_ms
    return tuple(one for one in world.held if one.from_ms < since_ms <= one.to_ms)


def given(world: World, held: tuple[Holding, ...], names: dict[int, str], at_ms: int) -> Reading:
    """What the inventories say of these jobs; ``names`` are the GPUs' UUIDs as the source knows them.

    A pod's labels come with an exporter's rows too; said twice, they are one claim.
    """
    slurm = [one for one in held if one.plan.by == "slurm"]
    leases = [
        _lease(world, one, names[gpu]) for one in held if one.plan.by == "lease" for gpu in one.plan.gpus
    ]
    pods = [
        Allocation(
            uuid=GpuUuid(names[gpu]),
            holder=pod_holder(namespace(world, one), pod_name(world, one)),
            share=one.plan.share,
            source=ClaimSource.KUBERNETES,
        )
        for one in held
        if one.plan.by == "kubernetes"
        for gpu in one.plan.gpus
    ]
    return Reading(
        source="inventory",
        at_ms=at_ms,
        allocations=(*map(as_allocation, leases), *pods),
        claims=claims_of(_look(world, slurm, at_ms)),
    )


def _lease(world: World, holding: Holding, uuid: str) -> Lease:
    plan = holding.plan
    return Lease(
        gpu_uuid=GpuUuid(uuid),
        job=JobId(job_name(world, holding)),
        user=plan.user,
        project=plan.project,
        name=plan.title,
        kind=USES[plan.use],
        share=plan.share,
    )


def _look(world: World, held: list[Holding], at_ms: int) -> Look:
    """The jobs as squeue and scontrol of Slurm 22.05 print them, as far as they are read."""
    text = "".join(_row(world, one) for one in held)
    listed = queue_text.jobs_of(text, MARK, world.node)
    details = "".join(_details(world, one) for one in held)
    given = grants_of(details, {each.job.key.id: each.name for each in listed})
    jobs = tuple(replace(each.job, given=given[each.job.key.id]) for each in listed)
    return Look(cluster=world.node, at_ms=at_ms, jobs=jobs, nodes=())


def _row(world: World, holding: Holding) -> str:
    plan = holding.plan
    said = {
        "JobID": str(slurm_number(world, holding)),
        "State": "RUNNING",
        "UserName": plan.user,
        "Account": plan.project or "",
        "NodeList": world.node,
        "SubmitTime": str((world.begin_ms + holding.from_ms) // 1000),
        "BatchFlag": str(int(plan.use != "interactive")),
        "Name": plan.title or plan.name,
    }
    return "".join(f"{said.get(name, 'N/A')}{MARK}" for name in queue_text.FIELDS)


def _details(world: World, holding: Holding) -> str:
    plan = holding.plan
    indices = ",".join(map(str, plan.gpus))
    gres = f"gpu:{len(plan.gpus)}"
    return (
        f"JobId={slurm_number(world, holding)} JobName={plan.title or plan.name} UserId={plan.user}(1000) "
        f"JOB_GRES={gres}   Nodes={world.node} CPU_IDs=0 Mem=0 GRES={gres}(IDX:{indices})\n"
    )

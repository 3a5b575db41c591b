"""Who was given what, as those who give GPUs say it: squeue's JSON through its parser, pods, leases."""

from bench.habit_player.model import USES
from bench.habit_player.naming import job_name, namespace, pod_name, slurm_number
from bench.habit_player.timeline import Holding
from bench.habit_player.world import World
from collector.inventory.kubernetes import pod_holder
from collector.inventory.leases import Lease, as_allocation
from collector.inventory.squeue import claims
from collector.model import Allocation, ClaimSource, GpuUuid, JobId, Reading


def holding_at(world: World, at_ms: int) -> tuple[Holding, ...]:
    """The jobs that hold a GPU in the tick that ends at an instant."""
    since_ms = at_ms - world.begin_ms
    return tuple(one for one in world.held if one.from_ms < since_ms <= one.to_ms)


def given(world: World, held: tuple[Holding, ...], names: dict[int, str], at_ms: int) -> Reading:
    """What the inventories say of these jobs; ``names`` are the GPUs' UUIDs as the source knows them.

    A pod's labels come with an exporter's rows too; said twice, they are one claim.
    """
    jobs = [_job(world, one) for one in held if one.plan.by == "slurm"]
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
        claims=claims({"jobs": jobs}),
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


def _job(world: World, holding: Holding) -> dict[str, object]:
    """A job as ``squeue --json`` of Slurm 23 prints it, as far as it is read."""
    plan = holding.plan
    indices = ",".join(map(str, plan.gpus))
    return {
        "job_id": slurm_number(world, holding),
        "user_name": plan.user,
        "account": plan.project or "",
        "name": plan.title or plan.name,
        "batch_flag": plan.use != "interactive",
        "job_state": ["RUNNING"],
        "nodes": world.node,
        "gres_detail": [f"gpu:{len(plan.gpus)}(IDX:{indices})"],
    }

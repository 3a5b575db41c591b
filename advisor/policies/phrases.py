"""How an advice names jobs, times, memory and money in a sentence. Pure."""

from advisor.planner.observed import Observed
from advisor.state.model import ClusterState, Job
from analytics import text
from collector.model import GpuUuid, JobKind

POD = "pod:"
"""How the ids of Kubernetes pods begin (``collector.inventory.pods``)."""


def job_name(job: Job) -> str:
    """``ann's notebook (pod:vision/notebook-ann-1)``."""
    whose = "somebody's" if job.user is None else f"{job.user}'s"
    return f"{whose} {job.name or kind_noun(job)} ({job.id})"


def kind_noun(job: Job) -> str:
    """What to call a job without a name: by its kind, else what its id says that it is."""
    if job.kind is not None:
        return job.kind.value
    return "pod" if job.id.startswith(POD) else "job"


def jobs_of(kind: JobKind | None) -> str:
    """Jobs of a kind: ``batch jobs``."""
    return "jobs of unknown kind" if kind is None else f"{kind.value} jobs"


def places(state: ClusterState, gpus: tuple[GpuUuid, ...]) -> str:
    """How many GPUs of which model on which nodes: ``2 A100 on node-a``, ``1 MIG instance 4g.40gb on n``."""
    nodes = sorted({state.gpus[uuid].node for uuid in gpus})
    instances = [state.gpus[uuid] for uuid in gpus if state.gpus[uuid].part_of_device is not None]
    if instances and len(instances) == len(gpus):
        profiles = sorted({gpu.mig_profile for gpu in instances if gpu.mig_profile is not None})
        many = text.many(len(gpus), "MIG instance")
        return f"{' '.join((many, ' or '.join(profiles))).rstrip()} on {', '.join(nodes)}"
    models = sorted({state.gpus[uuid].model or ("GPU" if len(gpus) == 1 else "GPUs") for uuid in gpus})
    return f"{len(gpus)} {' or '.join(models)} on {', '.join(nodes)}"


def money_of(
    state: ClusterState, observed: Observed, gpus: tuple[GpuUuid, ...], gpu_hours: float
) -> float | None:
    """What ``gpu_hours`` of these GPUs cost; ``None`` when one has no price or currencies differ."""
    prices = [observed.price_of(state.gpus[uuid].model) for uuid in gpus]
    amounts = [price for price in prices if price is not None]
    if not amounts or len(amounts) < len(prices) or len({price.currency for price in amounts}) > 1:
        return None
    return gpu_hours * sum(price.per_gpu_hour for price in amounts) / len(amounts)


def lost_by_pause(manager: str | None, hook: str | None = None) -> str:
    """What a pause loses: nothing, but where a manager ends the run, or a site's command does."""
    if hook is not None:
        return f"the site's hook {hook} takes it off its GPUs; what it doesn't save may be lost"
    if manager is None:
        return "nothing is lost"
    return f"it is told to end, saves itself, and is held in {manager}'s queue; what it doesn't save is lost"


def risk_of_waking(kind: JobKind | None) -> str:
    """What it costs a person to be paused."""
    if kind is None:
        return "it may be about to go on, or its owner may come back, and then it waits for the GPU"
    if kind is JobKind.INTERACTIVE:
        return "its owner may come back and wait for the GPU"
    return "it may be about to go on, and then waits for the GPU"

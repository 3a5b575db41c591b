"""How long a gang would wait if nobody made room for it: what help can bring it at most. Pure.

Each GPU is free when the last job on it has ended. A job that reports what is left of it ends then; that
another lasts as long again as it has lasted is a guess (Gott, "Implications of the Copernican principle for
our future prospects", 1993), within its time limit. Those who stand in line before the gang take the first
GPUs that come free. Who comes later and passes it is not foreseen.
"""

from math import inf

from advisor.goodput import time_left_s
from advisor.model import ClusterState, Gpu, Job
from advisor.projects import is_usable
from collector.model import GpuUuid

MS_PER_S = 1000


def wait_s(state: ClusterState, gang: Job, ahead_gpus: int = 0) -> float:
    """Seconds until GPUs of one model are free for it, after ``ahead_gpus`` others; ``inf``: not known."""
    frees = _frees_s(state)
    by_model: dict[str | None, list[float]] = {}
    for gpu in state.gpus.values():
        if is_usable(gpu, state) and takes(gang, gpu):
            by_model.setdefault(gpu.model, []).append(frees.get(gpu.uuid, 0.0))
    wanted = ahead_gpus + gang.min_gpus
    return min((sorted(each)[wanted - 1] for each in by_model.values() if len(each) >= wanted), default=inf)


def left_s(state: ClusterState, job: Job) -> float:
    """Seconds until a running job ends, by its report or as a guess; ``inf``: its start is not known."""
    reported = time_left_s(job, len(state.placements[job.id].gpus))
    if reported is not None:
        return reported
    if job.started_ms is None:
        return inf
    ran = (state.as_of_ms - job.started_ms) / MS_PER_S
    return ran if job.limit_s is None else max(0.0, min(ran, job.limit_s - ran))


def takes(gang: Job, gpu: Gpu) -> bool:
    """Whether the gang may lie on a GPU of this model and memory."""
    fits = gang.memory_bytes is None or (gpu.memory_bytes or 0) >= gang.memory_bytes
    return fits and (not gang.gpu_models or gpu.model in gang.gpu_models)


def _frees_s(state: ClusterState) -> dict[GpuUuid, float]:
    """Seconds until each GPU that is held has nobody on it."""
    found: dict[GpuUuid, float] = {}
    for job_id, placement in state.placements.items():
        left = left_s(state, state.jobs[job_id])
        for uuid in placement.gpus:
            found[uuid] = max(found.get(uuid, 0.0), left)
    return found

"""Two clusters, each with gpu-1 and gpu-2 of four GPUs: what a site that sees both must read, by hand.

Three hours from ``NOON`` on, each minute measured, each GPU told by labels with its cluster.

=======  ==========  ==========================  ===================================================
cluster  node        whose                       what its four GPUs do
=======  ==========  ==========================  ===================================================
a        gpu-1       train-0 of a, user ann      at 90% all the time
a        gpu-2       nobody's                    free
b        gpu-1       train-0 of b, user bob      a process holds memory and does nothing
b        gpu-2       web-0 of b, user cy         at 60% all the time
=======  ==========  ==========================  ===================================================

By hand, in GPU-hours: each node has 4 x 3 = 12.0 installed. Wasted are b's gpu-1 alone, 12.0; used are
a's gpu-1 0.9 x 12 = 10.8 and b's gpu-2 0.6 x 12 = 7.2; a's gpu-2 is free for 12.0.

Nodes are named ``gpu-1@a``, ``gpu-1@b``, ``gpu-2@a``, ``gpu-2@b``; a GPU ``gpu-1@b:0``. With cluster a alone
in view they are ``gpu-1`` and ``gpu-2``.
"""

from datetime import UTC, datetime
from pathlib import Path

from collector.arrow import HeldInterval, History, to_table
from collector.model import (
    Allocation,
    Basis,
    ClaimSource,
    Gpu,
    GpuSample,
    GpuUuid,
    Holder,
    JobId,
    JobKind,
    NodeName,
)
from tests.stores import copy_of, open_store

GIB, MINUTE_MS = 1 << 30, 60_000
NOON = datetime(2026, 11, 1, 12, tzinfo=UTC)
NOON_MS = int(NOON.timestamp() * 1000)
END_MS = NOON_MS + 180 * MINUTE_MS
LAST_MS = END_MS + 3 * MINUTE_MS
NODES = ("gpu-1@a", "gpu-1@b", "gpu-2@a", "gpu-2@b")
INSTALLED = dict.fromkeys(NODES, 12.0)
WASTED = {"gpu-1@a": 0.0, "gpu-1@b": 12.0, "gpu-2@a": 0.0, "gpu-2@b": 0.0}
USED = {"gpu-1@a": 10.8, "gpu-1@b": 0.0, "gpu-2@a": 0.0, "gpu-2@b": 7.2}
HELD = {
    ("a", "gpu-1"): ("train-0", "ann", 0.9),
    ("b", "gpu-1"): ("train-0", "bob", 0.0),
    ("b", "gpu-2"): ("web-0", "cy", 0.6),
}


def uuid(cluster: str, node: str, index: int) -> GpuUuid:
    return GpuUuid(f"GPU-{cluster}{node[-1]}{index}")


def gpus(cluster: str, *, named: bool = True) -> tuple[Gpu, ...]:
    """A cluster's eight GPUs as its labels tell of them; not ``named``: they have no label of a cluster."""
    return tuple(
        Gpu(
            uuid=uuid(cluster, node, index),
            node=NodeName(node),
            index=index,
            model="H100",
            memory_total_bytes=80 * GIB,
            cluster=cluster if named else None,
        )
        for node in ("gpu-1", "gpu-2")
        for index in range(4)
    )


def holder(cluster: str, node: str, *, suffix: str) -> Holder | None:
    told = HELD.get((cluster, node))
    if told is None:
        return None
    name, user, _ = told
    job = JobId(f"pod:ml/{name}{suffix}")
    return Holder(job=job, user=user, project="ml", name=f"{name}{suffix}", kind=JobKind.BATCH)


def sample(gpu: Gpu, cluster: str, at_ms: int) -> GpuSample:
    held = HELD.get((cluster, gpu.node))
    busy = 0.0 if held is None else held[2]
    return GpuSample(
        uuid=gpu.uuid,
        at_ms=at_ms,
        width_ms=MINUTE_MS,
        rung=Basis.SM_ACTIVE,
        utilization_ratio=busy,
        sm_active_ratio=busy,
        gpu_utilization_ratio=busy,
        memory_used_bytes=0 if held is None else 40 * GIB,
        memory_total_bytes=80 * GIB,
        power_mw=500_000 if busy else 100_000,
        process_count=0 if held is None else 1,
    )


def past(*clusters: str, suffixes: bool = True, named: bool = True, minutes: int = 180) -> History:
    """What an import brings of the last ``minutes``; ``suffixes``: jobs bear their cluster."""
    devices = [(gpu, cluster) for cluster in clusters for gpu in gpus(cluster, named=named)]
    from_ms = END_MS - minutes * MINUTE_MS
    times = range(from_ms + MINUTE_MS, LAST_MS + 1, MINUTE_MS)
    held = [
        HeldInterval(
            allocation=Allocation(uuid=gpu.uuid, holder=whose, source=ClaimSource.KUBERNETES),
            from_ms=from_ms,
            to_ms=None,
        )
        for gpu, cluster in devices
        if (whose := holder(cluster, gpu.node, suffix=f"@{cluster}" if suffixes else "")) is not None
    ]
    return History(
        source="prometheus",
        gpus=tuple(gpu for gpu, _ in devices),
        samples=to_table(sample(gpu, cluster, at_ms) for at_ms in times for gpu, cluster in devices),
        held=tuple(held),
    )


def fill(folder: Path) -> Path:
    """The data folder with the store of both clusters in it."""
    copy_of(folder, _fill)
    return folder


def _fill(folder: Path) -> None:
    with open_store(folder / "fallow.duckdb") as store:
        store.write_history(past("a", "b"))


def fill_one(folder: Path, cluster: str) -> Path:
    """The data folder with a store that saw one cluster alone: its names are plain."""
    copy_of(folder, _fill_one, cluster)
    return folder


def _fill_one(folder: Path, cluster: str) -> None:
    with open_store(folder / "fallow.duckdb") as store:
        store.write_history(past(cluster, suffixes=False))

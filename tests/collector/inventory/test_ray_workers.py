"""Which GPUs Ray's jobs have on a node, and whose the processes on them are."""

from dataclasses import replace

from collector.attribution import Attribution, effective
from collector.managers.ray.api import Account
from collector.managers.ray.reader import RayManager
from collector.managers.source import ManagerSource
from collector.model import (
    Allocation,
    ClaimSource,
    Gpu,
    GpuUuid,
    Holder,
    JobId,
    NodeName,
    OutOfService,
    Process,
    ProcessKey,
    ProcessSample,
)
from collector.reading import Reading
from tests.collector.managers.ray.dashboard import CLUSTER, DRIVER, GROUPED, HALF, TASK, TOLD_MS, Dashboard

NOW_MS = TOLD_MS + 3_000
HOST = NodeName("gpu-a.lab.example")
TRAIN = JobId(f"ray:{CLUSTER[:8]}/train%402")
OTHER = JobId(f"ray:{CLUSTER[:8]}:06000000")


def gpus(count: int = 4) -> tuple[Gpu, ...]:
    return tuple(Gpu(uuid=GpuUuid(f"GPU-{at}"), node=HOST, index=at, model="A100") for at in range(count))


def process(pid: int, **fields: object) -> Process:
    made = Process(
        key=ProcessKey(node=HOST, pid=pid, started_ms=NOW_MS - 60_000),
        user="ray",
        uid=990,
        launcher="ray",
        tree=ProcessKey(node=HOST, pid=70, started_ms=NOW_MS - 90_000),
    )
    return replace(made, **fields)  # type: ignore[arg-type]


def judged(
    world: Dashboard,
    on: dict[Process, tuple[int, ...]] | None = None,
    *,
    count: int = 4,
    user_key: str = "",
    more: tuple[Allocation, ...] = (),
) -> Attribution:
    account = Account(url="http://head:8265")
    ray = ManagerSource(RayManager(account, user_key=user_key, get=world.get)).read(NOW_MS)
    assert isinstance(ray, Reading)
    samples = tuple(
        ProcessSample(
            uuid=GpuUuid(f"GPU-{at}"), key=each.key, at_ms=NOW_MS, width_ms=1_000, memory_used_bytes=1 << 32
        )
        for each, places in (on or {}).items()
        for at in places
    )
    nvml = Reading(
        source="nvml",
        at_ms=NOW_MS,
        gpus=gpus(count),
        processes=tuple(on or {}),
        process_samples=samples,
        allocations=more,
    )
    found = effective([nvml, ray], NOW_MS)
    assert found is not None
    return found


def held(found: Attribution) -> dict[str, set[tuple[str, float]]]:
    jobs: dict[str, set[tuple[str, float]]] = {}
    for each in found.allocations:
        jobs.setdefault(each.uuid, set()).add((each.holder.job, each.share))
    return jobs


WHOLE = {"GPU-0": {(TRAIN, 0.5)}, **{f"GPU-{at}": {(TRAIN, 1.0)} for at in (1, 2, 3)}}


def test_slots_are_the_drivers_indices_where_both_count_the_same_gpus() -> None:
    found = judged(Dashboard())
    assert held(found) == WHOLE
    assert {each.source for each in found.allocations} == {ClaimSource.RAY}
    assert found.withheld == ()


def test_the_workers_processes_are_the_jobs() -> None:
    workers = {process(HALF): (0,), process(GROUPED): (1,), process(TASK): (3,)}
    found = judged(Dashboard(), workers)
    assert held(found) == WHOLE
    assert found.owners == {each.key: TRAIN for each in workers}
    assert (found.orphans, found.unknown, found.intrusions) == (frozenset(), frozenset(), ())


def test_a_child_of_a_worker_is_the_jobs_too() -> None:
    loader = process(40_000, parent_pid=TASK)
    assert judged(Dashboard(), {loader: (3,)}).owners == {loader.key: TRAIN}


def test_where_a_worker_is_goes_before_its_slots() -> None:
    """Ray was started with CUDA_VISIBLE_DEVICES=4,5,6,7 on a node of 8."""
    workers = {process(HALF): (4,), process(GROUPED): (5,), process(TASK): (7,)}
    found = judged(Dashboard(), workers, count=8)
    assert held(found) == {
        "GPU-4": {(TRAIN, 0.5)},
        "GPU-5": {(TRAIN, 1.0)},
        "GPU-7": {(TRAIN, 1.0)},
    }
    assert {each.uuid for each in found.withheld} == {"GPU-0", "GPU-1", "GPU-2", "GPU-3", "GPU-6"}
    assert {each.state for each in found.withheld} == {OutOfService.UNASKED}
    assert "1 GPU of this node is given to Ray's jobs, and nobody says which" in found.withheld[0].reason


def test_where_ray_counts_other_gpus_and_nobody_computes_none_is_free() -> None:
    found = judged(Dashboard(), count=8)
    assert held(found) == {}
    assert len(found.withheld) == 8


def test_a_mixed_node_has_no_order_that_ray_and_the_driver_share() -> None:
    mixed = (*gpus(3), replace(gpus(4)[3], model="T4"))
    world = Dashboard()
    ray = ManagerSource(RayManager(Account(url="http://head"), get=world.get)).read(NOW_MS)
    assert isinstance(ray, Reading)
    found = effective([Reading(source="nvml", at_ms=NOW_MS, gpus=mixed), ray], NOW_MS)
    assert found is not None and found.allocations == () and len(found.withheld) == 4


def test_a_pid_in_a_container_below_no_raylet_or_of_a_later_process_is_another() -> None:
    """Inside of a container Ray counts pids anew, and an ended worker's pid comes again."""
    strangers = {
        process(HALF, container="f" * 64): (2,),
        process(GROUPED, pod="1b2c3d4e-0000-4000-8000-000000000000"): (2,),
        process(TASK, key=ProcessKey(node=HOST, pid=TASK, started_ms=NOW_MS + 5_000)): (2,),
        process(40_000, parent_pid=HALF, launcher="torchrun"): (2,),
    }
    found = judged(Dashboard(), strangers)
    assert held(found) == WHOLE, "what Ray leased to a worker stays where its slots are"
    assert found.owners == {}
    assert found.unknown == {each.key for each in strangers}


def test_nobody_is_accused_on_gpus_of_ray() -> None:
    """Ray's workers run as the account that started it, whoever's the job is."""
    own = process(50_000, launcher=None, user="ann", uid=1_001)
    other = process(50_001, launcher=None, user="bob", uid=1_002)
    found = judged(Dashboard(), {own: (1,), other: (3,)}, user_key="user")
    assert found.intrusions == () and found.orphans == frozenset()
    assert found.unknown == {own.key, other.key}


def test_two_jobs_share_a_gpu_and_what_is_left_of_the_node_is_free() -> None:
    world = Dashboard()
    world.bodies["jobs"] = []
    world.only("placement_groups", lambda each: False)
    world.without_worker(GROUPED)
    second = world.worker(TASK)
    second["jobId"] = "06000000"
    second["usedResources"] = {"GPU": {"resourceSlots": [{"slot": "0", "allocation": 0.5}]}}
    world.use(1.0)
    found = judged(world)
    assert held(found) == {"GPU-0": {(f"ray:{CLUSTER[:8]}:{DRIVER}", 0.5), (OTHER, 0.5)}}
    assert found.withheld == ()


def test_two_sharers_do_not_hide_a_gpu_that_nobody_names() -> None:
    """Two parts of one GPU, and a bundle of another of which nobody says which it is: 2 GPUs, 1 named."""
    world = Dashboard()
    world.without_worker(GROUPED)
    groups = world.listed("placement_groups")
    groups[0]["bundles"] = groups[0]["bundles"][:1]
    second = world.worker(TASK)
    second["jobId"] = "06000000"
    second["usedResources"] = {"GPU": {"resourceSlots": [{"slot": "0", "allocation": 0.5}]}}
    world.use(2.0)
    found = judged(world)
    assert set(held(found)) == {"GPU-0"}
    assert {(each.uuid, each.state) for each in found.withheld} == {
        (f"GPU-{at}", OutOfService.UNASKED) for at in (1, 2, 3)
    }


def test_what_slurm_or_kubernetes_gave_stays_theirs() -> None:
    """Ray inside of an allocation: the outer manager gave the GPU, used or not."""
    slurm = tuple(
        Allocation(uuid=GpuUuid(f"GPU-{at}"), holder=Holder(job=JobId("slurm:812")), source=ClaimSource.SLURM)
        for at in range(4)
    )
    found = judged(Dashboard(), more=slurm)
    assert {each.holder.job for each in found.allocations} == {"slurm:812"}
    assert found.withheld == ()

"""When a checkpoint is not even tried: each precondition of the policy, one by one."""

from dataclasses import replace

import pytest

from advisor.engines.cuda_checkpoint import MANAGED_BYTES, Host, Target, unfit
from collector.model import GpuUuid
from tests.advisor.engines.external_parts import FIT, GIB, calm

ONE = Target(pid=7, memory_bytes=10 * GIB, now=calm(7))


def but(**changes: object) -> Host:
    return replace(FIT, **changes)  # type: ignore[arg-type]


def one(**changes: object) -> Target:
    return replace(ONE, now=calm(7, **changes))


def test_a_lone_process_on_a_fit_machine_may_be_tried() -> None:
    assert unfit(FIT, [ONE]) is None


@pytest.mark.parametrize(
    ("host", "says"),
    [
        (but(architecture="aarch64"), "on x86-64 only, and this machine is aarch64"),
        (but(driver_major=None), "is not known"),
        (but(driver_major=549), "driver 549 cannot checkpoint"),
        (but(driver_major=550), "has no timeout for the lock"),
        (but(driver_major=569), "has no timeout for the lock"),
        (but(driver_major=571), "none of those on which checkpoints are known to come back (570, 575, 580)"),
        (but(driver_major=590), "none of those on which checkpoints are known"),
        (but(driver_major=610), "none of those on which checkpoints are known"),
        (but(driver_major=590), "issue 27); once it was tried here, add 590 to foreign.drivers"),
        (but(driver_major=600), "(570, 575, 580); once it was tried here, add 600 to foreign.drivers"),
        (but(driver_major=580, drivers=(590,)), "known to come back (590); once"),
        (but(driver_major=580, drivers=()), "(none is listed)"),
        (but(driver_major=569, drivers=(569,)), "has no timeout for the lock"),
        (but(uid=1001), "another user's: only root"),
        (but(mps_pids={0: (88,)}), "multi-process service runs (process 88)"),
        (but(mps_pids={1000: (89,)}), "multi-process service runs (process 89)"),
        (but(available_bytes=12 * GIB - 1), "do not fit into host memory (12 GiB available)"),
        (but(available_bytes=None), "unknown available"),
    ],
)
def test_machines_on_which_nothing_is_tried(host: Host, says: str) -> None:
    found = unfit(host, [ONE])
    assert found is not None and says in found


@pytest.mark.parametrize(
    "host",
    [
        but(driver_major=570),
        but(driver_major=590, drivers=(580, 590)),
        but(uid=1000),
        but(available_bytes=12 * GIB),
        but(mps_pids={1001: (90,)}),
    ],
    ids=[
        "the first driver with a timeout",
        "one that the site allows",
        "the owner itself",
        "just room enough",
        "somebody else's MPS",
    ],
)
def test_machines_that_are_just_good_enough(host: Host) -> None:
    assert unfit(host, [ONE]) is None


@pytest.mark.parametrize(
    ("target", "says"),
    [
        (replace(ONE, now=None), "process 7 is gone"),
        (one(traced=True), "is being traced"),
        (one(traced=None), "whether process 7 is being traced is not known"),
        (one(nccl=True), "speak NCCL"),
        (replace(ONE, world_size="2"), "speak NCCL"),
        (one(nccl=None), "could not be read"),
        (one(shared_tensors=True), "shares GPU memory"),
        (one(managed_bytes=MANAGED_BYTES + 1), "unified memory"),
        (one(others=(8,)), "a child with the GPU open (process 8)"),
        (one(descendants_read=False), "more descendants than are looked at"),
        (replace(ONE, uuids=("GPU-a", "MIG-1")), "on MIG-1: the driver checkpoints nothing on MIG"),
        (replace(ONE, memory_bytes=None), "how much GPU memory it holds is not known"),
        (one(cgroup_left_bytes=10 * GIB - 1), "its control group may still take"),
    ],
)
def test_processes_that_are_left_alone(target: Target, says: str) -> None:
    found = unfit(FIT, [target])
    assert found is not None and says in found


@pytest.mark.parametrize(
    "target",
    [
        replace(ONE, world_size="1"),
        one(managed_bytes=MANAGED_BYTES),
        one(inherited=(8, 9)),
        replace(one(nccl_library=True), uuids=("GPU-a", "GPU-b")),
        one(cgroup_left_bytes=10 * GIB),
        one(cgroup_left_bytes=None, cgroup_read=True),
    ],
    ids=[
        "a world of one",
        "a little unified memory",
        "loader workers",
        "torch alone maps NCCL",
        "just room enough",
        "no limit",
    ],
)
def test_processes_that_are_just_calm_enough(target: Target) -> None:
    assert unfit(FIT, [target]) is None


def test_all_processes_of_the_job_are_handled_or_none() -> None:
    parent = one(others=(8,))
    child = Target(pid=8, memory_bytes=GIB, now=calm(8))
    assert unfit(FIT, [parent, child]) is None
    assert unfit(FIT, [parent]) is not None
    assert unfit(FIT, []) == "no process of it is on a GPU"


def test_a_child_that_the_driver_lists_counts_whatever_it_maps() -> None:
    parent = one(inherited=(8, 9))
    assert unfit(FIT, [parent], listed={7, 10}) is None
    found = unfit(FIT, [parent], listed={7, 9})
    assert found is not None and "process 9" in found
    child = Target(pid=9, memory_bytes=GIB, now=calm(9))
    assert unfit(FIT, [parent, child], listed={7, 9}) is None


def test_nccl_without_a_segment_is_known_by_its_library_and_a_sibling_elsewhere() -> None:
    def rank(pid: int, *uuids: str, library: bool = True) -> Target:
        on = tuple(GpuUuid(uuid) for uuid in uuids)
        return Target(pid=pid, memory_bytes=GIB, uuids=on, now=calm(pid, nccl_library=library))

    found = unfit(FIT, [rank(7, "GPU-a"), rank(8, "GPU-b")])
    assert found is not None and "speak NCCL" in found
    assert unfit(FIT, [rank(7, "GPU-a"), rank(8, "GPU-a")]) is None, "NCCL refuses two ranks on one GPU"
    assert unfit(FIT, [rank(7, "GPU-a", library=False), rank(8, "GPU-b", library=False)]) is None


def test_room_is_reckoned_for_all_of_them_together() -> None:
    both = [ONE, Target(pid=8, memory_bytes=10 * GIB, now=calm(8))]
    assert unfit(but(available_bytes=22 * GIB), both) is None
    assert unfit(but(available_bytes=22 * GIB - 1), both) is not None

"""What NVIDIA says a checkpoint cannot do, on a libcuda that fails as the driver does: none of it is tried.

The list is the README of NVIDIA's cuda-checkpoint ("Functionality", driver 570), with what its issues add.
Each test shows both halves: what becomes of a job when the driver is asked all the same, and that it isn't.
"""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from advisor.engines.cuda_checkpoint import MANAGED_BYTES, Target, unfit
from advisor.engines.cuda_checkpoint_child import LibraryDriver, free_memory
from advisor.engines.cuda_checkpointer import held_memory
from collector.model import GpuUuid
from tests.advisor.engines.external_parts import FIT, calm
from tests.advisor.engines.standin_parts import Cuda, cuda, driver, held, library, local, over
from tests.driver.driver import GIB, UNKNOWN, Driver

__all__ = ("cuda", "driver", "library")


def target(**changes: object) -> Target:
    return Target(pid=41, memory_bytes=GIB, uuids=(GpuUuid("GPU-a"),), now=calm(41, **changes))


@pytest.mark.parametrize(
    ("mark", "seen"),
    [
        ("uvm.41", target(managed_bytes=MANAGED_BYTES + 1)),
        ("ipc.41", target(shared_tensors=True)),
    ],
    ids=["unified memory", "memory shared between processes"],
)
def test_what_stays_behind_breaks_the_process_so_the_driver_is_not_asked(
    cuda: Cuda, driver: Driver, mark: str, seen: Target
) -> None:
    cuda.put(41, 0)
    cuda.mark(mark)
    deed = over(local().pause([41], held(driver, 41)))
    assert not deed.ok and not deed.undone and deed.states == {"41": "failed"}
    assert "left so: process 41 failed" in deed.found
    assert unfit(FIT, [target()]) is None
    assert unfit(FIT, [seen]) is not None


@pytest.mark.parametrize(
    ("host", "seen"),
    [
        (replace(FIT, architecture="aarch64"), target()),
        (replace(FIT, mps_pids={0: (9,)}), target()),
        (replace(FIT, driver_major=595), target()),
        (FIT, replace(target(), uuids=(GpuUuid("MIG-1"),))),
        (FIT, target(nccl=True)),
        (FIT, replace(target(), world_size="2")),
        (FIT, target(others=(42,))),
        (FIT, target(traced=True)),
    ],
    ids=["x64 only", "MPS", "driver not tried", "MIG", "NCCL", "a rank", "a child on the GPU", "traced"],
)
def test_each_other_precondition_is_looked_at_beforehand(host: object, seen: Target) -> None:
    assert unfit(host, [seen]) is not None  # type: ignore[arg-type]


def test_work_that_does_not_finish_leaves_the_process_as_it_was(cuda: Cuda, driver: Driver) -> None:
    """It waits for work that was submitted: the lock has a timeout, and nothing was moved then."""
    cuda.put(41, 0)
    cuda.refuse("lock", 41, 909)
    deed = over(local().pause([41], held(driver, 41)))
    assert not deed.ok and deed.undone and cuda.state(41) == 0


def test_restore_into_too_little_memory_loses_the_process_so_room_is_made_sure_of(
    cuda: Cuda, driver: Driver
) -> None:
    cuda.put(41, 2)
    cuda.put(42, 2)
    driver.gpu(0).memory_used = 70 * GIB
    cuda.mark("full")
    deed = over(local().resume([41], held(driver, 41, gib=20)))
    assert not deed.ok and "9.5 GiB free" in deed.found and "nothing was done" in deed.found
    assert cuda.calls() == [], "the driver was not asked"
    deed = over(local().resume([42], held(driver, 42, gib=1)))
    assert "CUDA_ERROR_OUT_OF_MEMORY" in deed.found and "may never be restored" in deed.found
    (cuda.folder / "full").unlink()
    driver.gpu(0).memory_used = 0
    assert over(local().resume([41], held(driver, 41, gib=20))).ok, "whose driver was not asked comes back"
    assert "CUDA_ERROR_OPERATING_SYSTEM" in over(local().resume([42], held(driver, 42))).found


def test_all_that_comes_back_to_one_gpu_has_to_fit_together(cuda: Cuda, driver: Driver) -> None:
    for pid in (41, 42):
        cuda.put(pid, 2)
    driver.gpu(0).memory_used = 58 * GIB
    assert not over(local().resume([41, 42], held(driver, 41, 42, gib=11))).ok
    assert over(local().resume([41, 42], held(driver, 41, 42, gib=10))).ok, "21 of the 21.5 GiB that are free"


def test_memory_that_is_not_known_is_no_room(cuda: Cuda, driver: Driver) -> None:
    cuda.put(41, 2)
    assert "is not known" in over(local().resume([41], {})).found
    driver.fail("nvmlDeviceGetMemoryInfo_v2", UNKNOWN)
    assert "is not known" in over(local().resume([41], held(driver, 41))).found
    assert cuda.calls() == []


def test_free_memory_is_what_the_driver_says_now(cuda: Cuda, driver: Driver) -> None:
    uuid, nobody = GpuUuid(driver.gpu(0).uuid), GpuUuid("GPU-nobody")
    driver.gpu(0).memory_used = 30 * GIB
    assert free_memory([uuid, nobody]) == {uuid: 80 * GIB - 30 * GIB - GIB // 2, nobody: None}


def test_what_processes_hold_is_what_the_driver_says_now(cuda: Cuda, driver: Driver) -> None:
    uuid = GpuUuid(driver.gpu(0).uuid)
    driver.gpu(0).process(41, 3 * GIB)
    driver.gpu(0).process(42, 0)
    assert held_memory([41, 42, 43]) == {41: {uuid: 3 * GIB}, 42: {}, 43: {}}, "0 bytes is not known"
    driver.fail("nvmlDeviceGetComputeRunningProcesses_v3", UNKNOWN)
    assert held_memory([41]) == {41: {}}


def test_the_drivers_own_functions_are_used_whatever_python_packages_are_there(
    cuda: Cuda, driver: Driver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``cuda.core.checkpoint`` calls no cuInit, and wants bindings that may not be there."""
    package = tmp_path / "packages" / "cuda" / "core"
    package.mkdir(parents=True)
    for folder in (package.parent, package):
        (folder / "__init__.py").write_text("")
    (package / "checkpoint.py").write_text("def Process(pid):\n    raise RuntimeError('not initialized')\n")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path / "packages"), str(Path.cwd())]))
    cuda.put(41, 0)
    assert over(local().pause([41], held(driver, 41))).ok


def test_a_pid_is_passed_as_the_number_that_the_driver_takes(
    library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STANDIN_CUDA", str(tmp_path))
    monkeypatch.setattr("advisor.engines.cuda_checkpoint_child.LIBRARY", str(library / "libcuda.so.1"))
    asked = LibraryDriver()
    (tmp_path / "41").write_text("0\n")
    asked.lock(41, 100)
    assert asked.state(41).name == "LOCKED"
    with pytest.raises(Exception, match="argument"):
        asked.lock("41", 100)  # type: ignore[arg-type]

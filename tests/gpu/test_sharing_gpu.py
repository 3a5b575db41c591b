"""Memory and sharing on a real GPU: a JAX job that preallocates, a PyTorch job that caches, two jobs packed.

Figures are printed for docs/hardware.md: run with ``pytest tests/gpu/test_sharing_gpu.py -m gpu -s``. What a
process holds is asked of the driver (NVML), never of the process.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed; pip install -c constraints.txt torch")

from advisor.engines.mps import find_mps  # noqa: E402
from advisor.model import ProjectName  # noqa: E402
from advisor.register.model import Sharing, Submission  # noqa: E402
from advisor.register.shares import Device, Mps, Terms, environment, terms  # noqa: E402
from collector.model import GpuUuid  # noqa: E402
from fallow.control_socket import ask  # noqa: E402

pytestmark = pytest.mark.gpu

ROOT = Path(__file__).parents[2]
GIB = 1024**3
LIMIT_S = 180
RUN_S = 15.0
JAX = """
import sys, jax, jax.numpy as jnp
x = jnp.ones((1024, 1024)); (x @ x).block_until_ready()
print("READY", flush=True); sys.stdin.readline()
"""
CACHING = """
import sys, torch, fallow
assert fallow.listen()
block = torch.empty({gib} * 2**30, dtype=torch.uint8, device="cuda"); torch.cuda.synchronize(); del block
keep = torch.ones(2**20, device="cuda")
print("READY", flush=True); sys.stdin.readline()
assert float(keep.sum()) == 2**20, "what is in use stays"
"""
CAPPED = """
import sys, torch, fallow
fallow.listen()
assert not torch.cuda.is_initialized()
total = torch.cuda.get_device_properties(0).total_memory
torch.empty(int(total * {below}), dtype=torch.uint8, device="cuda")
try:
    torch.empty(int(total * {above}), dtype=torch.uint8, device="cuda")
except torch.OutOfMemoryError:
    print("HELD", flush=True)
"""
WORKING = """
import sys, time, torch
x = torch.randn({size}, {size}, device="cuda", dtype=torch.bfloat16)
for _ in range(20): x @ x
torch.cuda.synchronize(); print("READY", flush=True); sys.stdin.readline()
done, until = 0, time.monotonic() + {seconds}
while time.monotonic() < until:
    for _ in range(20): x @ x
    torch.cuda.synchronize(); done += 20
    time.sleep({idle})
print("RATE", done / {seconds}, flush=True)
"""


@pytest.fixture(autouse=True)
def gpu() -> Device:
    """The first GPU, as a lease names it."""
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device here: torch.cuda.is_available() says no")
    found = torch.cuda.get_device_properties(0)
    return Device(uuid=GpuUuid(f"GPU-{found.uuid}"), memory_bytes=found.total_memory)


@pytest.fixture
def launch(gpu: Device) -> Iterator[Callable[..., "subprocess.Popen[str]"]]:
    """Start a script on the GPU in the environment of a lease, and wait until it says READY."""
    begun: list[subprocess.Popen[str]] = []

    def start(script: str, settings: Mapping[str, str]) -> "subprocess.Popen[str]":
        own = {k: v for k, v in os.environ.items() if not k.startswith(("XLA_", "PYTORCH_", "CUDA_MPS_"))}
        process = subprocess.Popen(
            [sys.executable, "-c", script],
            env={**own, "PYTHONPATH": str(ROOT), "CUDA_VISIBLE_DEVICES": gpu.uuid, **settings},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        begun.append(process)
        assert process.stdout is not None
        assert process.stdout.readline().strip() == "READY"
        return process

    yield start
    for process in begun:
        process.terminate()
        process.wait(LIMIT_S)


def held(pid: int, gpu: Device) -> int:
    """Bytes that the driver says a process holds."""
    import pynvml

    pynvml.nvmlInit()
    handle = pynvml.nvmlDeviceGetHandleByUUID(gpu.uuid)
    running = pynvml.nvmlDeviceGetComputeRunningProcesses(handle)
    found = next((each.usedGpuMemory for each in running if each.pid == pid), None)
    if found is None:
        pytest.skip(f"the driver does not say what process {pid} holds (another pid namespace?)")
    return int(found)


def used(gpu: Device) -> int:
    """Bytes of the GPU that are taken, by the driver."""
    import pynvml

    pynvml.nvmlInit()
    return int(pynvml.nvmlDeviceGetMemoryInfo(pynvml.nvmlDeviceGetHandleByUUID(gpu.uuid)).used)


def lease(gpu: Device, share: float, mps: Mps, **asked: Any) -> Terms:
    wanted = Submission(command=("train",), user="ann", project=ProjectName("vision"), **asked)
    return terms(wanted, share, [gpu], (), mps)


def end(process: "subprocess.Popen[str]") -> None:
    process.communicate("\n", timeout=LIMIT_S)
    assert process.returncode == 0


def test_a_jax_job_that_preallocates_is_relaunched_without(gpu: Device, launch: Any) -> None:
    if find_spec("jax") is None:
        pytest.skip("jax is not installed; pip install 'jax[cuda12]'")
    before = used(gpu)
    hog = launch(JAX, {})
    taken = used(gpu) - before
    end(hog)
    settings = environment(lease(gpu, 1.0, Mps()).settings, {})
    again = launch(JAX, settings)
    taken_again = used(gpu) - before
    end(again)
    print(f"JAX: {taken / GIB:.1f} GiB as it comes, {taken_again / GIB:.1f} GiB with {sorted(settings)}")
    assert gpu.memory_bytes is not None
    assert taken > 0.5 * gpu.memory_bytes, "it preallocates unless told otherwise"
    assert taken_again < 0.1 * gpu.memory_bytes


def test_a_pytorch_job_that_caches_gives_it_back_when_asked(gpu: Device, launch: Any, tmp_path: Path) -> None:
    path = tmp_path / "job-0"
    before = used(gpu)
    settings = {**environment(lease(gpu, 1.0, Mps()).settings, {}), "FALLOW_JOB_SOCKET": str(path)}
    job = launch(CACHING.format(gib=4), settings)
    cached = used(gpu) - before
    began_s = time.monotonic()
    answer = json.loads(ask(path, ["release-caches"], timeout_s=LIMIT_S))
    took_s = time.monotonic() - began_s
    left = used(gpu) - before
    end(job)
    print(
        f"PyTorch: {cached / GIB:.2f} GiB held, {left / GIB:.2f} GiB after {took_s:.1f} s; it says {answer}"
    )
    assert cached - left >= 0.95 * 4 * GIB
    assert answer["freed_bytes"] >= 0.95 * 4 * GIB


def test_a_share_of_memory_holds_a_pytorch_job_that_uses_the_library(gpu: Device) -> None:
    settings = environment(lease(gpu, 0.5, Mps()).settings, {})
    fraction = float(settings["FALLOW_MEMORY_FRACTION"])
    script = CAPPED.format(below=fraction * 0.5, above=fraction * 1.1)
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONPATH": str(ROOT), "CUDA_VISIBLE_DEVICES": gpu.uuid, **settings},
        capture_output=True,
        text=True,
        check=False,
        timeout=LIMIT_S,
    )
    assert done.stdout.strip() == "HELD", done.stderr


@pytest.mark.parametrize("under", [Sharing.TIME_SLICED, Sharing.MPS])
def test_two_packed_jobs_against_each_alone(under: Sharing, gpu: Device, launch: Any) -> None:
    mps = find_mps()
    if under is Sharing.MPS and mps.pipe_directory is None:
        pytest.skip(f"{mps.why}: start one with nvidia-cuda-mps-control -d")
    found = lease(gpu, 0.5, mps if under is Sharing.MPS else Mps())
    assert found.sharing is under
    settings = environment(found.settings, {})
    script = WORKING.format(size=1024, seconds=RUN_S, idle=0.01)

    def rates(count: int) -> list[float]:
        jobs = [launch(script, settings) for _ in range(count)]
        for job in jobs:
            assert job.stdin is not None
            job.stdin.write("\n")
            job.stdin.flush()
        told = [job.communicate(timeout=LIMIT_S)[0] for job in jobs]
        return [float(each.split()[1]) for each in told]

    (alone,) = rates(1)
    packed = rates(2)
    shares = ", ".join(f"{rate / alone:.2f}" for rate in packed)
    print(f"{under}: alone {alone:.0f} products/s; packed {shares} of it; sum {sum(packed) / alone:.2f}")
    assert len(packed) == 2, "both ran to their end"

"""Elastic training on real GPUs: mixed precision, compilation, a controller, memory that is given back.

Figures are printed for docs/hardware.md: run with ``pytest tests/gpu/test_elastic_gpu.py -m gpu -s``. NCCL
between workers is tried where there are two GPUs, and skipped aloud else.
"""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed; pip install -c constraints.txt torch")

import fallow  # noqa: E402
from fallow.world import collectives  # noqa: E402
from fallow.world import group as groups  # noqa: E402

pytestmark = pytest.mark.gpu

ROOT = Path(__file__).parents[2]
STEPS = 12
TRAINING = """
import os, torch, fallow
device = torch.device("cuda", 0)
model = torch.nn.Linear(4, 4).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
trainer = fallow.connect(device=device).elastic(model, optimizer, global_batch=8, max_micro_batch=4)
for _, batches in trainer.steps(torch.utils.data.TensorDataset(torch.ones(64, 4)), 20):
    for (x,) in batches:
        trainer.backward(model(x.to(device)).mean())
    trainer.step()
seen = [os.environ["CUDA_VISIBLE_DEVICES"], os.environ["LOCAL_RANK"], torch.cuda.device_count()]
print("SAW", *seen, trainer.world_size, flush=True)
"""


@pytest.fixture(autouse=True)
def gpu() -> "torch.device":
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device here: torch.cuda.is_available() says no")
    return torch.device("cuda", 0)


def losses(device: "torch.device", *, amp: bool, compiled: bool, elastic: bool) -> list[float]:
    """The losses of a small training, by Trainer or by a plain loop."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.Tanh(), torch.nn.Linear(64, 4)).to(device)
    forward = torch.compile(model) if compiled else model
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cuda", enabled=amp)
    x, y = torch.randn(32 * STEPS, 16), torch.randint(0, 4, (32 * STEPS,))
    data = torch.utils.data.TensorDataset(x, y)
    loss_of = torch.nn.CrossEntropyLoss()

    def loss(inputs: "torch.Tensor", wanted: "torch.Tensor") -> "torch.Tensor":
        with torch.autocast("cuda", dtype=torch.float16, enabled=amp):
            return loss_of(forward(inputs.to(device)), wanted.to(device))

    seen: list[float] = []
    if elastic:
        job = fallow.connect(device=device)
        trainer = job.elastic(
            model, optimizer, global_batch=32, max_micro_batch=32, scaler=scaler if amp else None
        )
        for _, batches in trainer.steps(data, total_steps=STEPS, shuffle=False):
            for inputs, wanted in batches:
                trainer.backward(loss(inputs, wanted))
            done = trainer.step()
            assert done is not None
            seen.append(done.loss)
        return seen
    for start in range(0, 32 * STEPS, 32):
        optimizer.zero_grad()
        value = loss(x[start : start + 32], y[start : start + 32])
        scaler.scale(value).backward()
        scaler.step(optimizer)
        scaler.update()
        seen.append(float(value))
    return seen


@pytest.mark.parametrize(("amp", "compiled"), [(False, False), (True, False), (False, True), (True, True)])
def test_mixed_precision_and_compilation_learn_what_a_plain_loop_learns(
    amp: bool, compiled: bool, gpu: "torch.device"
) -> None:
    plain = losses(gpu, amp=amp, compiled=compiled, elastic=False)
    assert losses(gpu, amp=amp, compiled=compiled, elastic=True) == pytest.approx(plain, rel=1e-3)


def drive(folder: Path, workers: int) -> list[list[str]]:
    """Run TRAINING under the controller; what each worker saw when it had come to the end."""
    (folder / "train.py").write_text(TRAINING)
    size = ["--workers", str(workers), "--max", str(workers)]
    run = subprocess.run(
        [sys.executable, "-m", "fallow.controller", *size, "--", str(folder / "train.py")],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert run.returncode == 0, run.stderr
    return [line.split()[1:] for line in run.stdout.splitlines() if line.startswith("SAW ")]


def test_a_world_of_one_under_the_controller_keeps_to_its_device(gpu: "torch.device", tmp_path: Path) -> None:
    began_s = time.monotonic()
    (seen,) = drive(tmp_path, 1)
    assert seen[1:] == ["0", "1", "1"], "LOCAL_RANK 0, one device, a world of one"
    print(f"a world of one under the controller, start to end: {time.monotonic() - began_s:.1f} s")


def test_released_memory_is_the_drivers_again_and_a_limit_holds(gpu: "torch.device") -> None:
    import pynvml

    pynvml.nvmlInit()
    handle = pynvml.nvmlDeviceGetHandleByUUID(f"GPU-{torch.cuda.get_device_properties(gpu).uuid}")

    def used() -> int:
        return int(pynvml.nvmlDeviceGetMemoryInfo(handle).used)

    job = fallow.connect(device=gpu)
    block = torch.empty(2**30, dtype=torch.uint8, device=gpu)
    torch.cuda.synchronize(gpu)
    del block
    before = used()
    job.memory.release()
    freed = before - used()
    print(f"released after a block of 1 GiB: {freed / 2**20:.0f} MiB by NVML")
    assert freed >= 0.95 * 2**30
    job.memory.limit(0.05)
    try:
        with pytest.raises(torch.OutOfMemoryError):
            torch.empty(
                int(0.1 * torch.cuda.get_device_properties(gpu).total_memory), dtype=torch.uint8, device=gpu
            )
    finally:
        job.memory.limit(1.0)


def test_a_world_of_one_needs_no_communicator(gpu: "torch.device") -> None:
    store = torch.distributed.HashStore()
    before = torch.cuda.mem_get_info(gpu)[0]
    assert isinstance(groups.connect(store, 0, 1, gpu), collectives.Alone)
    assert torch.cuda.mem_get_info(gpu)[0] == before


def test_two_workers_compute_together_over_nccl(gpu: "torch.device", tmp_path: Path) -> None:
    if torch.cuda.device_count() < 2:
        pytest.skip("one GPU only, and NCCL wants a GPU a worker: groups over NCCL were not tried")
    seen = drive(tmp_path, 2)
    assert len({device for device, *_ in seen}) == 2, "a device each"
    assert {world for *_, world in seen} == {"2"}

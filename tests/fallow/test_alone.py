"""With nobody to drive it, the library costs nothing and changes nothing."""

import gc
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed; pip install -c constraints.txt torch")

import fallow  # noqa: E402
from fallow.data.sampler import Order  # noqa: E402
from tests.fallow.combinations import samples  # noqa: E402

ROOT = Path(__file__).parents[2]
STEPS = 12


def network() -> "torch.nn.Module":
    torch.manual_seed(0)
    nn = torch.nn
    return nn.Sequential(nn.Linear(12, 16), nn.BatchNorm1d(16), nn.Dropout(0.2), nn.Linear(16, 4))


def elastic(global_batch: int, cap: int) -> dict[str, Any]:
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    job = fallow.connect(environment={})
    trainer = job.elastic(model, optimizer, global_batch=global_batch, max_micro_batch=cap)
    losses = []
    for _, batches in trainer.steps(samples(100), STEPS):
        for x, y in batches:
            trainer.backward(torch.nn.functional.cross_entropy(model(x.float()), y))
        losses.append(trainer.step().loss)
    return {"losses": losses, **model.state_dict()}


def plain(global_batch: int, cap: int) -> dict[str, Any]:
    """The loop that everybody writes, with gradient accumulation."""
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    data = samples(100)
    order = Order(samples=100, global_batch=global_batch, seed=0)
    losses = []
    for step in range(STEPS):
        start = (step % order.steps_per_epoch) * global_batch
        visited = torch.as_tensor(order.permutation(order.epoch(step))).tolist()
        rows = [data[index] for index in visited[start : start + global_batch]]
        optimizer.zero_grad()
        total = 0.0
        for first in range(0, len(rows), cap):
            piece = rows[first : first + cap]
            x, y = torch.utils.data.default_collate(piece)
            loss = torch.nn.functional.cross_entropy(model(x.float()), y)
            loss = loss * (len(piece) / len(rows))
            loss.backward()
            total = loss.detach() + total
        optimizer.step()
        losses.append(float(total))
    return {"losses": losses, **model.state_dict()}


@pytest.mark.parametrize(("global_batch", "cap"), [(20, 20), (20, 10), (20, 5)])
def test_it_learns_the_very_bits_of_a_plain_loop(global_batch: int, cap: int) -> None:
    mine, theirs = elastic(global_batch, cap), plain(global_batch, cap)
    assert mine.pop("losses") == theirs.pop("losses")
    for name, value in theirs.items():
        assert torch.equal(mine[name], value), name


def test_it_draws_no_random_number_of_its_own() -> None:
    model = torch.nn.Linear(12, 4).double()
    trainer = fallow.connect(environment={}).elastic(
        model, torch.optim.SGD(model.parameters(), lr=0.1), global_batch=20, max_micro_batch=5
    )
    torch.manual_seed(7)
    before = torch.get_rng_state()
    for _, batches in trainer.steps(samples(100), 3):
        for x, y in batches:
            trainer.backward(torch.nn.functional.cross_entropy(model(x), y))
        trainer.step()
    assert torch.equal(torch.get_rng_state(), before)


def test_it_opens_no_file_or_socket_and_starts_no_thread_or_process() -> None:
    if not Path("/proc/self/fd").is_dir():
        pytest.skip("/proc is not here: open files cannot be counted")
    code = "from tests.fallow.test_alone import watched; watched()"  # where no other test left anything
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, timeout=100)


def watched() -> None:
    """A training in which the process is looked at, after one in which torch started what it needs."""
    elastic(20, 5)
    before = (open_descriptors(), threading.active_count(), children())
    model = network()
    trainer = fallow.connect(environment={}).elastic(
        model, torch.optim.SGD(model.parameters(), lr=0.1), global_batch=20, max_micro_batch=5
    )
    for _, batches in trainer.steps(samples(100), 3):
        for x, y in batches:
            trainer.backward(torch.nn.functional.cross_entropy(model(x.float()), y))
        assert (open_descriptors(), threading.active_count(), children()) == before
        trainer.step()
    assert before[1:] == (1, [])


def open_descriptors() -> set[str]:
    return {entry.name for entry in Path("/proc/self/fd").iterdir() if entry.exists()}


def children() -> list[str]:
    return Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()


@pytest.mark.filterwarnings("ignore:`torch.distributed.reduce_op`")  # looking at every object wakes it
def test_it_keeps_no_tensor_beside_what_a_plain_loop_has() -> None:
    data = samples(100)
    gc.collect()
    before = {id(thing) for thing in gc.get_objects() if isinstance(thing, torch.Tensor)}
    model = torch.nn.Linear(12, 4).double()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    trainer = fallow.connect(environment={}).elastic(model, optimizer, global_batch=20, max_micro_batch=5)
    for _, batches in trainer.steps(data, 3):
        for x, y in batches:
            trainer.backward(torch.nn.functional.cross_entropy(model(x), y))
        del x, y
        trainer.step()
        gc.collect()
        assert not others(before, model)
        assert all(p.grad._base is None for p in model.parameters())  # torch's own, no view of a buffer


def others(before: set[int], model: "torch.nn.Module") -> "list[torch.Size]":
    """The shapes of floating tensors that came since ``before`` and are neither parameters nor gradients."""
    gradients = [parameter.grad for parameter in model.parameters()]
    known = before | {id(tensor) for tensor in (*model.parameters(), *gradients)}
    tensors = [thing for thing in gc.get_objects() if isinstance(thing, torch.Tensor)]
    return [t.shape for t in tensors if t.is_floating_point() and t.dim() and id(t) not in known]


def test_importing_the_pure_files_takes_no_torch() -> None:
    code = "import sys, fallow.data.batch_plan, fallow.protocol; sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, timeout=60)

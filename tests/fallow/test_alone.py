"""With nobody to drive it, the library costs nothing and changes nothing."""

import gc
import os
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed; pip install -c constraints.txt torch")

from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

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


class Counting(TorchDispatchMode):
    """How often torch does anything, by name: on a GPU each is at least one launch."""

    def __init__(self) -> None:
        super().__init__()
        self.counts: Counter[str] = Counter()

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.counts[function.overloadpacket.__name__] += 1
        return function(*args, **(kwargs or {}))


@pytest.mark.quick
@pytest.mark.parametrize("layers", [1, 12])
def test_alone_a_step_launches_as_much_as_a_plain_loop_however_many_parameters_there_are(layers: int) -> None:
    """It scales the loss and adds it up: three more, in a network of any depth."""
    at = 8  # behind the first steps, in which the loop is looked at

    def made() -> tuple[Any, Any]:
        linear = [torch.nn.Linear(12, 12) for _ in range(layers)]
        model = torch.nn.Sequential(*linear, torch.nn.Linear(12, 4))
        return model, torch.optim.SGD(model.parameters(), lr=0.1)

    data = [(x.float(), y) for x, y in (samples(100)[index] for index in range(32))]
    model, optimizer = made()
    trainer = fallow.connect(environment={}).elastic(model, optimizer, global_batch=4, max_micro_batch=4)
    steps = trainer.steps(data, at + 1, shuffle=False)
    for _ in range(at):
        for x, y in next(steps)[1]:
            trainer.backward(torch.nn.functional.cross_entropy(model(x), y))
        float(trainer.step().loss)
    with Counting() as ours:
        for x, y in next(steps)[1]:
            trainer.backward(torch.nn.functional.cross_entropy(model(x), y))
        float(trainer.step().loss)
    model, optimizer = made()
    with Counting() as plain:
        x, y = torch.utils.data.default_collate(data[:4])
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        float(loss.detach())
    assert sum((ours.counts - plain.counts).values()) <= 3, ours.counts - plain.counts

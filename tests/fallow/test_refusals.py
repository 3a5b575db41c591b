"""What cannot be elastic is refused by its type, alone as under a controller, before anything is trained."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed; pip install -c constraints.txt torch")

from torch import nn  # noqa: E402

import fallow  # noqa: E402
from fallow.errors import Mistake, StateError  # noqa: E402
from fallow.process_group.state_transfer import check_portable  # noqa: E402

pytestmark = pytest.mark.quick

ROOT = Path(__file__).parents[2]
SHARDED = """
import torch, torch.distributed as dist, fallow
from torch import nn
from fallow.errors import Mistake
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.distributed.tensor.parallel import ColwiseParallel, parallelize_module
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
mesh = init_device_mesh("cpu", (1,))
nets = {
    "ddp": DistributedDataParallel(nn.Linear(4, 4)),
    "ddp-within": nn.Sequential(DistributedDataParallel(nn.Linear(4, 4))),
    "fsdp2": nn.Sequential(fully_shard(nn.Linear(4, 4), mesh=mesh)),
    "parallel": parallelize_module(nn.Sequential(nn.Linear(4, 4)), mesh, {"0": ColwiseParallel()}),
}
for name, net in nets.items():
    try:
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        fallow.connect(environment={}).elastic(net, optimizer, global_batch=4, max_micro_batch=4)
    except Mistake as mistake:
        print(name, mistake)
net = nn.Linear(4, 4)
try:
    optimizer = ZeroRedundancyOptimizer(net.parameters(), torch.optim.SGD, lr=0.1)
    fallow.connect(environment={}).elastic(net, optimizer, global_batch=4, max_micro_batch=4)
except Mistake as mistake:
    print("zero", mistake)
"""


def elastic(model: Any, optimizer: Any = None, **options: Any) -> Any:
    optimizer = optimizer or torch.optim.SGD(model.parameters(), lr=0.1)
    job = fallow.connect(environment={})
    return job, job.elastic(model, optimizer, **{"global_batch": 4, "max_micro_batch": 2, **options})


@pytest.mark.slow
@pytest.mark.process
def test_models_and_optimizers_for_a_fixed_world_are_refused_by_their_types() -> None:
    """In a process of its own: torch keeps one world for a process."""
    done = subprocess.run(
        [sys.executable, "-c", SHARDED], cwd=ROOT, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    told = dict(line.split(" ", 1) for line in done.stdout.splitlines())
    expected = {
        "ddp": "the model is a DistributedDataParallel, which sums gradients by itself",
        "ddp-within": "the model's part '0' is a DistributedDataParallel",
        "fsdp2": "the model's part '0' is a FSDPLinear, which is a shard of a model (fully_shard)",
        "parallel": "parameter '0.weight' is a DTensor",
        "zero": "the optimizer is a ZeroRedundancyOptimizer, which spreads its state",
    }
    assert told.keys() == expected.keys(), done.stdout
    for name, sentence in expected.items():
        assert told[name].startswith(sentence), told[name]


def test_layers_that_take_statistics_over_workers_are_refused() -> None:
    with pytest.raises(Mistake, match=r"part '1' is a SyncBatchNorm, which .*use nn.BatchNorm"):
        elastic(nn.Sequential(nn.Linear(2, 2), nn.SyncBatchNorm(2)))


def test_a_second_trainer_is_refused_when_alone_too() -> None:
    job, _ = elastic(nn.Linear(2, 2))
    other = nn.Linear(2, 2)
    with pytest.raises(Mistake, match=r"elastic\(\) was called a second time"):
        job.elastic(other, torch.optim.SGD(other.parameters(), lr=0.1), global_batch=4, max_micro_batch=2)


class Packed(torch.Tensor):
    """A tensor that is made of parts of its own, as the states of 8-bit optimizers are."""

    @classmethod
    def __torch_dispatch__(cls, function: Any, types: Any, arguments: Any = (), options: Any = None) -> Any:
        with torch._C._DisableTorchDispatch():
            return function(*arguments, **(options or {}))


class Packing(torch.optim.SGD):
    """Keeps such states from its first step on."""

    def step(self, closure: Any = None) -> Any:
        for group in self.param_groups:
            for parameter in group["params"]:
                self.state[parameter]["mean"] = torch.zeros(4).as_subclass(Packed)
        return super().step(closure)


def test_an_optimizer_that_packs_its_state_ends_a_training_in_its_first_step() -> None:
    model = nn.Linear(2, 2)
    _, trainer = elastic(model, Packing(model.parameters(), lr=0.1))
    with pytest.raises(StateError, match=r"optimizer\['state'\]\[0\]\['mean'\] is a Packed that cannot be"):
        for _, batches in trainer.steps(torch.ones(8, 2), 3):
            for x in batches:
                trainer.backward(model(x).mean())
            trainer.step()
    assert trainer.next_step == 1


def test_an_optimizer_known_to_pack_its_state_is_refused_by_name() -> None:
    model = nn.Linear(2, 2)
    kind = type("AdamW8bit", (torch.optim.AdamW,), {"__module__": "torchao.optim.adam"})
    with pytest.raises(Mistake, match=r"torchao's AdamW8bit, whose packed states"):
        elastic(model, kind(model.parameters()))


def test_a_state_of_such_a_tensor_is_no_state_to_hand_over() -> None:
    with pytest.raises(StateError, match=r"state\['a'\] is a Packed that cannot be handed"):
        check_portable({"state": {"a": torch.zeros(4).as_subclass(Packed)}})
    check_portable({"state": {"a": nn.Parameter(torch.zeros(4)), "b": nn.Buffer(torch.zeros(4))}})


def test_a_norm_of_nought_clips_nothing_and_one_below_it_is_none() -> None:
    learned = []
    for limit in (None, 0, 0.0):
        torch.manual_seed(0)
        model = nn.Linear(2, 2)
        _, trainer = elastic(model, max_grad_norm=limit)
        for _, batches in trainer.steps(torch.ones(8, 2), 2):
            for x in batches:
                trainer.backward(model(x).mean())
            assert trainer.step().grad_norm is None
        learned.append(model.weight.detach().clone())
    assert torch.equal(learned[0], learned[1])
    assert torch.equal(learned[0], learned[2])
    for limit in (-1.0, float("nan"), "1"):
        with pytest.raises(Mistake, match=r"max_grad_norm=.* is no norm"):
            elastic(nn.Linear(2, 2), max_grad_norm=limit)

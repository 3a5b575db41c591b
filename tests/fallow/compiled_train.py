"""A compiled model in float64, as many workers as there are; what it learned goes to OUT.RANK.

The first worker compiles to C++, which takes long; the others go the same way up to that.
"""

import os
import sys

import torch
from torch import nn
from torch.utils.data import TensorDataset

import fallow

STEPS = 8


def samples() -> TensorDataset:
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(96, 12, generator=generator, dtype=torch.float64)
    return TensorDataset(x, torch.randint(0, 4, (96,), generator=generator))


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(12, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 4)).double()


def train(model: nn.Module, job: fallow.Job) -> list[float]:
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    trainer = job.elastic(model, optimizer, global_batch=24, max_micro_batch=8, max_grad_norm=1.0)
    losses = []
    for _, batches in trainer.steps(samples(), STEPS):
        for x, y in batches:
            trainer.backward(nn.functional.cross_entropy(model(x), y))
        done = trainer.step()
        assert done is not None
        losses.append(done.loss)
    return losses


def main() -> None:
    torch.set_num_threads(1)
    model = network()
    backend = "inductor" if os.environ["RANK"] == "0" else "aot_eager"
    losses = train(torch.compile(model, backend=backend), fallow.connect())
    torch.save({"losses": losses, "model": model.state_dict()}, f"{os.environ['OUT']}.{os.environ['RANK']}")


if __name__ == "__main__":
    sys.exit(main())

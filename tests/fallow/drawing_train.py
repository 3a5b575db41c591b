"""Trainings that draw random numbers beside their micro-batches, where all workers must draw the same."""

import os
import random
import sys
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn

import fallow
from fallow.job import Job
from fallow.trainer import Trainer

STEPS = 6
G = 8
Learned = dict[str, torch.Tensor]


def noise(model: nn.Module) -> None:
    for parameter in model.parameters():
        assert parameter.grad is not None
        parameter.grad.add_(torch.randn_like(parameter) * 0.1 + random.random())


class Langevin(torch.optim.SGD):
    """Moves at random besides."""

    def step(self, closure: Any = None) -> None:
        super().step(closure)
        for group in self.param_groups:
            for parameter in group["params"]:
                parameter.data.add_(torch.randn_like(parameter) * 0.01)


def samples() -> list[tuple[torch.Tensor, torch.Tensor]]:
    generator = torch.Generator().manual_seed(1)
    return [(torch.rand(3, generator=generator).double(), torch.ones(1).double()) for _ in range(41)]


def train(job: Job, where: str, deterministic: bool) -> Learned:
    """41 samples in steps of 8: the last of an epoch has one sample, so that only one worker computes."""
    torch.manual_seed(0)
    model = nn.Linear(3, 1).double()
    optimizer = (Langevin if where == "optimizer" else torch.optim.SGD)(model.parameters(), lr=0.1)
    trainer = job.elastic(
        model,
        optimizer,
        global_batch=G,
        max_micro_batch=4,
        deterministic=deterministic,
        on_gradient=noise if where == "on_gradient" else None,
    )
    if where in EPOCH_PLACES:
        return _by_epochs(trainer, model, where)
    for _, batches in trainer.steps(samples(), STEPS):
        mixed = float(torch.rand(())) if where == "before" else 0.5
        for x, y in batches:
            trainer.backward((model(mixed * x + (1 - mixed) * x.flip(0)) - y).square().mean())
        if where == "reduced":
            trainer.reduce()
            noise(model)
        if where == "after":
            model.weight.data.mul_(1 - 0.01 * torch.rand(()))
        trainer.step()
        if where == "evaluated":
            trainer.evaluate(samples(), lambda batch: batch[0].sum() * torch.rand(()), batch=4)
        if where == "agreed":
            torch.manual_seed(trainer.rank)  # as one that looks at something of its own to decide
            trainer.agree(False)
        if where in ("between", "evaluated", "agreed"):
            model.weight.data.mul_(1 - 0.01 * torch.rand(()))
        if where == "ended":
            torch.manual_seed(trainer.rank)  # as one's stand that joined behind the last step
    if where == "ended":
        model.weight.data.mul_(1 - 0.01 * torch.rand(()))
    return dict(model.state_dict())


def _by_epochs(trainer: Trainer, model: nn.Module, where: str) -> Learned:
    """Two epochs, before which each worker's generators stand elsewhere, as a joiner's do."""
    torch.manual_seed(trainer.rank)
    for _ in trainer.epochs(2):
        if where == "epoch begins":
            model.weight.data.mul_(1 - 0.01 * torch.rand(()))
        for step, batches in trainer.steps(samples()):
            for x, y in batches:
                trainer.backward((model(x) - y).square().mean())
            trainer.step()
            if step % STEPS == STEPS - 1:
                torch.manual_seed(trainer.rank)
        if where == "epoch ended":
            model.weight.data.mul_(1 - 0.01 * torch.rand(()))
    return dict(model.state_dict())


EPOCH_PLACES = ("epoch begins", "epoch ended")
PLACES = (
    *("on_gradient", "optimizer", "before", "reduced", "after", "between", "evaluated", "agreed", "ended"),
    *EPOCH_PLACES,
)


def everywhere(job: Callable[[], Job]) -> Iterator[tuple[str, bool, Learned]]:
    for where in PLACES:
        for deterministic in (True, False):
            yield where, deterministic, train(job(), where, deterministic)


def main() -> None:
    torch.set_num_threads(1)
    job = fallow.connect()
    learned = {(where, mode): end for where, mode, end in everywhere(lambda: job)}
    torch.save(learned, f"{os.environ['OUT']}.{os.environ['RANK']}")


if __name__ == "__main__":
    sys.exit(main())

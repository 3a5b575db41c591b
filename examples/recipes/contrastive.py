"""Contrastive: two views of a sample belong together, and to no other that they are compared with (SimCLR).

After sthalles/SimCLR, simclr.py at 1848fc9. Such a loss is no mean over samples: it changes with how many are
compared. So that number is fixed, GROUP, and `deterministic=True` cuts each step at the same samples in every
world.
"""

import torch
from torch import nn
from torch.utils.data import DataLoader

import fallow

EPOCHS, BATCH, GROUP, WARM = 4, 16, 4, 0.5


def loss_of(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """Two views of a sample belong together, and to no other's of the batch."""
    seen = nn.functional.normalize(torch.cat([left, right]), dim=1)
    alike = (seen @ seen.T / WARM).fill_diagonal_(float("-inf"))
    count = len(left)
    return nn.functional.cross_entropy(alike, torch.arange(2 * count).roll(count))


def build() -> tuple[nn.Module, torch.optim.Optimizer, DataLoader]:
    """The model, its optimizer, and the two views of each sample."""
    own = torch.Generator().manual_seed(1)
    x = torch.randn(64, 6, generator=own, dtype=torch.float64)
    views = [(each + 0.1, each * 0.9) for each in x]
    model = nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 4)).double()
    return model, torch.optim.SGD(model.parameters(), lr=0.1), DataLoader(views, BATCH)


def plain(model, optimizer, loader) -> None:
    """The loop as everybody writes it, with gradients accumulated over the groups of a batch."""
    for _epoch in range(EPOCHS):
        for left, right in loader:
            optimizer.zero_grad()
            for first, second in zip(left.split(GROUP), right.split(GROUP), strict=True):
                loss = loss_of(model(first), model(second))
                (loss * len(first) / len(left)).backward()
            optimizer.step()


def elastic(job, model, optimizer, loader) -> None:
    """The same with Fallow."""
    trainer = job.elastic(model, optimizer, global_batch=BATCH, max_micro_batch=GROUP, deterministic=True)
    for _step, batches in trainer.steps(loader, epochs=EPOCHS):
        for first, second in batches:
            loss = loss_of(model(first), model(second))
            trainer.backward(loss)
        trainer.step()


if __name__ == "__main__":
    elastic(fallow.connect(), *build())

"""Streamed: readings of a sensor come from a stream that is read once an epoch, in its own order.

After pytorch/examples, mnist/main.py at 77f55b9, with a stream in place of its data set, and a schedule.
"""

from collections.abc import Iterator

import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset

import fallow

READINGS, EPOCHS, BATCH = 60, 4, 16


class Readings(IterableDataset):
    """The same readings in the same order each time, as whoever shares a stream out must promise."""

    def __len__(self) -> int:
        return READINGS

    def __iter__(self) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        own = torch.Generator().manual_seed(1)
        for _ in range(READINGS):
            x = torch.randn(6, generator=own, dtype=torch.float64)
            yield x, (x.sum() > 0).long()


def build() -> tuple[nn.Module, torch.optim.Optimizer, DataLoader, object]:
    """The model, its optimizer, the stream, and a schedule by epoch."""
    model = nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 2)).double()
    optimizer = torch.optim.Adadelta(model.parameters(), lr=1.0)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.7)
    return model, optimizer, DataLoader(Readings(), BATCH), schedule


def plain(model, optimizer, loader, schedule) -> None:
    """The loop as everybody writes it."""
    for _epoch in range(EPOCHS):
        for x, y in loader:
            loss = nn.functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        schedule.step()


def elastic(job, model, optimizer, loader, schedule) -> None:
    """The same with Fallow."""
    trainer = job.elastic(model, optimizer, global_batch=BATCH, max_micro_batch=5, state={"s": schedule})
    for _epoch in trainer.epochs(EPOCHS):
        for _step, batches in trainer.steps(loader):
            for x, y in batches:
                loss = nn.functional.cross_entropy(model(x), y)
                trainer.backward(loss)
            trainer.step()
        schedule.step()


if __name__ == "__main__":
    elastic(fallow.connect(), *build())

"""Forecast: a recurrent network continues curves; its learning rate falls when a measurement stands still.

After pytorch/examples, mnist_rnn/main.py at 77f55b9, with windows of curves in place of rows of images, and
torch's ReduceLROnPlateau, which needs the same number in every worker: `trainer.evaluate` gives it.
"""

import torch
from torch import nn
from torch.utils.data import DataLoader

import fallow

LENGTH, EPOCHS, BATCH = 12, 6, 12


def window(number: int) -> tuple[torch.Tensor, torch.Tensor]:
    """A piece of a curve, and how it goes on."""
    at = torch.arange(LENGTH + 1, dtype=torch.float64) + 3 * number
    curve = (0.2 * at).sin() + 0.5 * (0.07 * at).cos()
    return curve[:-1, None], curve[-1:]


class Forecaster(nn.Module):
    """The last hidden state says what comes."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = nn.LSTM(1, 10, batch_first=True), nn.Linear(10, 1)

    def forward(self, windows: torch.Tensor) -> torch.Tensor:
        """``(batch, LENGTH, 1)`` to ``(batch, 1)``."""
        return self.head(self.body(windows)[0][:, -1])


def build() -> tuple[nn.Module, torch.optim.Optimizer, tuple[DataLoader, DataLoader], object]:
    """The model, its optimizer, windows to learn from and to measure by, and the schedule."""
    model = Forecaster().double()
    optimizer = torch.optim.NAdam(model.parameters(), lr=0.05)
    schedule = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5, patience=0, threshold=0.3)
    windows = [window(n) for n in range(57)]
    return model, optimizer, (DataLoader(windows[:36], BATCH), DataLoader(windows[36:], 5)), schedule


def plain(model, optimizer, loaders, schedule) -> float:
    """The loop as everybody writes it; returns the last learning rate."""
    loader, others = loaders
    for _epoch in range(EPOCHS):
        for windows, following in loader:
            loss = nn.functional.huber_loss(model(windows), following)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        with torch.no_grad():
            errors = sum((model(windows) - following).abs().sum().item() for windows, following in others)
        schedule.step(errors / len(others.dataset))
    return schedule.get_last_lr()[0]


def elastic(job, model, optimizer, loaders, schedule) -> float:
    """The same with Fallow."""
    loader, others = loaders
    trainer = job.elastic(model, optimizer, global_batch=BATCH, max_micro_batch=5, state={"s": schedule})
    for _epoch in trainer.epochs(EPOCHS):
        for _step, batches in trainer.steps(loader):
            for windows, following in batches:
                loss = nn.functional.huber_loss(model(windows), following)
                trainer.backward(loss)
            trainer.step()
        errors = trainer.evaluate(others, lambda pair: (model(pair[0]) - pair[1]).abs().sum())
        schedule.step(errors.mean())
    return schedule.get_last_lr()[0]


if __name__ == "__main__":
    elastic(fallow.connect(), *build())

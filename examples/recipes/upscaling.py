"""Upscaling: a network doubles an image's size; each epoch ends with a measurement, and may be the last.

After pytorch/examples, super_resolution/main.py at 77f55b9; the early stop is added.
"""

import math

import torch
from torch import nn
from torch.utils.data import DataLoader

import fallow

SIDE, EPOCHS, BATCH = 6, 20, 10


def picture(number: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Waves, small and large."""
    at = torch.arange(2 * SIDE, dtype=torch.float64)
    large = (at[:, None] * (0.1 + number % 7 / 20) + at[None] * (0.2 + number % 5 / 20)).sin()[None]
    return nn.functional.avg_pool2d(large, 2), large


def build() -> tuple[nn.Module, torch.optim.Optimizer, DataLoader, DataLoader]:
    """The model, its optimizer, pictures to learn from, and others to measure."""
    model = nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 4, 3, padding=1), nn.PixelShuffle(2)
    ).double()
    pictures = [picture(n) for n in range(53)]
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    return model, optimizer, DataLoader(pictures[:40], BATCH), DataLoader(pictures[40:], 4)


def plain(model, optimizer, loader, others) -> list[float]:
    """The loop as everybody writes it; returns the PSNR after each epoch, in dB."""
    measured, stopping = [], fallow.EarlyStopping(patience=2, least_gain=0.005)
    for _epoch in range(EPOCHS):
        for small, large in loader:
            loss = nn.functional.mse_loss(model(small), large)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        with torch.no_grad():
            squares = sum((model(small) - large).square().sum().item() for small, large in others)
        error = squares / len(others.dataset) / (2 * SIDE) ** 2
        measured.append(-10 * math.log10(error))
        if stopping.should_stop(error):
            break
    return measured


def elastic(job, model, optimizer, loader, others) -> list[float]:
    """The same with Fallow."""
    measured, stopping = [], fallow.EarlyStopping(patience=2, least_gain=0.005)
    trainer = job.elastic(model, optimizer, global_batch=BATCH, max_micro_batch=3, state={"s": stopping})
    for _epoch in trainer.epochs(EPOCHS):
        for _step, batches in trainer.steps(loader):
            for small, large in batches:
                loss = nn.functional.mse_loss(model(small), large)
                trainer.backward(loss)
            trainer.step()
        squares = trainer.evaluate(others, lambda pair: (model(pair[0]) - pair[1]).square().sum())
        error = squares.mean() / (2 * SIDE) ** 2
        measured.append(-10 * math.log10(error))
        if stopping.should_stop(error):
            break
    return measured


if __name__ == "__main__":
    elastic(fallow.connect(), *build())

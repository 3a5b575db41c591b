"""Diffusion: a network learns to take noise off points on a ring, with an average of its weights (EMA).

After lucidrains/denoising-diffusion-pytorch, class Trainer at faed4db. Noise and its strength are part of a
sample and drawn by its number, so a sample is the same in whichever worker it is computed.
"""

import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from torch.utils.data import DataLoader, Dataset

import fallow

EPOCHS, BATCH, LEVELS = 4, 20, 10


class Noisy(Dataset):
    """Points of a ring, the noise that is added to each, and how much of it."""

    def __len__(self) -> int:
        return 70

    def __getitem__(self, number: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        own = torch.Generator().manual_seed(number)
        angle = 6.283 * torch.rand((), generator=own, dtype=torch.float64)
        level = torch.randint(1, LEVELS, (1,), generator=own).double() / LEVELS
        return (
            torch.stack([angle.cos(), angle.sin()]),
            torch.randn(2, generator=own, dtype=torch.float64),
            level,
        )


def loss_of(model: nn.Module, points: torch.Tensor, noise: torch.Tensor, level: torch.Tensor) -> torch.Tensor:
    """The mean square of what it takes wrongly for noise."""
    mixed = (1 - level).sqrt() * points + level.sqrt() * noise
    return nn.functional.mse_loss(model(torch.cat([mixed, level], 1)), noise)


def build() -> tuple[nn.Module, torch.optim.Optimizer, DataLoader, AveragedModel]:
    """The model, its optimizer, the data, and the average."""
    model = nn.Sequential(nn.Linear(3, 24), nn.SiLU(), nn.Linear(24, 2)).double()
    average = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.9))
    return model, torch.optim.Adam(model.parameters(), lr=1e-2), DataLoader(Noisy(), BATCH), average


def plain(model, optimizer, loader, average) -> None:
    """The loop as everybody writes it."""
    for _epoch in range(EPOCHS):
        for points, noise, level in loader:
            loss = loss_of(model, points, noise, level)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            average.update_parameters(model)


def elastic(job, model, optimizer, loader, average) -> None:
    """The same with Fallow."""
    trainer = job.elastic(model, optimizer, global_batch=BATCH, max_micro_batch=7, state={"average": average})
    for _step, batches in trainer.steps(loader, epochs=EPOCHS):
        for points, noise, level in batches:
            loss = loss_of(model, points, noise, level)
            trainer.backward(loss)
        if trainer.step():
            average.update_parameters(model)


if __name__ == "__main__":
    elastic(fallow.connect(), *build())

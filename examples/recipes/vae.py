"""VAE: an autoencoder with a sampled code. Its loss is a sum in the original, and so must be divided.

After pytorch/examples, vae/main.py at 77f55b9. The code's noise is part of a sample, as in diffusion.py.
"""

import torch
from torch import nn
from torch.utils.data import DataLoader

import fallow

EPOCHS, BATCH, WIDTH, CODE = 4, 16, 10, 2


class Autoencoder(nn.Module):
    """To a code and back."""

    def __init__(self) -> None:
        super().__init__()
        self.encode, self.decode = nn.Linear(WIDTH, 2 * CODE), nn.Linear(CODE, WIDTH)

    def forward(self, x: torch.Tensor, noise: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """What comes back, and the code's mean and log-variance."""
        mean, spread = self.encode(x).chunk(2, 1)
        return self.decode(mean + noise * (spread / 2).exp()).sigmoid(), mean, spread


def loss_of(back: torch.Tensor, mean: torch.Tensor, spread: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """The sum over the batch, as in the original."""
    error = nn.functional.binary_cross_entropy(back, x, reduction="sum")
    return error - 0.5 * torch.sum(1 + spread - mean.pow(2) - spread.exp())


def build() -> tuple[nn.Module, torch.optim.Optimizer, DataLoader]:
    """The model, its optimizer and the data."""
    own = torch.Generator().manual_seed(1)
    x = (torch.rand(64, WIDTH, generator=own, dtype=torch.float64) < torch.linspace(0.1, 0.9, WIDTH)).double()
    noise = torch.randn(64, CODE, generator=own, dtype=torch.float64)
    model = Autoencoder().double()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
    return model, optimizer, DataLoader(list(zip(x, noise, strict=True)), BATCH)


def plain(model, optimizer, loader) -> None:
    """The loop as everybody writes it; by the mean, so that the learning rate means the same."""
    for _epoch in range(EPOCHS):
        for x, noise in loader:
            loss = loss_of(*model(x, noise), x) / len(x)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


def elastic(job, model, optimizer, loader) -> None:
    """The same with Fallow."""
    trainer = job.elastic(model, optimizer, global_batch=BATCH, max_micro_batch=5)
    for _step, batches in trainer.steps(loader, epochs=EPOCHS):
        for x, noise in batches:
            loss = loss_of(*model(x, noise), x) / len(x)
            trainer.backward(loss)
        trainer.step()


if __name__ == "__main__":
    elastic(fallow.connect(), *build())

"""Fine-tuning: a frozen network learns another task by small matrices beside its own (LoRA).

After microsoft/LoRA, loralib/layers.py at c4593f0. Only the small ones are trained and summed; a joiner gets
the frozen ones with the model.
"""

import torch
from torch import nn
from torch.nn.utils import parametrize
from torch.utils.data import DataLoader

import fallow

WIDTH, RANK, EPOCHS, BATCH = 10, 2, 5, 16


class Adapted(nn.Module):
    """A frozen weight and the product of two small matrices; the product begins as zero."""

    def __init__(self, rows: int, columns: int) -> None:
        super().__init__()
        self.up = nn.Parameter(torch.zeros(rows, RANK, dtype=torch.float64))
        self.down = nn.Parameter(torch.randn(RANK, columns, dtype=torch.float64) / columns**0.5)

    def forward(self, weight: torch.Tensor) -> torch.Tensor:
        """The weight that is used."""
        return weight + self.up @ self.down


def build() -> tuple[nn.Module, torch.optim.Optimizer, DataLoader]:
    """The model, the optimizer of its adapters, and the data."""
    model = nn.Sequential(nn.Linear(WIDTH, 20), nn.Tanh(), nn.Linear(20, 1)).double().requires_grad_(False)
    for layer in (model[0], model[2]):
        parametrize.register_parametrization(layer, "weight", Adapted(*layer.weight.shape))
        layer.parametrizations.weight.original.requires_grad_(False)
    own = torch.Generator().manual_seed(1)
    x = torch.randn(64, WIDTH, generator=own, dtype=torch.float64)
    trained = [each for each in model.parameters() if each.requires_grad]
    return (
        model,
        torch.optim.AdamW(trained, lr=2e-2),
        DataLoader(list(zip(x, x[:, :1].sin(), strict=True)), BATCH),
    )


def plain(model, optimizer, loader) -> None:
    """The loop as everybody writes it."""
    for _epoch in range(EPOCHS):
        for x, y in loader:
            loss = nn.functional.mse_loss(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


def elastic(job, model, optimizer, loader) -> None:
    """The same with Fallow."""
    trainer = job.elastic(model, optimizer, global_batch=BATCH, max_micro_batch=5)
    for _step, batches in trainer.steps(loader, epochs=EPOCHS):
        for x, y in batches:
            loss = nn.functional.mse_loss(model(x), y)
            trainer.backward(loss)
        trainer.step()


if __name__ == "__main__":
    elastic(fallow.connect(), *build())

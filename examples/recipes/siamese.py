"""Pairs: one network looks at two signals and says whether they are of one kind.

After pytorch/examples, siamese_network/main.py at 77f55b9. A pair is a sample, drawn by its number.
"""

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

import fallow

LENGTH, KINDS, EPOCHS, BATCH = 16, 4, 5, 14


def signal(kind: int, own: torch.Generator) -> torch.Tensor:
    """A wave of its kind's frequency, from anywhere, in noise."""
    from_ = 6.283 * torch.rand((), generator=own, dtype=torch.float64)
    wave = (torch.arange(LENGTH, dtype=torch.float64) * (0.3 + 0.4 * kind) + from_).sin()
    return wave + 0.1 * torch.randn(LENGTH, generator=own, dtype=torch.float64)


class Pairs(Dataset):
    """Two signals; of one kind where the number is even."""

    def __len__(self) -> int:
        return 63

    def __getitem__(self, number: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        own = torch.Generator().manual_seed(number)
        first, apart = torch.randint(KINDS, (2,), generator=own).tolist()
        second = first if number % 2 == 0 else (first + 1 + apart % (KINDS - 1)) % KINDS
        return signal(first, own), signal(second, own), torch.tensor(float(first == second)).double()


class Siamese(nn.Module):
    """The same weights for both, and a judge of what they found."""

    def __init__(self) -> None:
        super().__init__()
        self.look = nn.Sequential(nn.Linear(LENGTH, 24), nn.ReLU(), nn.Linear(24, 8))
        self.judge = nn.Sequential(nn.Linear(16, 12), nn.ReLU(), nn.Linear(12, 1))

    def forward(self, first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
        """``(batch, LENGTH)`` twice, to the score of each pair."""
        return self.judge(torch.cat([self.look(first), self.look(second)], 1)).squeeze(1)


def build() -> tuple[nn.Module, torch.optim.Optimizer, DataLoader, object]:
    """The model, its optimizer, the pairs, and a schedule by epoch."""
    model = Siamese().double()
    optimizer = torch.optim.Adadelta(model.parameters(), lr=1.0)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.7)
    return model, optimizer, DataLoader(Pairs(), BATCH), schedule


def plain(model, optimizer, loader, schedule) -> None:
    """The loop as everybody writes it."""
    for _epoch in range(EPOCHS):
        for first, second, same in loader:
            loss = nn.functional.binary_cross_entropy_with_logits(model(first, second), same)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        schedule.step()


def elastic(job, model, optimizer, loader, schedule) -> None:
    """The same with Fallow."""
    trainer = job.elastic(model, optimizer, global_batch=BATCH, max_micro_batch=4, state={"s": schedule})
    for _epoch in trainer.epochs(EPOCHS):
        for _step, batches in trainer.steps(loader):
            for first, second, same in batches:
                loss = nn.functional.binary_cross_entropy_with_logits(model(first, second), same)
                trainer.backward(loss)
            trainer.step()
        schedule.step()


if __name__ == "__main__":
    elastic(fallow.connect(), *build())

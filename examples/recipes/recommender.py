"""Recommendation: clicks are guessed from bags of what a person looked at and some numbers.

After facebookresearch/dlrm, dlrm_s_pytorch.py at 090956e. A bag has any number of things, so a batch is a
flat list of things and where each sample's begin: the data set gives samples, and the collate function lays
them out.
"""

import torch
from torch import nn
from torch.utils.data import DataLoader

import fallow

THINGS, NUMBERS, WIDTH, EPOCHS, BATCH = 40, 4, 6, 4, 16


def person(number: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """What was looked at (1 to 6 things), numbers, and whether there was a click."""
    own = torch.Generator().manual_seed(number)
    things = torch.randint(THINGS, (1 + number % 6,), generator=own)
    numbers = torch.randn(NUMBERS, generator=own, dtype=torch.float64)
    return things, numbers, (things.double().mean() / THINGS + numbers[0] > 0.5).double()


def bags(people: list[tuple[torch.Tensor, torch.Tensor, torch.Tensor]]) -> tuple[torch.Tensor, ...]:
    """Numbers and clicks, all things in a row, and where each person's begin."""
    things, numbers, clicks = zip(*people, strict=True)
    begins = torch.tensor([0, *(len(each) for each in things[:-1])]).cumsum(0)
    return torch.stack(numbers), torch.stack(clicks), torch.cat(things), begins


class Clicks(nn.Module):
    """Products of what is known of things and of numbers, and a network on them."""

    def __init__(self) -> None:
        super().__init__()
        self.things = nn.EmbeddingBag(THINGS, WIDTH, mode="mean")
        self.numbers = nn.Linear(NUMBERS, WIDTH)
        self.top = nn.Sequential(nn.Linear(2 * WIDTH + 1, 12), nn.ReLU(), nn.Linear(12, 1))

    def forward(self, numbers: torch.Tensor, things: torch.Tensor, begins: torch.Tensor) -> torch.Tensor:
        """The score of a click, ``(batch,)``."""
        left, right = self.things(things, begins), self.numbers(numbers).relu()
        product = (left * right).sum(1, keepdim=True)
        return self.top(torch.cat([left, right, product], 1)).squeeze(1)


def build() -> tuple[nn.Module, torch.optim.Optimizer, DataLoader]:
    """The model, its optimizer and the data."""
    model = Clicks().double()
    data = DataLoader([person(n) for n in range(64)], BATCH, collate_fn=bags)
    return model, torch.optim.Adagrad(model.parameters(), lr=0.1), data


def plain(model, optimizer, loader) -> None:
    """The loop as everybody writes it."""
    for _epoch in range(EPOCHS):
        for numbers, clicks, things, begins in loader:
            scores = model(numbers, things, begins)
            loss = nn.functional.binary_cross_entropy_with_logits(scores, clicks)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


def elastic(job, model, optimizer, loader) -> None:
    """The same with Fallow."""
    trainer = job.elastic(model, optimizer, global_batch=BATCH, max_micro_batch=5)
    for _step, batches in trainer.steps(loader, epochs=EPOCHS):
        for numbers, clicks, things, begins in batches:
            scores = model(numbers, things, begins)
            loss = nn.functional.binary_cross_entropy_with_logits(scores, clicks)
            trainer.backward(loss)
        trainer.step()


if __name__ == "__main__":
    elastic(fallow.connect(), *build())

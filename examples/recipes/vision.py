"""Vision: a residual network names shapes; after each epoch its accuracy is measured, and the best is kept.

After pytorch/examples, imagenet/main.py at 77f55b9. BatchNorm, whose statistics are those of the images that
a GPU happens to get, is GroupNorm here; images are mirrored by chance, which is part of a sample.
"""

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

import fallow

SIDE, KINDS, EPOCHS, BATCH = 10, 3, 4, 12


class Shapes(Dataset):
    """Bars, upright or lying, and crosses, in noise."""

    def __init__(self, first: int, count: int) -> None:
        self.first, self.count = first, count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, number: int) -> tuple[torch.Tensor, torch.Tensor]:
        own = torch.Generator().manual_seed(self.first + number)
        image = 0.6 * torch.randn(1, SIDE, SIDE, generator=own, dtype=torch.float64)
        kind = number % KINDS
        at = int(torch.randint(1, SIDE - 1, (), generator=own))
        if kind != 0:
            image[0, at] += 1
        if kind != 1:
            image[0, :, at] += 1
        mirrored = bool(torch.rand((), generator=own) < 0.5)
        return image.flip(2) if mirrored else image, torch.tensor(kind)


class Block(nn.Module):
    """Two convolutions and the way around them."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.Conv2d(width, width, 3, padding=1), nn.GroupNorm(2, width), nn.ReLU())
        self.second = nn.Sequential(nn.Conv2d(width, width, 3, padding=1), nn.GroupNorm(2, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The same shape."""
        return (x + self.second(self.first(x))).relu()


def build() -> tuple[nn.Module, torch.optim.Optimizer, tuple[DataLoader, DataLoader], object]:
    """The model, its optimizer, images to learn from and to measure by, and a schedule by epoch."""
    model = nn.Sequential(
        nn.Conv2d(1, 6, 3, padding=1),
        Block(6),
        Block(6),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(6, 3),
    ).double()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.1)
    return model, optimizer, (DataLoader(Shapes(0, 48), BATCH), DataLoader(Shapes(100, 30), 8)), schedule


def hits(model: nn.Module, images: torch.Tensor, kinds: torch.Tensor) -> torch.Tensor:
    """How many it names rightly."""
    return (model(images).argmax(1) == kinds).sum()


def plain(model, optimizer, loaders, schedule) -> float:
    """The loop as everybody writes it; returns the best accuracy."""
    (loader, others), best = loaders, 0.0
    for _epoch in range(EPOCHS):
        for images, kinds in loader:
            loss = nn.functional.cross_entropy(model(images), kinds)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        schedule.step()
        with torch.no_grad():
            right = sum(hits(model, images, kinds).item() for images, kinds in others)
        best = max(best, right / len(others.dataset))
    return best


def elastic(job, model, optimizer, loaders, schedule) -> float:
    """The same with Fallow."""
    (loader, others), best = loaders, 0.0
    trainer = job.elastic(model, optimizer, global_batch=BATCH, max_micro_batch=5, state={"s": schedule})
    for _epoch in trainer.epochs(EPOCHS):
        for _step, batches in trainer.steps(loader):
            for images, kinds in batches:
                loss = nn.functional.cross_entropy(model(images), kinds)
                trainer.backward(loss)
            trainer.step()
        schedule.step()
        right = trainer.evaluate(others, lambda pair: hits(model, *pair))
        best = max(best, right.mean())
    return best


if __name__ == "__main__":
    elastic(fallow.connect(), *build())

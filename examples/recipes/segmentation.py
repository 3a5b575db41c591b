"""Segmentation: a small U-Net finds discs in noisy images, by cross-entropy and a Dice loss of each image.

After milesial/Pytorch-UNet, train.py at 21d7850. Its Dice loss is one over the whole batch, which changes
with how a batch is cut, so here it is one an image, averaged; GroupNorm stands for BatchNorm.
"""

import torch
from torch import nn
from torch.utils.data import DataLoader

import fallow

SIDE, EPOCHS, BATCH = 12, 4, 12


class Net(nn.Module):
    """One level down and up, with the skip in between."""

    def __init__(self) -> None:
        super().__init__()
        self.down = nn.Sequential(nn.Conv2d(1, 6, 3, padding=1), nn.GroupNorm(2, 6), nn.ReLU())
        self.deep = nn.Sequential(nn.MaxPool2d(2), nn.Conv2d(6, 8, 3, padding=1), nn.ReLU())
        self.up = nn.ConvTranspose2d(8, 6, 2, stride=2)
        self.head = nn.Conv2d(12, 1, 1)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """``(batch, 1, SIDE, SIDE)`` to the score of each pixel."""
        wide = self.down(images)
        return self.head(torch.cat([wide, self.up(self.deep(wide))], 1))


def scene(number: int) -> tuple[torch.Tensor, torch.Tensor]:
    """An image, and which of its pixels are the disc's."""
    own = torch.Generator().manual_seed(number)
    x, y, radius = (3 + 5 * torch.rand(3, generator=own, dtype=torch.float64)).tolist()
    row, column = torch.meshgrid(torch.arange(SIDE) - y, torch.arange(SIDE) - x, indexing="ij")
    mask = ((row**2 + column**2).sqrt() < radius / 2).double()[None]
    return mask + 0.5 * torch.randn(mask.shape, generator=own, dtype=torch.float64), mask


def loss_of(scores: torch.Tensor, masks: torch.Tensor) -> torch.Tensor:
    """The mean over images."""
    found = scores.sigmoid()
    both, either = (found * masks).sum((1, 2, 3)), (found + masks).sum((1, 2, 3))
    dice = 1 - (2 * both + 1) / (either + 1)
    return nn.functional.binary_cross_entropy_with_logits(scores, masks) + dice.mean()


def build() -> tuple[nn.Module, torch.optim.Optimizer, DataLoader]:
    """The model, its optimizer and the data."""
    model = Net().double()
    optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-3, momentum=0.9)
    return model, optimizer, DataLoader([scene(n) for n in range(48)], BATCH)


def plain(model, optimizer, loader) -> None:
    """The loop as everybody writes it."""
    for _epoch in range(EPOCHS):
        for images, masks in loader:
            loss = loss_of(model(images), masks)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()


def elastic(job, model, optimizer, loader) -> None:
    """The same with Fallow."""
    trainer = job.elastic(model, optimizer, global_batch=BATCH, max_micro_batch=5, max_grad_norm=1.0)
    for _epoch in trainer.epochs(EPOCHS):
        for _step, batches in trainer.steps(loader):
            for images, masks in batches:
                loss = loss_of(model(images), masks)
                trainer.backward(loss)
            trainer.step()


if __name__ == "__main__":
    elastic(fallow.connect(), *build())

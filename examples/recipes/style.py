"""Style: a network repaints pictures so that a fixed network sees their content and another one's style.

After pytorch/examples, fast_neural_style/neural_style/neural_style.py at 77f55b9. Its losses are means over
pictures, so they can be cut; the network that looks is fixed.
"""

from collections.abc import Callable
from functools import partial

import torch
from torch import nn
from torch.utils.data import DataLoader

import fallow

SIDE, EPOCHS, BATCH, CONTENT, STYLE = 8, 4, 10, 1.0, 50.0


def picture(number: int) -> torch.Tensor:
    """Waves in two colours."""
    at = torch.arange(SIDE, dtype=torch.float64)
    return torch.stack(
        [(at[:, None] * (0.2 + number % 5 / 9) + colour + at[None] * 0.3).sin() for colour in (0, 1)]
    )


def gram(seen: torch.Tensor) -> torch.Tensor:
    """Which features go together, ``(batch, features, features)``."""
    flat = seen.flatten(2)
    return flat @ flat.transpose(1, 2) / flat[0].numel()


def loss_of(
    looks: nn.Module, style: torch.Tensor, painted: torch.Tensor, pictures: torch.Tensor
) -> torch.Tensor:
    """Content and style."""
    seen, wanted = looks(painted), looks(pictures)
    content = nn.functional.mse_loss(seen, wanted)
    return CONTENT * content + STYLE * nn.functional.mse_loss(gram(seen), style.expand(len(seen), -1, -1))


def build() -> tuple[nn.Module, torch.optim.Optimizer, DataLoader, Callable[..., torch.Tensor]]:
    """The painter, its optimizer, pictures, and the loss, with the network that looks."""
    looks = nn.Sequential(nn.Conv2d(2, 6, 3, padding=1), nn.ReLU()).double().requires_grad_(False)
    own = torch.Generator().manual_seed(1)
    for each in looks.parameters():  # stands for one that was trained, and read from a file
        nn.init.normal_(each, std=0.3, generator=own)
    painter = nn.Sequential(
        nn.Conv2d(2, 8, 3, padding=1, bias=False),  # the norm would take a bias away again
        nn.InstanceNorm2d(8, affine=True),
        nn.ReLU(),
        nn.Conv2d(8, 2, 3, padding=1),
    ).double()
    style = gram(looks(picture(99)[None].flip(2)))
    data = DataLoader([picture(n) for n in range(40)], BATCH)
    return painter, torch.optim.Adam(painter.parameters(), lr=1e-2), data, partial(loss_of, looks, style)


def plain(painter, optimizer, loader, loss_of) -> None:
    """The loop as everybody writes it."""
    for _epoch in range(EPOCHS):
        for pictures in loader:
            loss = loss_of(painter(pictures), pictures)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


def elastic(job, painter, optimizer, loader, loss_of) -> None:
    """The same with Fallow."""
    trainer = job.elastic(painter, optimizer, global_batch=BATCH, max_micro_batch=3)
    for _step, batches in trainer.steps(loader, epochs=EPOCHS):
        for pictures in batches:
            loss = loss_of(painter(pictures), pictures)
            trainer.backward(loss)
        trainer.step()


if __name__ == "__main__":
    elastic(fallow.connect(), *build())

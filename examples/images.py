"""A convolutional network learns to tell shapes apart; resize it by hand and watch the loss go on.

    python examples/images.py                                                        # alone
    torchrun --standalone --nproc-per-node 2 examples/images.py                      # two workers
    python -m fallow.controller --min 1 --max 4 -- examples/images.py                # elastic

It has what usually spoils a comparison between world sizes: BatchNorm, dropout, and augmentation in loader
processes. With --deterministic even these come out the same to the bit, whatever the resizes.
"""

import argparse
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

import fallow

SIDE, CLASSES = 16, 4


class Shapes(Dataset[tuple[torch.Tensor, int]]):
    """Noisy discs, squares, crosses and rings, drawn when asked for, each time a little elsewhere."""

    def __init__(self, samples: int):
        self.samples = samples

    def __len__(self) -> int:
        return self.samples

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        own = torch.Generator().manual_seed(index)
        x, y, size = (3 + 3 * torch.rand(3, generator=own)).tolist()
        row, column = torch.meshgrid(torch.arange(SIDE) - x - 2, torch.arange(SIDE) - y - 2, indexing="ij")
        far, near = torch.maximum(row.abs(), column.abs()), torch.minimum(row.abs(), column.abs())
        round_ = (row**2 + column**2).sqrt()
        label = index % CLASSES
        shape = (round_ < size, far < size, (near < 1) & (far < size), (round_ - size).abs() < 1)[label]
        image = shape + 0.3 * torch.randn(SIDE, SIDE, generator=own)
        # Augmentation: these draws come from the global generator, which fallow keys by step and micro-batch.
        image = image.roll((int(torch.randint(-2, 3, ())), int(torch.randint(-2, 3, ()))), (0, 1))
        return (image.flip(1) if torch.rand(()) < 0.5 else image)[None], label


def network() -> nn.Module:
    """Two convolutions, each with BatchNorm."""
    return nn.Sequential(
        *(nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.AdaptiveAvgPool2d(2)),
        *(nn.Flatten(), nn.Dropout(0.1), nn.Linear(128, CLASSES)),
    )


def options() -> argparse.Namespace:
    """What can be asked for on the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--loader-workers", type=int, default=1, help="processes that read ahead (default 1)")
    parser.add_argument("--deterministic", action="store_true", help="the same bits at any world size")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--checkpoint", metavar="PATH", help="go on from here, and save here on SIGUSR1")
    parser.add_argument("--save", metavar="PATH", help="write the trained model here")
    parser.add_argument("--pause", type=float, default=0.0, metavar="S", help="sleep so long after each step")
    return parser.parse_args()


def main() -> None:
    """Train, and say how it goes."""
    asked = options()
    torch.manual_seed(0)
    torch.set_num_threads(1)  # sums depend on the number of threads, and runs are to be compared

    job = fallow.connect(asked.device)
    model = network().to(job.device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, asked.steps)
    loader = DataLoader(Shapes(4096), batch_size=64, shuffle=True, num_workers=asked.loader_workers)

    trainer = job.elastic(
        model,
        optimizer,
        global_batch=64,
        max_micro_batch=16,
        schedulers=[scheduler],
        deterministic=asked.deterministic,
        checkpoint=asked.checkpoint,
    )
    for step, batches in trainer.steps(loader, asked.steps):
        for images, labels in batches:
            scores = model(images.to(job.device))
            trainer.backward(nn.functional.cross_entropy(scores, labels.to(job.device)))
        done = trainer.step()
        if done and trainer.rank == 0 and step % 10 == 0:
            speed = f"{trainer.samples_per_s:6.0f} samples/s" if trainer.samples_per_s else ""
            print(f"step {step:5d}   loss {done.loss:.6f}   workers {done.world_size}   {speed}", flush=True)
        time.sleep(asked.pause)
    if asked.save and trainer.rank == 0:
        torch.save(model.state_dict(), asked.save)


if __name__ == "__main__":
    main()

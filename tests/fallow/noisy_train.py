"""A training that draws random numbers wherever trainings do, in loader processes too; all in float32.

Augmentation draws from Python's, torch's and NumPy's generators, the model has dropout and BatchNorm, the
gradient gets noise, the optimizer a scaler and schedulers. What each worker saw goes to OUT.PID a line a
step, the end to OUT.pt.
"""

import functools
import json
import os
import random
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader

import fallow
from fallow.job import Job

STEPS = 60
Sample = tuple[torch.Tensor, torch.Tensor]


class Augmented:
    """The same samples, never seen twice alike."""

    def __init__(self) -> None:
        generator = torch.Generator().manual_seed(3)
        self.x = torch.randn(203, 12, generator=generator)
        self.y = torch.randint(0, 4, (203,), generator=generator)

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, index: int) -> Sample:
        own = np.random.default_rng(torch.initial_seed() + index)  # as docs/elastic-data.md says
        noise = torch.randn(12) * random.random() + float(np.random.rand()) + float(own.random())
        return self.x[index] + 0.1 * noise, self.y[index]


def build() -> tuple[nn.Module, torch.optim.Optimizer, dict[str, Any]]:
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Linear(12, 24), nn.BatchNorm1d(24), nn.ReLU(), nn.Dropout(0.3), nn.Linear(24, 4)
    )  # fmt: skip
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    options = {
        "scaler": torch.amp.GradScaler("cpu", init_scale=2.0**12, growth_interval=5),
        "schedulers": [
            torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.02, total_steps=STEPS),
            torch.optim.lr_scheduler.MultiStepLR(optimizer, [20, 40]),
        ],
        "max_grad_norm": 1.0,
        "on_gradient": add_noise,
    }
    return model, optimizer, options


def add_noise(model: nn.Module) -> None:
    for parameter in model.parameters():
        assert parameter.grad is not None
        parameter.grad.add_(torch.randn_like(parameter), alpha=1e-3)


def note_process(out: Path, worker: int) -> None:
    with Path(f"{out}.loaders").open("a") as file:
        file.write(f"{os.getppid()} {os.getpid()}\n")


def wait_for_gate(step: int, out: Path | None) -> None:
    """The test says how far the training may go: until the workers that it asked for can join, say."""
    gate = Path(f"{out}.gate")
    while out is not None and gate.is_file() and step > int(gate.read_text() or -1):
        time.sleep(0.003)


def train(job: Job, loader_processes: int, out: Path | None = None, **options: Any) -> list[list[Any]]:
    """Of each step that this worker took part in: loss, scale and learning rate, exactly, and the world size.

    The end is left at ``out``.pt.
    """
    model, optimizer, built = build()
    asked: dict[str, Any] = {"deterministic": True, "micro_batches": 6, **built, **options}
    trainer = job.elastic(model, optimizer, global_batch=30, max_micro_batch=5, **asked)
    loader = DataLoader(
        Augmented(),
        num_workers=loader_processes,
        shuffle=True,
        worker_init_fn=functools.partial(note_process, out) if loader_processes and out else None,
    )
    seen: list[list[Any]] = []
    for step, batches in trainer.steps(loader, STEPS):
        wait_for_gate(step, out)
        for x, y in batches:
            with torch.autocast("cpu", dtype=torch.bfloat16):
                loss = nn.functional.cross_entropy(model(x), y)
            trainer.backward(loss)
        done = trainer.step()
        if done is None:
            continue
        scale = built["scaler"].get_scale()
        rate = optimizer.param_groups[0]["lr"]
        seen.append([step, f"{done.loss.hex()} {scale} {rate.hex()}", done.world_size])
        if out is not None:
            with Path(f"{out}.{os.getpid()}").open("a") as file:
                file.write(json.dumps(seen[-1]) + "\n")
    if out is not None and trainer.rank == 0:
        parts = {"model": model, "optimizer": optimizer, "scaler": built["scaler"]}
        torch.save({name: part.state_dict() for name, part in parts.items()}, f"{out}.pt")
    return seen


def main() -> None:
    torch.set_num_threads(1)
    options = {"checkpoint": os.environ["CHECKPOINT"]} if "CHECKPOINT" in os.environ else {}
    train(fallow.connect(), int(os.environ["LOADERS"]), Path(os.environ["OUT"]), **options)


if __name__ == "__main__":
    sys.exit(main())

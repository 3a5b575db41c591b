"""A toy that really trains: a small network on CPUs, elastic over however many toy GPUs it is given.

Each worker keeps the one GPU that it sees busy while it computes. With ``--losses`` rank 0 writes a line of
JSON for each step, to compare a resized training with a fixed one: they are equal to the last bit.

    python -m fallow.controller --min 1 --max 2 -- -m examples.toys.elastic --steps 200 --losses losses.jsonl
"""

import argparse
import json
import os
import time
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import Dataset

import fallow
from examples.toys import toil
from examples.toys.board import DEVICES_VARIABLE, GIB

WIDTH = 16


class Waves(Dataset[tuple[torch.Tensor, torch.Tensor]]):
    """Points of a wave, and what comes next; the same ones every time."""

    def __len__(self) -> int:
        return 512

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        at = torch.arange(index, index + WIDTH + 1, dtype=torch.float64) / 10
        wave = torch.sin(at) + 0.3 * torch.sin(3 * at)
        return wave[:WIDTH], wave[WIDTH:]


def main() -> None:
    """Train, and write down how it goes."""
    parser = argparse.ArgumentParser(prog="elastic")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--pause", type=float, default=0.05, help="seconds to sleep after each step")
    parser.add_argument("--needs", type=float, default=20.0, help="GiB that it takes on each GPU")
    parser.add_argument("--checkpoint", help="go on from here, and save here on SIGUSR1")
    parser.add_argument("--losses", type=Path, help="where rank 0 writes a line for each step")
    parser.add_argument("--compute", type=float, default=0.0, help="seconds that its GPU takes for a batch")
    parser.add_argument("--busy", type=Path, help="a line for each batch: begin and end (steady clock, ns)")
    asked = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(1)

    device = toil.devices_or_end()[0]
    device.allocate(int(asked.needs * GIB))
    toil.say(f"elastic: process {os.getpid()} works on {os.environ.get(DEVICES_VARIABLE, device.uuid)}")
    job = fallow.connect("cpu")
    model = nn.Sequential(nn.Linear(WIDTH, 32), nn.Tanh(), nn.Dropout(0.1), nn.Linear(32, 1)).double()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    trainer = job.elastic(
        model,
        optimizer,
        global_batch=32,
        max_micro_batch=16,
        deterministic=True,
        checkpoint=asked.checkpoint,
    )
    for step, batches in trainer.steps(Waves(), asked.steps):
        device.busy(90)
        for before, after in batches:
            began_ns = time.monotonic_ns()
            trainer.backward(nn.functional.mse_loss(model(before), after))
            time.sleep(asked.compute)
            if asked.busy is not None:
                with asked.busy.open("a") as lines:
                    lines.write(f"{began_ns} {time.monotonic_ns()}\n")
        done = trainer.step()
        if done and trainer.rank == 0 and asked.losses is not None:
            with asked.losses.open("a") as lines:
                row = {"step": step, "loss": done.loss, "world": done.world_size}
                lines.write(json.dumps(row) + "\n")
        time.sleep(asked.pause)


if __name__ == "__main__":
    main()

"""A toy sweep of small trainings on CPUs, for other jobs' idle gaps: it needs only ``fallow.listen()``.

Each setting is trained for some steps, and what is finished is noted, so that a sweep that was sent away goes
on with the next one. With ``--log`` a line tells when each layer began (nanoseconds of the steady clock).

    fallow run --background --memory 4GiB -- python -m examples.toys.sweep --done done.txt
"""

import argparse
import json
import time
from pathlib import Path
from typing import Any

import torch
from torch import nn

import fallow
from examples.toys import toil
from examples.toys.board import GIB

WIDTH = 16


class Noted(nn.Linear):
    """A layer that says when it began; the gate stands before it."""

    began_ns: list[int]

    def forward(self, given: torch.Tensor) -> torch.Tensor:
        """As a plain layer does."""
        self.began_ns.append(time.monotonic_ns())
        return super().forward(given)


def main() -> None:
    """Train one setting after the other."""
    parser = argparse.ArgumentParser(prog="sweep")
    parser.add_argument("--settings", type=int, default=1000, help="how many are tried")
    parser.add_argument("--steps", type=int, default=50, help="of each")
    parser.add_argument("--needs", type=float, default=2.0, help="GiB that it takes on its GPU")
    parser.add_argument("--grows", type=float, default=0.0, help="GiB more that it takes after one setting")
    parser.add_argument("--done", type=Path, required=True, help="a line for each setting that is finished")
    parser.add_argument("--log", type=Path, help="a line for each step: when its layers began")
    asked = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    fallow.listen()

    device = toil.devices_or_end()[0]
    device.allocate(int(asked.needs * GIB))
    finished = len(asked.done.read_text().splitlines()) if asked.done.exists() else 0
    toil.say(f"sweep: {finished} of {asked.settings} settings are done")
    for setting in range(finished, asked.settings):
        loss = train(10 ** -(1 + setting % 4), asked.steps, asked.log)
        with asked.done.open("a") as lines:
            lines.write(f"{setting} {loss:.4f}\n")
        if setting == finished and asked.grows:
            device.allocate(int(asked.grows * GIB))


def train(rate: float, steps: int, log: Path | None) -> float:
    """One setting's loss in the end."""
    layers: list[Any] = [Noted(WIDTH, 32), nn.Tanh(), Noted(32, 1)]
    began_ns: list[int] = []
    layers[0].began_ns = layers[2].began_ns = began_ns
    model = nn.Sequential(*layers)
    optimizer = torch.optim.SGD(model.parameters(), lr=rate)
    loss = torch.zeros(())
    for _ in range(steps):
        given = torch.randn(32, WIDTH)
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(given), given.mean(1, keepdim=True))
        loss.backward()
        optimizer.step()
        if log is not None:
            with log.open("a") as lines:
                lines.write(json.dumps(began_ns) + "\n")
        began_ns.clear()
    return loss.item()


if __name__ == "__main__":
    main()

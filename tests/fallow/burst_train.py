"""A training by burst plans, as a script. OUT.PID gets a line (step, loss) a step, OUT.pt the end; what else
happens to it is the tests' to do."""

import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

import fallow
from fallow import burst
from fallow.burst.layers import layers_in_a_row
from fallow.burst.plan import Placement, Plan, Predicted
from fallow.trainer import Trainer
from tests.fallow.crew import task

STEPS, BATCH = 30, 48
PLACED = {
    2: [(0, 2), (0, 2), (0, 1), (0, 1), (1, 1)],
    3: [(0, 3), (0, 3), (1, 2), (1, 2), (0, 1)],
    4: [(0, 4), (0, 2), (0, 2), (2, 1), (2, 2)],
}
"""For each number of ranks, (first rank, ranks) of each layer."""

NOTHING = Predicted(time_us=1.0, gpu_time_us=1.0)


def plan_of(
    model: nn.Module, placed: Sequence[tuple[int, int]], world: int, batch: int, verdict: str = "bursts"
) -> Plan:
    """A plan with (first rank, ranks) for each layer; what it predicts doesn't matter here."""
    titles = [title for title, _ in layers_in_a_row(model)]
    return Plan(
        model="tried",
        gpus=world,
        global_batch=batch,
        network="none",
        overlap=False,
        placements=tuple(
            Placement(t, first, ranks) for t, (first, ranks) in zip(titles, placed, strict=True)
        ),
        predicted=NOTHING,
        busy_us=(1.0,) * world,
        aim="time",
        bound=1.0,
        one_gpu=NOTHING,
        uniform_gpus=1,
        uniform=NOTHING,
        verdict=verdict,
    )


def built() -> nn.Sequential:
    """The same numbers in every process, without torch's global generator, which threads share."""
    model = nn.Sequential(
        nn.Linear(12, 20), nn.Tanh(), nn.Linear(20, 16), nn.Tanh(), nn.Linear(16, 4)
    ).double()
    made = torch.Generator().manual_seed(5)
    for parameter in model.parameters():
        parameter.data = torch.randn(parameter.shape, generator=made, dtype=torch.float64) / 4
    return model


def train(
    environment: Mapping[str, str],
    plans: list[Plan],
    note: Callable[[Any, bool], None],
    *,
    after_step: Callable[[Trainer], None] = lambda trainer: None,
    **recipe: Any,
) -> dict[str, torch.Tensor]:
    """The state at the end. ``note`` gets each committed step, and whether it was by a plan."""
    asked = {"global_batch": BATCH, "max_micro_batch": BATCH, "max_grad_norm": 1.0, **recipe}
    model = burst.module(built(), plans, nn.CrossEntropyLoss())
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    trainer = fallow.connect(environment=environment).elastic(model, optimizer, **asked)
    for _, batches in trainer.steps(task(), STEPS):
        for x, y in batches:
            loss, count = model(x, y)
            trainer.backward(loss, count=count)
        by_plan, done = model.bursts, trainer.step()
        if done is not None:
            note(done, by_plan)
            after_step(trainer)
    return {name: value.clone() for name, value in model.state_dict().items()}


def every_plan() -> list[Plan]:
    """One for each number of ranks in PLACED."""
    return [plan_of(built(), placed, world, BATCH) for world, placed in PLACED.items()]


def main() -> None:
    out, pace_s = os.environ["OUT"], float(os.environ["PACE_S"])
    with Path(f"{out}.{os.getpid()}").open("a") as lines:

        def note(done: Any, by_plan: bool) -> None:
            lines.write(json.dumps([done.number, done.loss, by_plan, done.world_size]) + "\n")
            lines.flush()
            time.sleep(pace_s)

        state = train(os.environ, every_plan(), note)
    torch.save(state, f"{out}.{os.getpid()}.pt")


if __name__ == "__main__":
    main()

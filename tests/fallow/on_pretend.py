"""A script for test_pretend: what trainings on the pretend device came to, as one JSON line.

TEST_DEVICE=pretend python -m tests.fallow.on_pretend trainings
"""

import json
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

import fallow
from fallow.gradients import choosing
from tests.fallow import devices, pretend
from tests.fallow.crew import Outcome, run, training

STEPS = 6
WAYS: dict[str, dict[str, Any]] = {
    "alone": {},
    "alone, clipped": {"max_grad_norm": 1.0},
    "in a world of one that may grow": {"driven": True},
    "the same, clipped": {"driven": True, "max_grad_norm": 1.0},
    "alone, deterministic": {"deterministic": True},
    "deterministic, in a world of one that may grow": {"driven": True, "deterministic": True},
}


def network() -> nn.Module:
    """One with everything that is more than a matrix: running statistics, dropout, a table, a counter."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.2), nn.Linear(8, 2))
    net.register_buffer("mask", torch.tril(torch.ones(3, 3, dtype=torch.bool)))
    return net


def task() -> torch.utils.data.Dataset[tuple[torch.Tensor, ...]]:
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(160, 4, generator=generator)
    return torch.utils.data.TensorDataset(x, torch.randint(0, 2, (160,), generator=generator))


def train(device: str, *, driven: bool = False, **options: Any) -> list[str]:
    """The losses of a training, exactly, and a sum over its parameters."""
    own = choosing.reducer
    if driven:  # as under a controller, which would take processes

        def resized(*arguments: Any, **named: Any) -> Any:
            return own(*arguments, **{**named, "resized": True})

        choosing.reducer = resized
    try:
        net = network().to(device)
        trainer = fallow.connect(device, environment={}).elastic(
            net, torch.optim.AdamW(net.parameters()), global_batch=16, max_micro_batch=8, seed=3, **options
        )
        learned = []
        for _, batches in trainer.steps(task(), STEPS):
            for x, y in batches:
                trainer.backward(nn.functional.cross_entropy(net(x.to(device)), y.to(device)))
            done = trainer.step()
            assert done is not None
            learned.append(done)
    finally:
        choosing.reducer = own
    state = {name: value.cpu() for name, value in net.state_dict().items()}
    return [step.loss.hex() for step in learned] + [
        float(value.double().sum()).hex() for value in state.values()
    ]


def trainings() -> list[dict[str, Any]]:
    """Every way on both devices, to the bit."""
    return [
        {"name": name, "cpu": train("cpu", **way), "pretend": train(pretend.NAME, **way)}
        for name, way in WAYS.items()
    ]


def resized() -> dict[str, Any]:
    """A training that grows and shrinks, beside one on the CPU that stays alone."""
    steps = 24
    done = run(training(steps, each_step=lambda: time.sleep(0.01)), 1, {2: 3, 10: 2})
    reference = Outcome()
    training(steps, device="cpu")({}, reference)
    assert reference.parameters is not None
    return {
        "exit_code": done.exit_code,
        "journal": done.journal,
        "worlds": sorted({step.world_size for outcome in done.outcomes for step in outcome.steps}),
        "finished": len(done.finished),
        "furthest": max(
            float((value - reference.parameters[name]).abs().max())
            for outcome in done.finished
            for name, value in (outcome.parameters or {}).items()
        ),
    }


def main() -> None:
    torch.set_num_threads(1)
    assert devices.NAME == pretend.NAME
    parts: dict[str, Callable[[], Any]] = {"trainings": trainings, "resized": resized}
    print(json.dumps(parts[sys.argv[1]]()))


if __name__ == "__main__":
    sys.exit(main())

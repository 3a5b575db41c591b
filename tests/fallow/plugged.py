"""What the trainings in plug-in tests share: a task in float64, and the plain loop that they must equal."""

import json
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from fallow.data.sampler import Order

SAMPLES, BATCH, CAP, EPOCHS = 203, 32, 5, 30
STEPS_PER_EPOCH = -(-SAMPLES // BATCH)
LIMIT, GAMMA, RATE = 0.05, 0.995, 3e-2
PAUSE_S = 0.01
ELASTIC = {"deterministic": "DETERMINISTIC" in os.environ, "checkpoint": os.environ.get("CHECKPOINT")}


def task() -> torch.utils.data.TensorDataset:
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(SAMPLES, 12, generator=generator, dtype=torch.float64)
    return torch.utils.data.TensorDataset(x, torch.randint(0, 4, (SAMPLES,), generator=generator))


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(12, 24), nn.Tanh(), nn.Linear(24, 4)).double()


@dataclass(frozen=True)
class Learned:
    """Losses by step, and the final parameters."""

    losses: dict[int, float]
    parameters: dict[str, torch.Tensor]
    rates: dict[int, float]


def plain_loop(epochs: int = EPOCHS) -> Learned:
    """The same training without Fallow, frameworks or accumulation."""
    data, model = task(), network()
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, GAMMA)
    order = Order(samples=SAMPLES, global_batch=BATCH, seed=0)
    losses, rates = {}, {}
    for step in range(epochs * STEPS_PER_EPOCH):
        start = step % STEPS_PER_EPOCH * BATCH
        x, y = data[torch.as_tensor(order.permutation(order.epoch(step)))[start : start + BATCH]]
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), LIMIT)
        rates[step] = optimizer.param_groups[0]["lr"]
        optimizer.step()
        scheduler.step()
        losses[step] = loss.item()
    return Learned(losses, dict(model.state_dict()), rates)


class Diary:
    """A line a step in OUT, written by whoever is rank 0 then; the final parameters in OUT.pt."""

    def __init__(self) -> None:
        self.path = Path(os.environ["OUT"])

    def note(self, step: int, loss: float, world_size: int, rate: float, **more: Any) -> None:
        with self.path.open("a") as lines:
            line = {"step": step, "loss": loss, "world_size": world_size, "rate": rate, **more}
            lines.write(json.dumps(line) + "\n")
        time.sleep(PAUSE_S)

    def end(self, model: nn.Module) -> None:
        torch.save(model.state_dict(), f"{self.path}.pt")


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def assert_equals_plain_loop(path: Path, epochs: int = EPOCHS, tolerance: float = 1e-12) -> None:
    """Every step was taken with the plain loop's loss and learning rate, and the same was learned."""
    lines, reference = lines_of(path), plain_loop(epochs)
    assert {line["step"] for line in lines} == set(range(epochs * STEPS_PER_EPOCH))
    for line in lines:
        assert abs(line["loss"] - reference.losses[line["step"]]) < tolerance, line
        assert abs(line["rate"] - reference.rates[line["step"]]) < tolerance, line
    for name, value in torch.load(f"{path}.pt").items():
        assert torch.allclose(value, reference.parameters[name], rtol=0, atol=tolerance), name


def assert_same_bits(path: Path, other: Path, *, killed: int = 0) -> None:
    """Two diaries tell of the same losses and rates, and of the same end, to the bit.

    For each of ``killed`` workers one line may be missing from the first: the writer has taken a step and
    dies before its line, or another's death keeps it from a step that the rest took, and it is handed that.
    """
    told = [{line["step"]: (line["loss"], line["rate"]) for line in lines_of(each)} for each in (path, other)]
    unlike = {step: (said, told[1].get(step)) for step, said in told[0].items() if told[1].get(step) != said}
    assert not unlike
    missing = told[1].keys() - told[0].keys()
    assert len(missing) <= killed, sorted(missing)
    ends = [torch.load(f"{each}.pt") for each in (path, other)]
    assert all(torch.equal(value, ends[1][name]) for name, value in ends[0].items())

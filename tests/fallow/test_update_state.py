"""What an optimizer keeps is taken up as it was, in each tensor's own dtype."""

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed; pip install -c constraints.txt torch")

from fallow.state import checkpoint  # noqa: E402
from fallow.state.replica import Replica  # noqa: E402
from fallow.types import Recipe  # noqa: E402

pytestmark = pytest.mark.quick

nn = torch.nn
RECIPE = Recipe(global_batch=4, max_micro_batch=4)


class Nested(torch.optim.SGD):
    """Keeps wide sums for narrow weights, in a list within its state as well."""

    def step(self, closure: Any = None) -> None:
        for group in self.param_groups:
            for parameter in group["params"]:
                state = self.state[parameter]
                state.setdefault("total", torch.zeros_like(parameter, dtype=torch.float32))
                state.setdefault("parts", [torch.zeros((), dtype=torch.float64), {"n": torch.zeros(1)}])
                state["total"] += parameter.grad.float()
                state["parts"][0] += parameter.grad.double().sum()
                state["parts"][1]["n"] += 1 / 3
                parameter.data.sub_(0.01 * state["total"].to(parameter.dtype))
                parameter.data.sub_(0.01 * state["parts"][0].to(parameter.dtype) * state["parts"][1]["n"])


OPTIMIZERS = {
    "NAdam": (torch.optim.NAdam, torch.float64),
    "ASGD": (torch.optim.ASGD, torch.float64),
    "AdamW": (torch.optim.AdamW, torch.float64),
    "Rprop": (torch.optim.Rprop, torch.float64),
    "wide": (Nested, torch.float16),
}


def replica(name: str) -> Replica:
    torch.manual_seed(0)
    kind, dtype = OPTIMIZERS[name]
    model = nn.Linear(5, 3).to(dtype)
    return Replica(model, kind(model.parameters(), lr=0.01), RECIPE)


def train(worker: Replica, steps: int) -> None:
    for _ in range(steps):
        generator = torch.Generator().manual_seed(worker.next_step)
        for parameter in worker.model.parameters():
            parameter.grad = torch.randn(parameter.shape, generator=generator).to(parameter.dtype)
        worker.update(0.0)


def assert_same(one: Any, other: Any) -> None:
    assert type(one) is type(other)
    if isinstance(one, torch.Tensor):
        assert one.dtype == other.dtype
        assert torch.equal(one, other)
    elif isinstance(one, dict):
        assert one.keys() == other.keys()
        for key in one:
            assert_same(one[key], other[key])
    elif isinstance(one, list | tuple):
        for mine, theirs in zip(one, other, strict=True):
            assert_same(mine, theirs)
    else:
        assert one == other


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_resumed_training_goes_on_with_the_same_bits(name: str, tmp_path: Path) -> None:
    whole, first, second = replica(name), replica(name), replica(name)
    train(whole, 12)
    train(first, 5)
    checkpoint.save(tmp_path / "state.pt", first.state())
    second.load(checkpoint.load(tmp_path / "state.pt", first.device))
    assert_same(second.optimizer.state_dict(), first.optimizer.state_dict())
    train(second, 7)
    assert_same(second.state(), whole.state())

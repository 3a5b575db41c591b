"""Where gates stand in a model and an optimizer of torch, and that a step in parts is the same step."""

import copy
from collections.abc import Callable, Collection, Hashable, Iterator

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from torch import nn  # noqa: E402

from fallow.idle_gaps import hooks  # noqa: E402

pytestmark = pytest.mark.quick


class Gates:
    """All pieces last as long as told; writes down what passes."""

    def __init__(self) -> None:
        self.passed: list[Hashable] = []
        self.devices: list[set[torch.device]] = []
        self.steps = 0
        self.lasts_s: float | None = None
        self.fails_at = -1

    def pass_through(self, name: Hashable, devices: Collection[torch.device] = ()) -> None:
        if len(self.passed) == self.fails_at:
            raise RuntimeError("out of memory")
        self.passed.append(name)
        self.devices.append(set(devices))

    def usual_s(self, name: Hashable) -> float | None:
        return self.lasts_s

    def end_step(self) -> None:
        self.steps += 1

    def kinds(self) -> list[str]:
        return [name[0] for name in self.passed if isinstance(name, tuple)]


@pytest.fixture
def gates() -> Iterator[Gates]:
    made = Gates()
    take_away = hooks.put(made)
    yield made
    take_away()


def a_model() -> nn.Sequential:
    torch.manual_seed(0)
    inner = nn.Sequential(nn.Linear(8, 8), nn.ReLU(inplace=True))
    return nn.Sequential(nn.Linear(4, 8), inner, nn.LayerNorm(8), nn.Linear(8, 2)).double()


def trained(model: nn.Module, optimizer: torch.optim.Optimizer, steps: int) -> None:
    draw = torch.Generator().manual_seed(1)
    for _ in range(steps):
        optimizer.zero_grad()
        model(torch.randn(5, 4, generator=draw, dtype=torch.float64)).square().mean().backward()
        optimizer.step()


def test_gates_stand_before_layers_gradients_and_the_optimizers_step(gates: Gates) -> None:
    model = a_model()
    trained(model, torch.optim.SGD(model.parameters(), lr=0.1), 2)
    assert gates.kinds() == (["layer"] * 5 + ["gradient"] * 4 + ["optimizer"]) * 2
    assert gates.steps == 2


def test_a_frozen_layer_has_a_gate_after_its_gradient_once_it_is_thawed(gates: Gates) -> None:
    model = a_model()
    model.requires_grad_(False)
    model[3].requires_grad_(True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    trained(model, optimizer, 1)
    assert gates.kinds().count("gradient") == 1
    model.requires_grad_(True)
    gates.passed.clear()
    trained(model, optimizer, 1)
    assert gates.kinds().count("gradient") == 4


MAKERS: list[Callable[..., torch.optim.Optimizer]] = [
    lambda groups: torch.optim.SGD(groups, lr=0.1, momentum=0.9),
    lambda groups: torch.optim.Adam(groups, lr=0.1, amsgrad=True),
    lambda groups: torch.optim.AdamW(groups, lr=0.1, foreach=True),
    lambda groups: torch.optim.AdamW(groups, lr=0.1, fused=True),
    lambda groups: torch.optim.RMSprop(groups, lr=0.1, momentum=0.9, centered=True),
    lambda groups: torch.optim.Adagrad(groups, lr=0.1),
    lambda groups: torch.optim.NAdam(groups, lr=0.1),
    lambda groups: torch.optim.RAdam(groups, lr=0.1),
    lambda groups: torch.optim.Adamax(groups, lr=0.1),
]


@pytest.mark.parametrize("make", MAKERS)
def test_a_step_in_parts_is_the_same_step(make: Callable[..., torch.optim.Optimizer]) -> None:
    found = []
    for in_parts in (False, True):
        model, gates = a_model(), Gates()
        gates.lasts_s = 0.004
        half = list(model.parameters())
        optimizer = make([{"params": half[:3], "lr": 0.03}, {"params": half[3:]}])
        schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
        take_away = hooks.put(gates) if in_parts else lambda: None
        try:
            for _ in range(4):
                trained(model, optimizer, 1)
                schedule.step()
        finally:
            take_away()
        if in_parts:
            assert gates.kinds().count("optimizer") >= 4 * 5
        found.append((model.state_dict(), optimizer.state_dict()))
    (parameters, state), (other_parameters, other_state) = found
    for name, values in parameters.items():
        torch.testing.assert_close(values, other_parameters[name], rtol=1e-12, atol=0)
    assert state["param_groups"] == other_state["param_groups"]
    assert state["state"].keys() == other_state["state"].keys()
    for number, kept in state["state"].items():
        for name, value in kept.items():
            torch.testing.assert_close(value, other_state["state"][number][name], rtol=1e-12, atol=0)


def test_a_short_step_stays_whole_and_a_long_one_does_not(gates: Gates) -> None:
    model = a_model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    for lasts_s, parts in ((None, 1), (hooks.PART_S, 1), (4 * hooks.PART_S, 4)):
        gates.lasts_s = lasts_s
        gates.passed.clear()
        optimizer.step()
        assert abs(gates.kinds().count("optimizer") - parts) <= 1
    assert len(optimizer.param_groups) == 1


def test_an_optimizer_that_fails_amid_its_step_is_left_as_it_was(gates: Gates) -> None:
    model = a_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    gates.lasts_s = 0.01
    trained(model, optimizer, 1)
    before = copy.deepcopy(optimizer.state_dict())
    gates.passed.clear()
    gates.fails_at = 2
    with pytest.raises(RuntimeError, match="out of memory"):
        optimizer.step()
    assert optimizer.state_dict() == before


def test_nothing_is_taken_for_granted_of_other_optimizers(gates: Gates) -> None:
    class Own(torch.optim.SGD):
        """Its step might look at all parameters at once."""

    model = a_model()
    gates.lasts_s = 1.0
    Own(model.parameters(), lr=0.1).step()
    optimizer = torch.optim.LBFGS(model.parameters())
    optimizer.step(lambda: model(torch.ones(1, 4, dtype=torch.float64)).sum())
    assert gates.kinds().count("optimizer") == 2
    assert gates.steps == 2


def test_a_closure_is_called_once(gates: Gates) -> None:
    model, calls = a_model(), []
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    gates.lasts_s = 0.004
    loss = optimizer.step(lambda: calls.append(1) or torch.tensor(3.0))
    assert float(loss) == 3
    assert calls == [1]


def test_a_gate_is_told_on_which_devices_a_piece_will_run(gates: Gates) -> None:
    """``meta`` stands for a second GPU: its layers compute nothing."""
    first, second = nn.Linear(4, 4), nn.Sequential(nn.ReLU(), nn.Linear(4, 2)).to("meta")
    first(torch.ones(1, 4))
    second(torch.ones(1, 4, device="meta")).sum().backward()
    for parameter in second.parameters():
        parameter.grad = None
    torch.optim.SGD([*first.parameters(), *second.parameters()], lr=0.1).step()
    cpu, meta = torch.device("cpu"), torch.device("meta")
    assert gates.kinds() == ["layer"] * 3 + ["gradient", "optimizer"]
    assert gates.devices == [{cpu}, {meta}, {meta}, {meta}, {cpu, meta}]

"""A model that runs by burst plans trains as one rank does, whatever the plan."""

from collections.abc import Sequence
from copy import deepcopy

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from fallow import burst
from fallow.burst.bursts import BurstModule
from fallow.burst.layers import layers_in_a_row
from fallow.burst.plan import BadPlan, Plan
from fallow.errors import LossError
from fallow.process_group.collectives import Group
from tests.fallow.burst_train import plan_of
from tests.fallow.ranks import together
from tests.searches import examples

MODEL = nn.Sequential(
    nn.Sequential(nn.Conv2d(1, 3, 3), nn.ReLU(inplace=True), nn.Flatten()),
    nn.Linear(48, 7),
    nn.Tanh(),
    nn.Linear(7, 4),
).double()


def small_model() -> nn.Sequential:
    """A copy: ranks are threads here, which share torch's generator."""
    return deepcopy(MODEL)


LAYERS = len(layers_in_a_row(small_model()))
criterion = nn.CrossEntropyLoss()


def data(batch: int) -> tuple[torch.Tensor, torch.Tensor]:
    made = torch.Generator().manual_seed(batch)
    x = torch.randn(batch, 1, 6, 6, dtype=torch.float64, generator=made)
    return x, torch.randint(4, (batch,), generator=made)


def alone(batch: int, steps: int) -> tuple[list[float], list[torch.Tensor]]:
    """Losses and parameters of one rank that has the whole batch."""
    model = small_model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.05)
    x, y = data(batch)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, [parameter.detach() for parameter in model.parameters()]


def by_plan(
    group: Group, plan: Plan, counts: Sequence[int], steps: int
) -> tuple[list[float], list[torch.Tensor]]:
    """The same by one rank of several: gradients are summed over all of them, as the trainer does."""
    model = small_model()
    bursts = burst.module(model, plan, criterion)
    optimizer = torch.optim.AdamW(bursts.parameters(), lr=0.05)
    x, y = data(sum(counts))
    start = sum(counts[: group.rank])
    mine = slice(start, start + counts[group.rank])
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        bursts.enter(group, counts)
        loss, count = bursts(x[mine].clone(), y[mine])
        part = loss * count / sum(counts)
        (part if count else loss).backward()
        for parameter in bursts.parameters():
            parameter.grad = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
            group.all_reduce([parameter.grad.view(-1)])
        whole = part.detach().clone().reshape(1)
        group.all_reduce([whole])
        optimizer.step()
        losses.append(whole.item())
    return losses, [parameter.detach() for parameter in bursts.parameters()]


@st.composite
def planned(draw: st.DrawFn) -> tuple[int, list[tuple[int, int]], list[int]]:
    """A world, where each layer is, and how many samples each rank is given."""
    world = draw(st.integers(2, 4))
    placed = []
    for _ in range(LAYERS):
        first = draw(st.integers(0, world - 1))
        placed.append((first, draw(st.integers(1, world - first))))
    return world, placed, draw(st.lists(st.integers(1, 4), min_size=world, max_size=world))


@pytest.mark.slow
@given(planned())
@settings(max_examples=examples(15, 40))
def test_every_plan_trains_as_one_rank_does(made: tuple[int, list[tuple[int, int]], list[int]]) -> None:
    world, placed, counts = made
    plan = plan_of(small_model(), placed, world, sum(counts))
    losses, parameters = alone(sum(counts), 3)
    for came in together(world, lambda group: by_plan(group, plan, counts, 3)):
        assert not isinstance(came, BaseException), came
        assert came[0] == pytest.approx(losses, rel=1e-12, abs=1e-12)
        for own, one in zip(came[1], parameters, strict=True):
            torch.testing.assert_close(own, one, rtol=1e-12, atol=1e-12)


@pytest.mark.quick
def test_a_head_on_one_rank_of_three() -> None:
    plan = plan_of(small_model(), [(0, 3)] * (LAYERS - 1) + [(1, 1)], 3, 6)
    losses, _ = alone(6, 2)
    came = together(3, lambda group: by_plan(group, plan, (2, 1, 3), 2))
    assert [each[0] for each in came] == [pytest.approx(losses, rel=1e-12)] * 3  # type: ignore[index]


@pytest.mark.quick
def test_names_in_a_state_are_the_models_and_evaluation_runs_here() -> None:
    model = small_model()
    bursts = burst.module(model, [], criterion)
    assert list(bursts.state_dict()) == list(model.state_dict())
    x, y = data(5)
    assert torch.equal(bursts(x), model(x))
    loss, count = bursts(x, y)
    assert (loss.item(), count) == (criterion(model(x), y).item(), 5)
    bursts.eval()
    assert not model[0].training


class Kept(nn.Module):
    """A group of which only the size is asked."""

    rank, world_size = 0, 2


def entered(model: nn.Module, plan: Plan, counts: Sequence[int]) -> BurstModule:
    bursts = burst.module(model, plan, criterion)
    bursts.enter(Kept(), counts)  # type: ignore[arg-type]
    return bursts


@pytest.mark.quick
def test_a_plan_that_does_not_fit_is_refused_with_what_to_do() -> None:
    model, everywhere = small_model(), [(0, 2)] * LAYERS
    fits = plan_of(model, everywhere, 2, 4)
    other = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    with pytest.raises(BadPlan, match=r"not of this model.*'0 Linear'.*Profile and plan"):
        burst.module(model, plan_of(other, [(0, 2), (0, 1)], 2, 4), criterion)
    with pytest.raises(BadPlan, match="two plans are for 2 ranks"):
        burst.module(model, [fits, fits], criterion)
    with pytest.raises(BadPlan, match="global batch of 4, but this training's has 6: plan again"):
        burst.module(model, fits, criterion).check(6)


@pytest.mark.quick
def test_a_plan_that_does_not_pay_and_a_world_without_one_run_all_layers() -> None:
    model = small_model()
    uniform = plan_of(model, [(0, 1)] * LAYERS, 2, 4, verdict="uniform")
    assert not entered(model, uniform, (2, 2)).bursts
    assert not entered(model, plan_of(model, [(0, 1)] * LAYERS, 3, 4), (2, 2)).bursts
    pays = plan_of(model, [(0, 1)] * LAYERS, 2, 4)
    assert entered(model, pays, (2, 2)).bursts
    assert not entered(model, pays, (1, 0)).bursts, "rank 1 has nothing to call it with in this step"


@pytest.mark.quick
def test_running_statistics_of_some_ranks_are_refused() -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3))
    burst.module(model, plan_of(model, [(0, 1), (0, 2)], 2, 4), criterion)
    with pytest.raises(BadPlan, match=r"'1 BatchNorm1d' keeps running statistics.*GroupNorm"):
        burst.module(model, plan_of(model, [(0, 2), (0, 1)], 2, 4), criterion)


@pytest.mark.quick
def test_autocast_is_refused() -> None:
    bursts = entered(small_model(), plan_of(small_model(), [(0, 1)] * LAYERS, 2, 4), (2, 2))
    x, y = data(2)
    with torch.autocast("cpu"), pytest.raises(LossError, match="autocast"):
        bursts(x, y)


@pytest.mark.quick
def test_a_rank_that_is_gone_frees_the_others_and_breaks_the_group() -> None:
    plan = plan_of(small_model(), [(0, 2)] * (LAYERS - 1) + [(1, 1)], 2, 4)

    def run(group: Group) -> object:
        if group.rank == 1:
            group.abort()
            return None
        bursts = burst.module(small_model(), plan, criterion)
        bursts.enter(group, (2, 2))
        x, y = data(2)
        loss, count = bursts(x, y)
        loss.backward()
        with pytest.raises(Exception, match="abort"):
            group.all_reduce([torch.zeros(1)])
        return count

    assert together(2, run) == [0, None]

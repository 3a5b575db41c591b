"""The gradient is the one-GPU gradient, for every batch, cap, world size and weights: a property."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch", reason="torch is not installed; pip install -c constraints.txt torch")

from fallow.data.batch_plan import BatchPlan  # noqa: E402
from fallow.data.step import OpenStep  # noqa: E402
from fallow.gradients.deterministic import Tree  # noqa: E402
from fallow.gradients.overlapped import Plain  # noqa: E402
from fallow.gradients.reducer import Local  # noqa: E402
from fallow.process_group.collectives import Group  # noqa: E402
from fallow.types import Recipe  # noqa: E402
from tests.fallow.ranks import together  # noqa: E402
from tests.fallow.weights import costs_of  # noqa: E402

pytestmark = pytest.mark.quick

nn = torch.nn
Case = tuple[Recipe, int, tuple[float, ...] | None, tuple[int, ...] | None]
Learned = tuple[float, list["torch.Tensor"]]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """A recipe, a world, weights of its ranks or none, and a number of items in each sample or none."""
    global_batch = draw(st.integers(1, 40))
    recipe = Recipe(
        global_batch=global_batch, max_micro_batch=draw(st.integers(1, 40)), deterministic=draw(st.booleans())
    )
    world = draw(st.integers(1, 5))
    weights = draw(st.none() | st.lists(st.floats(0.1, 10), min_size=world, max_size=world).map(tuple))
    counts = st.lists(st.integers(0, 9), min_size=global_batch, max_size=global_batch).filter(any).map(tuple)
    return recipe, world, weights, draw(st.none() | counts)


def network() -> "torch.nn.Module":
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 1)).double()


def loss_over(
    model: "torch.nn.Module", start: int, stop: int, counts: tuple[int, ...] | None
) -> "torch.Tensor":
    """The mean over the samples, or over their items, which all have the same loss in a sample."""
    x = torch.randn(40, 3, generator=torch.Generator().manual_seed(5), dtype=torch.float64)[start:stop]
    losses = model(x).square().squeeze(1)
    if counts is None:
        return losses.mean()
    items = torch.tensor(counts[start:stop], dtype=torch.float64)
    return (losses * items).sum() / items.sum()


def whole(case: Case) -> Learned:
    """One forward and backward pass over the whole batch."""
    recipe, _, _, counts = case
    model = network()
    loss = loss_over(model, 0, recipe.global_batch, counts)
    loss.backward()
    return loss.item(), [parameter.grad for parameter in model.parameters()]


def shared(case: Case, group: Group, model: "torch.nn.Module") -> Learned:
    """One rank's part, as the trainer does it, and what it has after the sum."""
    recipe, world, weights, counts = case
    cut = BatchPlan(recipe=recipe, world_size=world, rank=group.rank, costs=costs_of(weights))
    shape = cut.shape(recipe.global_batch)
    opened = OpenStep(0, shape, cut.mine(shape))
    reducer = (
        Tree(model, group, 0)
        if recipe.deterministic
        else Plain(model, group, 0)
        if world > 1
        else Local(model)
    )
    reducer.begin()
    for micro in opened.mine:
        assert micro.size <= recipe.max_micro_batch
        opened.hand_out(micro)
        reducer.begin_micro_batch(micro is opened.mine[-1])
        count = None if counts is None else sum(counts[micro.start : micro.stop])
        part = opened.weigh(count)
        weighted = torch.zeros((), dtype=torch.float64)
        if count != 0:
            weighted = loss_over(model, micro.start, micro.stop, counts) * part.weight
            weighted.backward()
        reducer.end_micro_batch(micro.index, part.fraction, weighted.detach(), part.count)
    opened.close()
    summed = reducer.finish(shape.blocks, [])
    scale = opened.scale(summed.count, summed.counted)
    return summed.loss * scale, [parameter.grad * scale for parameter in model.parameters()]


@given(cases())
@settings(deadline=None, max_examples=50)
def test_the_gradient_is_the_one_gpu_gradient_for_every_world(case: Case) -> None:
    loss, gradients = whole(case)
    models = [network() for _ in range(case[1])]  # threads share the generator that builds them
    for learned in together(case[1], lambda group: shared(case, group, models[group.rank])):
        if isinstance(learned, BaseException):
            raise learned
        assert learned[0] == pytest.approx(loss, rel=0, abs=1e-13)
        for mine, theirs in zip(learned[1], gradients, strict=True):
            torch.testing.assert_close(mine, theirs, rtol=0, atol=1e-13)

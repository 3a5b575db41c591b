"""Sums in buckets, begun while the backward pass runs, equal the plain sum of all workers' gradients."""

import threading
from collections.abc import Callable

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed; pip install -c constraints.txt torch")

from torch import nn  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402

from fallow.gradients.deterministic import Tree  # noqa: E402
from fallow.gradients.overlapped import Plain  # noqa: E402
from fallow.process_group.collectives import Alone, Group, GroupBroken, Work  # noqa: E402
from tests.fallow.ranks import together  # noqa: E402

pytestmark = pytest.mark.quick

SMALL_BUCKET = 600
BLOCKS = {1: [(0, 5)], 2: [(0, 3), (3, 5)], 3: [(0, 2), (2, 4), (4, 5)], 4: [(0, 2), (2, 4), (4, 5), (0, 0)]}
Uses = Callable[[nn.Module, int], torch.Tensor]


class Odd(nn.Module):
    """Everything that has been seen to trouble bucketing, float64 and small."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first = nn.Linear(8, 16).double()
        self.tied = nn.Linear(8, 16).double()
        self.tied.weight = self.first.weight
        self.transposed = nn.Parameter(torch.randn(16, 12, dtype=torch.float64).t())
        self.empty = nn.Parameter(torch.zeros(0, 3, dtype=torch.float64))
        self.huge = nn.Parameter(torch.randn(12, 300, dtype=torch.float64))  # many times a bucket
        self.never = nn.Parameter(torch.zeros(7, dtype=torch.float64))
        self.sometimes = nn.Parameter(torch.ones(12, dtype=torch.float64))
        self.frozen = nn.Parameter(torch.ones(12, dtype=torch.float64), requires_grad=False)
        self.single = nn.Linear(300, 3)  # float32 among float64
        self.scale = nn.Parameter(torch.tensor(1.5, dtype=torch.complex128))
        self.norm = nn.BatchNorm1d(16).double()

    def forward(self, x: torch.Tensor, index: int) -> torch.Tensor:
        hidden = self.norm(torch.tanh(self.first(x) + self.tied(x)))
        out = hidden @ self.transposed.t() * self.frozen + self.empty.sum()
        if index % 3 == 2:
            out = out * self.sometimes
        out = self.single((out @ self.huge).float()).double()
        return (out * (self.scale * self.scale.conj()).real).pow(2).mean()


def samples(index: int) -> torch.Tensor:
    return torch.randn(4, 8, generator=torch.Generator().manual_seed(index), dtype=torch.float64)


def loss_of(model: nn.Module, index: int) -> torch.Tensor:
    return model(samples(index), index)


def compute(reducer: Plain | Tree, model: nn.Module, block: tuple[int, int], uses: Uses = loss_of) -> None:
    reducer.begin()
    for index in range(*block):
        reducer.begin_micro_batch(index == block[1] - 1)
        loss = uses(model, index) * 0.2
        loss.backward()
        reducer.end_micro_batch(index, 0.2, loss.detach(), 1.0)


def gradients(model: nn.Module) -> dict[str, torch.Tensor | None]:
    return {name: None if p.grad is None else p.grad.clone() for name, p in model.named_parameters()}


def expected(build: Callable[[], nn.Module], uses: Uses = loss_of) -> dict[str, torch.Tensor | None]:
    model = build()
    for index in range(5):
        (uses(model, index) * 0.2).backward()
    return gradients(model)


def assert_close(found: dict[str, torch.Tensor | None], wanted: dict[str, torch.Tensor | None]) -> None:
    assert found.keys() == wanted.keys()
    for name, value in wanted.items():
        mine = found[name]
        assert (mine is None) == (value is None), name
        if value is not None and mine is not None:
            assert mine.is_sparse == value.is_sparse, name
            bound = (1e-6 if value.dtype == torch.float32 else 1e-13) * float(
                value.to_dense().abs().sum() + 1
            )
            assert torch.allclose(mine.to_dense(), value.to_dense(), rtol=0, atol=bound), name


def summed(
    world: int,
    build: Callable[[], nn.Module],
    uses: Uses = loss_of,
    steps: int = 3,
    deterministic: bool = False,
) -> list[dict[str, torch.Tensor | None]]:
    """Every rank's gradients after each of ``steps`` equal steps."""

    def work(group: Group) -> list[dict[str, torch.Tensor | None]]:
        model = build()
        notes = 1
        reducer = (
            Tree(model, group, notes) if deterministic else Plain(model, group, notes, None, SMALL_BUCKET)
        )
        found = []
        for step in range(steps):
            compute(reducer, model, BLOCKS[world][group.rank], uses)
            done = reducer.finish(BLOCKS[world], [float(step + 1)])
            senders = sum(start < stop for start, stop in BLOCKS[world]) if deterministic else world
            assert done.notes == ((step + 1) * senders,)
            assert done.count == 5
            found.append(gradients(model))
        return found

    results = [work(Alone())] if world == 1 else together(world, work)
    for result in results:
        assert isinstance(result, list), result
    return [step for result in results for step in result]  # type: ignore[union-attr]


_building = threading.Lock()  # the global generator is shared by the ranks, which are threads


def odd() -> nn.Module:
    with _building:
        return Odd()


@pytest.mark.parametrize("deterministic", [False, True])
@pytest.mark.parametrize("world", [1, 2, 3, 4])
def test_odd_models_get_the_gradient_of_a_single_worker(world: int, deterministic: bool) -> None:
    wanted = expected(odd)
    assert wanted["never"] is None
    for found in summed(world, odd, deterministic=deterministic):
        assert_close(found, wanted)


def test_the_tree_gives_the_same_bits_to_odd_models_in_any_world() -> None:
    alone, *_ = summed(1, odd, steps=1, deterministic=True)
    for world in (2, 3, 4):
        for found in summed(world, odd, steps=1, deterministic=True):
            assert all(
                value is None or torch.equal(value, alone[name])  # type: ignore[arg-type]
                for name, value in found.items()
            )


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_carries_plan_numbers_beyond_its_own_range(dtype: torch.dtype) -> None:
    def work(group: Group) -> tuple[float, ...]:
        with _building:
            torch.manual_seed(0)
            model = nn.Linear(8, 4, dtype=dtype)
        reducer = Plain(model, group, 1, None, SMALL_BUCKET)
        compute(reducer, model, (group.rank, group.rank + 1), lambda m, i: m(samples(i).to(dtype)).sum())
        done = reducer.finish([(0, 1), (1, 2)], [1_234_567.0 if group.rank == 0 else 0.0])
        assert model.weight.grad is not None
        assert model.weight.grad.dtype == dtype
        wanted = sum((samples(i).to(dtype).sum(0) * 0.2 for i in range(2)), torch.zeros(8, dtype=dtype))
        assert torch.allclose(model.weight.grad[0], wanted, rtol=0.02, atol=0.02)
        return done.notes

    assert together(2, work) == [(1_234_567.0,)] * 2


class Embedded(nn.Module):
    """An embedding whose gradient is sparse."""

    def __init__(self) -> None:
        super().__init__()
        with _building:
            torch.manual_seed(0)
            self.table = nn.Embedding(30, 4, sparse=True).double()
            self.head = nn.Linear(4, 1).double()

    def forward(self, x: torch.Tensor, index: int) -> torch.Tensor:
        return self.head(self.table(torch.tensor([index, index, 7]))).sum() + x.sum()


@pytest.mark.parametrize("deterministic", [False, True])
@pytest.mark.parametrize("world", [2, 4])
def test_sparse_gradients_stay_sparse_and_whole(world: int, deterministic: bool) -> None:
    wanted = expected(Embedded)
    for found in summed(world, Embedded, deterministic=deterministic):
        assert_close(found, wanted)


class Repeated(nn.Module):
    """Reentrant checkpointing: the same weight gets gradients in backward passes within a backward pass.

    The generator, which the ranks share, is left alone: another rank may be building its model from it.
    """

    def __init__(self) -> None:
        super().__init__()
        with _building:
            torch.manual_seed(0)
            self.inner = nn.Linear(8, 8).double()
            self.outer = nn.Linear(8, 8).double()

    def forward(self, x: torch.Tensor, index: int) -> torch.Tensor:
        hidden = x.requires_grad_()
        for _ in range(3):
            hidden = checkpoint(self.inner, hidden, use_reentrant=True, preserve_rng_state=False)
        return self.outer(hidden).pow(2).mean()


def test_gradients_that_come_after_their_bucket_has_left_are_added_all_the_same() -> None:
    wanted = expected(Repeated)
    for found in summed(2, Repeated):
        assert_close(found, wanted)


def test_a_parameter_that_is_used_in_some_steps_only_is_never_forgotten() -> None:
    """Not waited for after a step without it, it comes late, and still counts."""
    plan = [False, False, True, False, True, True]

    def work(group: Group) -> list[dict[str, torch.Tensor | None]]:
        with _building:
            torch.manual_seed(0)
            model = nn.ModuleList([nn.Linear(8, 8).double() for _ in range(3)])
        reducer = Plain(model, group, 0, None, bucket_bytes=8)
        found = []
        for used in plan:

            def uses(layers: nn.Module, index: int, used: bool = used) -> torch.Tensor:
                # on one rank only, and made first, so that its gradient comes last
                side = layers[1](samples(index)).sum() * 3 if used and index else 0  # type: ignore[index]
                return side + layers[2](layers[0](samples(index))).sum()  # type: ignore[index]

            compute(reducer, model, (group.rank, group.rank + 1), uses)
            reducer.finish([(0, 1), (1, 2)], [])
            found.append(gradients(model))
        return found

    for result in together(2, work):
        assert isinstance(result, list), result
        for used, found in zip(plan, result, strict=True):
            assert (found["1.weight"] is not None) == used
            if used:
                wanted = (samples(1).sum(0) * 0.6).expand(8, 8)
                assert torch.allclose(found["1.weight"], wanted, rtol=0, atol=1e-12)  # type: ignore[arg-type]


def test_buckets_leave_while_the_backward_pass_still_runs() -> None:
    """The last layer's sum is begun before the first layer's gradient is there."""
    order: list[str] = []

    class Watched(Alone):
        """A world of one that notes when sums begin."""

        def start_all_reduce(self, buffer: torch.Tensor) -> Work:
            order.append("sum")
            return super().start_all_reduce(buffer)

    model = nn.Sequential(*[nn.Linear(8, 8).double() for _ in range(3)])
    model[0].weight.register_hook(lambda _: order.append("first layer"))
    reducer = Plain(model, Watched(), 0, None, bucket_bytes=8)
    compute(reducer, model, (0, 2), lambda layers, index: layers(samples(index)).sum())
    reducer.finish([(0, 2)], [])
    assert order[0] == "first layer", "nothing may leave before the last micro-batch"
    assert order.index("sum") < len(order) - 1 - order[::-1].index("first layer")


def test_a_group_that_breaks_amid_the_backward_pass_is_told_of_when_the_step_ends() -> None:
    def work(group: Group) -> object:
        with _building:
            model = nn.Sequential(*[nn.Linear(8, 8).double() for _ in range(4)])
        reducer = Plain(model, group, 0, None, bucket_bytes=8)
        if group.rank == 1:
            model[1].weight.register_hook(lambda _: group.abort())
        compute(reducer, model, (group.rank, group.rank + 1), lambda layers, i: layers(samples(i)).sum())
        try:
            reducer.finish([(0, 1), (1, 2)], [])
        except GroupBroken:
            assert reducer.close() == []  # what may still be written to is not used again
            reducer = Plain(model, Alone(), 0, None, bucket_bytes=8)
            compute(reducer, model, (0, 5), lambda layers, i: layers(samples(i)).sum())
            reducer.finish([(0, 5)], [])
            return gradients(model)
        return None

    for result in together(2, work):
        assert isinstance(result, dict), result
        assert all(value is not None for value in result.values())


def test_the_memory_of_one_world_is_used_in_the_next() -> None:
    model = nn.Linear(40, 40).double()
    first = Plain(model, Alone(), 2)
    compute(first, model, (0, 1), lambda layer, index: layer(torch.ones(1, 40, dtype=torch.float64)).sum())
    first.finish([(0, 1)], [0.0, 0.0])
    spare = first.close()
    addresses = {bucket.data_ptr() for bucket in spare}
    second = Plain(model, Alone(), 5, spare)
    assert {bucket.data_ptr() for bucket in second.close()} == addresses


def test_a_closed_reducer_leaves_no_hook_behind() -> None:
    model = nn.Linear(4, 4)
    Plain(model, Alone(), 0).close()
    assert not any(parameter._post_accumulate_grad_hooks for parameter in model.parameters())


def test_a_user_may_drop_or_set_gradients_himself() -> None:
    model = nn.Linear(8, 8).double()
    reducer = Plain(model, Alone(), 0)
    compute(reducer, model, (0, 1), lambda layer, index: layer(samples(index)).sum())
    model.weight.grad = None
    model.bias.grad = torch.full((8,), 3.0, dtype=torch.float64)
    reducer.finish([(0, 1)], [])
    assert model.weight.grad is None
    assert model.bias.grad.tolist() == [3.0] * 8

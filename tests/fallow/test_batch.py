"""The arithmetic that keeps a global batch exact across any resize."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fallow.data.batch_plan import BatchError, StepShape, balanced, even_split, fixed
from fallow.data.costs import Cost

pytestmark = pytest.mark.quick

SECONDS = st.floats(min_value=1e-4, max_value=1)
LEAST = st.integers(0, 1)
COST = st.builds(Cost, fixed_s=st.just(0.0) | SECONDS, unit_s=SECONDS, least=LEAST)


@st.composite
def worlds(draw: st.DrawFn) -> tuple[int, int, int, list[Cost] | None]:
    global_batch = draw(st.integers(1, 5000))
    world = draw(st.integers(1, min(global_batch, 64)))
    cap = draw(st.integers(1, 600))
    costs = draw(st.none() | st.lists(COST, min_size=world, max_size=world))
    return global_batch, cap, world, costs


def check(shape: StepShape, cap: int, costs: list[Cost] | None) -> None:
    micro_batches = shape.micro_batches
    assert [micro.index for micro in micro_batches] == list(range(len(micro_batches)))
    assert micro_batches[0].start == 0
    assert micro_batches[-1].stop == shape.global_batch
    assert all(a.stop == b.start for a, b in pairwise(micro_batches))
    assert all(1 <= micro.size <= cap for micro in micro_batches)
    least = [1] * shape.world_size if costs is None else [cost.least for cost in costs]
    assert all(shape.samples(rank) >= least[rank] for rank in range(shape.world_size))


@given(worlds())
def test_a_balanced_step_is_exact_and_within_the_cap(case: tuple[int, int, int, list[Cost] | None]) -> None:
    global_batch, cap, world, costs = case
    shape = balanced(global_batch, cap, world, costs)
    check(shape, cap, costs)
    assert shape.world_size == world
    if costs is None:
        samples = [shape.samples(rank) for rank in range(world)]
        assert max(samples) - min(samples) <= 1


@given(worlds(), st.integers(0, 40))
def test_a_fixed_step_cuts_the_same_pieces_for_every_world(
    case: tuple[int, int, int, list[Cost] | None], extra: int
) -> None:
    global_batch, cap, world, costs = case
    pieces = min(global_batch, max(world, -(-global_batch // cap) + extra))
    shape = fixed(global_batch, cap, pieces, world, costs)
    check(shape, cap, costs)
    assert shape.micro_batches == fixed(global_batch, cap, pieces, 1).micro_batches


def test_cases_that_floor_division_gets_wrong() -> None:
    assert [m.size for m in balanced(100, 30, 1).micro_batches] == [25, 25, 25, 25]
    assert [balanced(256, 64, 3).samples(rank) for rank in range(3)] == [86, 85, 85]


def test_a_slower_worker_gets_fewer_samples() -> None:
    shape = balanced(90, 32, 2, [Cost(fixed_s=0, unit_s=1), Cost(fixed_s=0, unit_s=2)])
    assert (shape.samples(0), shape.samples(1)) == (60, 30)


def test_even_split_differs_by_at_most_one() -> None:
    assert even_split(10, 4) == (3, 3, 2, 2)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: balanced(4, 2, 5), "at most 4 workers"),
        (lambda: balanced(0, 2, 1), "at least 1"),
        (lambda: balanced(4, 2, 2, [Cost(fixed_s=0, unit_s=1)]), "1 costs for 2 ranks"),
        (lambda: balanced(4, 2, 1, [Cost(fixed_s=0, unit_s=1, most=3)]), "0 to 3 samples"),
        (lambda: fixed(100, 30, 3, 1), "needs 4 to 100"),
        (lambda: fixed(100, 30, 4, 5), "at most 4 workers"),
    ],
)
def test_an_impossible_cut_says_what_would_fit(call: object, message: str) -> None:
    with pytest.raises(BatchError, match=message):
        call()  # type: ignore[operator]

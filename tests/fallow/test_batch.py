"""The arithmetic that keeps a global batch exact across any resize."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fallow.data.batch_plan import BatchError, StepShape, apportion, balanced, even_split, fixed

pytestmark = pytest.mark.quick

WEIGHT = st.floats(min_value=0.01, max_value=100)


@st.composite
def worlds(draw: st.DrawFn) -> tuple[int, int, int, list[float] | None]:
    global_batch = draw(st.integers(1, 5000))
    world = draw(st.integers(1, min(global_batch, 64)))
    cap = draw(st.integers(1, 600))
    weights = draw(st.none() | st.lists(WEIGHT, min_size=world, max_size=world))
    return global_batch, cap, world, weights


def check(shape: StepShape, cap: int) -> None:
    micro_batches = shape.micro_batches
    assert [micro.index for micro in micro_batches] == list(range(len(micro_batches)))
    assert micro_batches[0].start == 0
    assert micro_batches[-1].stop == shape.global_batch
    assert all(a.stop == b.start for a, b in pairwise(micro_batches))
    assert all(1 <= micro.size <= cap for micro in micro_batches)
    assert all(shape.samples(rank) >= 1 for rank in range(shape.world_size))


@given(worlds())
def test_a_balanced_step_is_exact_and_within_the_cap(case: tuple[int, int, int, list[float] | None]) -> None:
    global_batch, cap, world, weights = case
    shape = balanced(global_batch, cap, world, weights)
    check(shape, cap)
    assert shape.world_size == world
    if weights is None:
        samples = [shape.samples(rank) for rank in range(world)]
        assert max(samples) - min(samples) <= 1


@given(worlds(), st.integers(0, 40))
def test_a_fixed_step_cuts_the_same_pieces_for_every_world(
    case: tuple[int, int, int, list[float] | None], extra: int
) -> None:
    global_batch, cap, world, weights = case
    pieces = min(global_batch, max(world, -(-global_batch // cap) + extra))
    shape = fixed(global_batch, cap, pieces, world, weights)
    check(shape, cap)
    assert shape.micro_batches == fixed(global_batch, cap, pieces, 1).micro_batches


@given(
    st.integers(1, 64).flatmap(
        lambda n: st.tuples(st.integers(n, 10_000), st.lists(WEIGHT, min_size=n, max_size=n))
    )
)
def test_apportioned_shares_sum_exactly_and_stay_near_their_quota(case: tuple[int, list[float]]) -> None:
    total, weights = case
    shares = apportion(total, weights)
    assert sum(shares) == total
    spare = total - len(weights)
    for share, weight in zip(shares, weights, strict=True):
        assert abs(share - 1 - spare * weight / sum(weights)) < 1 + 1e-6


def test_cases_that_floor_division_gets_wrong() -> None:
    assert [m.size for m in balanced(100, 30, 1).micro_batches] == [25, 25, 25, 25]
    assert [balanced(256, 64, 3).samples(rank) for rank in range(3)] == [86, 85, 85]


def test_a_slower_worker_gets_fewer_samples() -> None:
    shape = balanced(90, 32, 2, weights=[2.0, 1.0])
    assert (shape.samples(0), shape.samples(1)) == (60, 30)


def test_even_split_differs_by_at_most_one() -> None:
    assert even_split(10, 4) == (3, 3, 2, 2)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: balanced(4, 2, 5), "at most 4 workers"),
        (lambda: balanced(0, 2, 1), "at least 1"),
        (lambda: balanced(4, 2, 2, [1.0]), "2 positive numbers"),
        (lambda: balanced(4, 2, 2, [1.0, float("nan")]), "2 positive numbers"),
        (lambda: fixed(100, 30, 3, 1), "needs 4 to 100"),
        (lambda: fixed(100, 30, 4, 5), "at most 4 workers"),
    ],
)
def test_an_impossible_cut_says_what_would_fit(call: object, message: str) -> None:
    with pytest.raises(BatchError, match=message):
        call()  # type: ignore[operator]

"""Who has which samples, and what moves: every sample arrives once, from who had it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fallow.burst.plan import BadPlan
from fallow.burst.shares import Shares, by_counts, moves, on_ranks

pytestmark = pytest.mark.quick


def test_an_even_cut_gives_the_first_ranks_one_more() -> None:
    assert on_ranks(7, 4, 1, 3).ends == (0, 3, 5, 7)
    assert [on_ranks(7, 4, 1, 3).count(rank) for rank in range(4)] == [0, 3, 2, 2]


def test_ranks_that_are_not_there_are_refused() -> None:
    with pytest.raises(BadPlan, match="ranks 2 to 4 are not among 4"):
        on_ranks(8, 4, 2, 3)


def test_three_ranks_become_one() -> None:
    before, after = by_counts((2, 1, 3)), on_ranks(6, 3, 1, 1)
    assert moves(before, after, 0).sends == ((1, 0, 2),)
    assert moves(before, after, 1).receives == ((0, 0, 2), (2, 3, 6))
    assert moves(before, after, 1).stays == (0, 2, 1)
    assert moves(before, after, 2).sends == ((1, 0, 3),)


@st.composite
def shared(draw: st.DrawFn) -> tuple[Shares, Shares]:
    world = draw(st.integers(1, 6))
    counts = draw(st.lists(st.integers(0, 5), min_size=world, max_size=world))
    first = draw(st.integers(0, world - 1))
    return by_counts(counts), on_ranks(sum(counts), world, first, draw(st.integers(1, world - first)))


@given(shared())
def test_every_sample_arrives_once_and_in_order(two: tuple[Shares, Shares]) -> None:
    before, after = two
    world = len(before.ends)
    had = [list(range(*before.of(rank))) for rank in range(world)]
    plans = [moves(before, after, rank) for rank in range(world)]
    for rank, plan in enumerate(plans):
        has: list[int | None] = [None] * after.count(rank)
        start, at, samples = plan.stays
        has[at : at + samples] = had[rank][start : start + samples]
        for other, start, stop in plan.receives:
            sent = [(a, b) for to, a, b in plans[other].sends if to == rank]
            assert len(sent) == 1, "one message between two ranks"
            has[start:stop] = had[other][sent[0][0] : sent[0][1]]
        assert has == list(range(*after.of(rank)))
        assert all(rank in [of for of, *_ in plans[to].receives] for to, *_ in plan.sends)

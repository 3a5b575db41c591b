"""The order of additions depends on the leaves alone, never on who computed them."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fallow.gradients.deterministic import Node, Stack, block_nodes, push, root

pytestmark = pytest.mark.quick


def folded(start: int, stop: int) -> Stack[str]:
    stack: Stack[str] = []
    for leaf in range(start, stop):
        push(stack, Node(0, leaf), str(leaf), "({}+{})".format)
    return stack


def whole(leaves: int, cuts: list[int]) -> str:
    edges = [0, *sorted(cuts), leaves]
    parts = [part for start, stop in pairwise(edges) for part in folded(start, stop)]
    return root(parts, leaves, "({}+{})".format)


@given(st.integers(1, 70).flatmap(lambda n: st.tuples(st.just(n), st.lists(st.integers(0, n), max_size=8))))
def test_the_sum_is_the_same_expression_however_the_leaves_are_shared(case: tuple[int, list[int]]) -> None:
    leaves, cuts = case
    assert whole(leaves, cuts) == whole(leaves, [])


@given(st.integers(0, 60), st.integers(1, 60))
def test_a_block_folds_to_few_parts(start: int, count: int) -> None:
    parts = folded(start, start + count)
    assert len(parts) <= 2 * max(1, count.bit_length())
    assert tuple(node for node, _ in parts) == block_nodes(start, start + count)


def test_the_tree_of_six_leaves_is_written_out() -> None:
    assert whole(6, []) == "(((0+1)+(2+3))+(4+5))"
    assert whole(5, [1, 3]) == "(((0+1)+(2+3))+4)"

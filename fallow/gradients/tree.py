"""One canonical binary tree over the micro-batches of a step, so that sums are the same to the bit.

Floating-point addition is not associative: the sum of gradients depends on who adds what first. Here the
order is a property of the micro-batch indices alone. Node ``(level, index)`` covers the leaves from
``index * 2**level`` up to the next node's, cut at the number of leaves; it is the sum of its two children, or
its only child where the other lies beyond the last leaf. Whoever computed the leaves, the root is the same.
Pure; the values may be tensors or, in the tests, strings that remember the order.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")
Add = Callable[[T, T], T]
"""Left and right child to their sum; may reuse the left one's storage."""


@dataclass(frozen=True, slots=True, order=True)
class Node:
    """A place in the tree; a leaf is at level 0."""

    level: int
    index: int

    @property
    def start(self) -> int:
        """Its first leaf."""
        return self.index << self.level

    @property
    def sibling_start(self) -> int:
        """The first leaf of the node that it is added to."""
        return (self.index ^ 1) << self.level

    @property
    def parent(self) -> "Node":
        """The node that it is part of."""
        return Node(self.level + 1, self.index >> 1)


Stack = list[tuple[Node, T]]


def push(stack: Stack[T], node: Node, value: T, add: Add[T]) -> None:
    """Put the next node on ``stack``, adding siblings as soon as both are there.

    Nodes must come in leaf order; a worker's contiguous block leaves at most twice the tree's height.
    """
    stack.append((node, value))
    while len(stack) > 1 and stack[-1][0].index % 2 == 1:
        (left, left_value), (right, right_value) = stack[-2], stack[-1]
        if (left.level, left.index + 1) != (right.level, right.index):
            return
        stack[-2:] = [(left.parent, add(left_value, right_value))]


def block_nodes(start: int, stop: int) -> tuple[Node, ...]:
    """The nodes that are left of leaves ``[start, stop)`` after folding, in leaf order."""
    stack: Stack[None] = []
    for leaf in range(start, stop):
        push(stack, Node(0, leaf), None, lambda left, right: None)
    return tuple(node for node, _ in stack)


def root(parts: Sequence[tuple[Node, T]], leaves: int, add: Add[T]) -> T:
    """The sum over all ``leaves``, from the folded parts of all workers in leaf order."""
    stack: Stack[T] = []
    for node, value in parts:
        push(stack, node, value, add)
    while len(stack) > 1:
        last, value = stack.pop()
        while last.index % 2 == 0 and last.sibling_start >= leaves:
            last = last.parent
        push(stack, last, value, add)
    return stack[0][1]

"""Sums micro-batches along one tree, to the bit the same for any number of workers: the deterministic mode.

Each worker folds the gradients of its own block into a few parts. Of every part, each worker gets one shard
from the others, finishes the tree on it, and hands the result round. All of that goes piece by piece, so that
some pieces travel while others are added up.

The tree is one canonical binary tree over the micro-batches of a step, so that sums are the same to the bit.

Floating-point addition is not associative: the sum of gradients depends on who adds what first. Here the
order is a property of the micro-batch indices alone. Node ``(level, index)`` covers the leaves from
``index * 2**level`` up to the next node's, cut at the number of leaves; it is the sum of its two children, or
its only child where the other lies beyond the last leaf. Whoever computed the leaves, the root is the same.
Pure; the values may be tensors or, in the tests, strings that remember the order.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import torch
from torch import nn

from fallow.gradients import checks
from fallow.gradients.flat import Flat, Storage, on_wire
from fallow.gradients.reducer import TALLIES, Summed, check_whole
from fallow.process_group.collectives import Group, Work
from fallow.state.buffers import Buffers
from fallow.transfers import to_device

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


# A sum travels in pieces of this: 4 MiB of float32.
PIECE_ELEMENTS = 1024 * 1024


class Tree:
    """Every micro-batch is a leaf of one canonical tree, so the sums are bitwise those of any other world.

    The buffers of each micro-batch start from those of the step; running statistics are averaged along the
    same tree.
    """

    def __init__(
        self,
        model: nn.Module,
        group: Group,
        notes: int,
        spare: Storage | None = None,
        buffers: Buffers | None = None,
        *,
        alone: bool = False,
    ):
        """``alone``: no other worker can come, so all but the loss and the buffers is known on the host."""
        self._group = group
        self._flat = Flat(model, TALLIES + notes, buffers=buffers)
        self._leaves_unread = alone and self._flat.device.type != "cpu"
        self._no_notes = [0.0] * (1 + notes)
        self._stack: Stack[Storage] = []
        self._left = list(spare or ())
        self._spare: list[Storage] = []
        self._landed: dict[tuple[int, int], torch.Tensor] = {}
        self._sparse: set[int] = set()
        self._counts: Stack[torch.Tensor] = []
        self._counted = 0
        self._present: set[int] = set()
        self._exchanging = False

    def begin(self) -> None:
        """Drop all gradients and parts; remember the buffers that each micro-batch starts from."""
        self._flat.begin()
        self._spare += [storage for _, storage in self._stack]
        self._stack = []
        self._sparse = set()
        self._counts, self._counted, self._present = [], 0, set()

    def begin_micro_batch(self, last: bool) -> None:
        """Back to the buffers of the step's beginning."""
        self._flat.buffers.rewind()

    def end_micro_batch(self, index: int, fraction: float, loss: torch.Tensor, count: float | None) -> None:
        """Fold this leaf into the parts held so far; into its sibling's memory where that is here."""
        leaf = Node(0, index)
        extras = [loss, count or 0.0, count is not None, *self._no_notes]
        self._sparse |= self._flat.sparse()
        if self._leaves_unread:
            self._present |= self._flat.present()
            self._counted += count is not None
            push(self._counts, leaf, torch.tensor(count or 0.0, dtype=self._flat.numbers_dtype), torch.add)
        if self._stack and self._stack[-1][0] == Node(0, index - 1) and index % 2 == 1:
            sibling = self._stack.pop()[1]
            self._flat.add(sibling, fraction, extras)
            push(self._stack, leaf.parent, sibling, self._add)
        else:
            storage = self._take()
            self._flat.write(storage, fraction, extras)
            push(self._stack, leaf, storage, self._add)
        self._flat.drop_gradients()

    def finish(self, blocks: Sequence[tuple[int, int]], notes: Sequence[float], mark: int = 1) -> Summed:
        """Exchange, finish the tree, hand round; mark and notes are added to the first leaf's part, so a
        worker without a leaf gives none.
        """
        if self._stack:
            own = self._flat.extras(self._stack[0][1])[TALLIES - 1 :]
            own.add_(to_device([mark, *notes], own.dtype, own.device))
        total = self._total(blocks)
        self.begin_micro_batch(last=True)
        if self._leaves_unread and self._flat.buffers.settle_unread_on(self._flat.device):
            return self._finish_unread(total, max(stop for _, stop in blocks), notes)
        numbers = self._flat.numbers(total)
        check_whole(self._group, numbers[TALLIES - 1], mark * sum(start < stop for start, stop in blocks))
        totals = self._flat.read(total, numbers)
        checks.complete(self._group, self._flat, total, totals, late={}, sparse=self._sparse)
        self._spare.append(total)
        loss, count, counted, _, *rest = totals.extras
        return Summed(loss, count, round(counted), tuple(rest))

    def _finish_unread(self, total: Storage, leaves: int, notes: Sequence[float]) -> Summed:
        """The same to the bit, waiting for no device: counts are added along the tree on the host as well."""
        self._flat.take_unread(total, self._present)
        for number in self._sparse:
            parameter = self._flat.parameters[number]
            assert parameter.grad is not None
            parameter.grad = parameter.grad.to_sparse(1)  # waits: how many rows there are, the device knows
        self._spare.append(total)
        loss = self._flat.extras(total)[0].double()  # as a number that was read is, for what it is scaled by
        return Summed(loss, float(root(self._counts, leaves, torch.add)), self._counted, tuple(notes))

    def close(self) -> Storage:
        """Give up all parts. What still travels keeps its memory."""
        if self._exchanging:
            return []
        storages = [*self._spare, *[storage for _, storage in self._stack]]
        return [bucket for storage in storages for bucket in storage]

    def _total(self, blocks: Sequence[tuple[int, int]]) -> Storage:
        """The root of the tree over all workers' parts, in memory of its own."""
        leaves = max(stop for _, stop in blocks)
        if self._group.world_size == 1:
            stack, self._stack = self._stack, []
            return root(stack, leaves, self._add)
        nodes = [block_nodes(*block) for block in blocks]
        total = self._take()
        self._exchanging = True
        scattering = [
            (at, start, *self._scatter(at, start, stop, nodes)) for at, start, stop in self._pieces(total)
        ]
        gathering = []
        for at, start, parts, work in scattering:
            work.wait()
            piece = root(parts, leaves, torch.Tensor.add_)
            gathering.append(self._hand_round(total[at], start, piece))
        for work in gathering:
            work.wait()
        self._exchanging = False
        return total

    def _pieces(self, storage: Storage) -> list[tuple[int, int, int]]:
        """Bucket, start and stop of each piece of a shard."""
        shards = [(at, bucket.numel() // self._group.world_size) for at, bucket in enumerate(storage)]
        return [
            (at, start, min(shard, start + PIECE_ELEMENTS))
            for at, shard in shards
            for start in range(0, shard, PIECE_ELEMENTS)
        ]

    def _scatter(
        self, at: int, start: int, stop: int, nodes: Sequence[tuple[Node, ...]]
    ) -> tuple[list[tuple[Node, torch.Tensor]], Work]:
        """Begin to exchange a piece of all parts; this rank's, in leaf order, are whole when it is over."""
        rank, world = self._group.rank, self._group.world_size
        mine = [storage[at].view(world, -1)[:, start:stop] for _, storage in self._stack]
        fresh = iter(self._landings(at, start, stop, sum(map(len, nodes)) - len(mine)))
        parts = [
            (node, mine[place][rank] if owner == rank else next(fresh))
            for owner, nodes_of in enumerate(nodes)
            for place, node in enumerate(nodes_of)
        ]
        owners = [owner for owner, nodes_of in enumerate(nodes) for _ in nodes_of]
        work = self._group.start_exchange(
            [(on_wire(part[peer]), peer) for peer in range(world) if peer != rank for part in mine],
            [(on_wire(part), owner) for owner, (_, part) in zip(owners, parts, strict=True) if owner != rank],
        )
        return parts, work

    def _hand_round(self, bucket: torch.Tensor, start: int, piece: torch.Tensor) -> Work:
        """Put a finished piece where it belongs, here and at all others, and begin to take theirs."""
        rank, shards = self._group.rank, bucket.view(self._group.world_size, -1)
        places = [on_wire(shard[start : start + piece.numel()]) for shard in shards]
        places[rank].copy_(on_wire(piece))
        peers = [peer for peer in range(len(places)) if peer != rank]
        return self._group.start_exchange(
            [(places[rank], peer) for peer in peers], [(places[peer], peer) for peer in peers]
        )

    def _landings(self, at: int, start: int, stop: int, count: int) -> list[torch.Tensor]:
        """Memory for ``count`` parts to arrive in; kept from step to step."""
        if count == 0:
            return []
        key = (at, start)
        landed = self._landed.get(key)
        if landed is None or landed.numel() < count * (stop - start):
            dtype, device = self._flat.layout.dtypes[at], self._flat.device
            landed = self._landed[key] = torch.empty(count * (stop - start), dtype=dtype, device=device)
        return list(landed[: count * (stop - start)].view(count, -1))

    def _take(self) -> Storage:
        if self._spare:
            return self._spare.pop()
        storage = self._flat.allocate(self._group.world_size, self._left)
        addresses = {bucket.untyped_storage().data_ptr() for bucket in storage}
        self._left = [bucket for bucket in self._left if bucket.untyped_storage().data_ptr() not in addresses]
        return storage

    def _add(self, left: Storage, right: Storage) -> Storage:
        for one, other in zip(left, right, strict=True):
            one.add_(other)
        self._spare.append(right)
        return left

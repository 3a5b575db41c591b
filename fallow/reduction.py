"""How the micro-batches of a step become one gradient: alone, by a plain sum, or to the bit by the tree.

A reducer lives as long as its group. It sees each micro-batch end, and makes one exchange a step in which
the switch flag and the loss ride along. Which one is used, the trainer says.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import nn

from fallow.flat import Flat, Storage
from fallow.group import Group
from fallow.tree import Node, Stack, block_nodes, push, root

TALLIES = 2  # the loss, the count


@dataclass(frozen=True, slots=True)
class Summed:
    """What came back beside the gradients, summed over all workers.

    ``loss`` and ``count`` are the micro-batches'; ``notes`` are the workers' own numbers, place by place.
    """

    loss: float
    count: float
    notes: tuple[float, ...]


class Reducer(Protocol):
    """Turns this worker's micro-batches into the global gradient, left in each parameter's ``grad``."""

    def begin(self) -> None:
        """A step begins (again): forget whatever was gathered."""
        ...

    def begin_micro_batch(self) -> None:
        """Before the forward pass of a micro-batch."""
        ...

    def end_micro_batch(self, index: int, fraction: float, loss: torch.Tensor, count: float) -> None:
        """Its gradient is in ``grad``; it and the scalar ``loss`` are weighted already. ``fraction`` is its
        part of the step's samples, ``count`` how many items it was averaged over (0 when nobody counts).
        """
        ...

    def finish(self, blocks: Sequence[tuple[int, int]], notes: Sequence[float]) -> Summed:
        """Exchange; ``blocks`` are all ranks' micro-batch ranges, ``notes`` this worker's own numbers, as
        many as the reducer was made for. Raises GroupBroken.
        """
        ...


class Local:
    """A world of one, in torch's own order: gradients accumulate where the optimizer looks for them."""

    def __init__(self, model: nn.Module):
        self._flat = Flat(model, 0)
        self._loss: torch.Tensor | float = 0.0
        self._count = 0.0

    def begin(self) -> None:
        """Drop all gradients."""
        self._flat.begin()
        self._loss = self._count = 0.0

    def begin_micro_batch(self) -> None:
        """Nothing to prepare."""

    def end_micro_batch(self, index: int, fraction: float, loss: torch.Tensor, count: float) -> None:
        """Only the loss is added up: autograd has accumulated the gradient."""
        self._loss = self._loss + loss
        self._count += count

    def finish(self, blocks: Sequence[tuple[int, int]], notes: Sequence[float]) -> Summed:
        """Nothing to exchange."""
        return Summed(float(self._loss), self._count, tuple(notes))


class Plain:
    """Each worker accumulates its own micro-batches; one all-reduce sums the workers.

    Running statistics are averaged over the workers, by samples.
    """

    def __init__(self, model: nn.Module, group: Group, notes: int):
        self._group = group
        self._flat = Flat(model, TALLIES + notes)
        self._storage = self._flat.allocate()
        self._loss: torch.Tensor | float = 0.0
        self._count = self._fraction = 0.0

    def begin(self) -> None:
        """Drop all gradients."""
        self._flat.begin()
        self._loss = self._count = self._fraction = 0.0

    def begin_micro_batch(self) -> None:
        """Nothing to prepare."""

    def end_micro_batch(self, index: int, fraction: float, loss: torch.Tensor, count: float) -> None:
        """Add up this worker's part of the global batch."""
        self._loss = self._loss + loss
        self._count += count
        self._fraction += fraction

    def finish(self, blocks: Sequence[tuple[int, int]], notes: Sequence[float]) -> Summed:
        """One sum over all workers."""
        self._flat.write(self._storage, self._fraction, [float(self._loss), self._count, *notes])
        self._group.all_reduce(self._storage)
        loss, count, *summed = self._flat.read(self._storage)
        return Summed(loss, count, tuple(summed))


class Tree:
    """Every micro-batch is a leaf of one canonical tree, so the sums are bitwise those of any other world.

    Each worker folds its own block; the parts are exchanged in shards, each worker finishes the tree on
    its shard, and the shards are gathered. Running statistics of each micro-batch start from those of the
    step, and are averaged along the same tree.
    """

    def __init__(self, model: nn.Module, group: Group, notes: int):
        self._group = group
        self._flat = Flat(model, TALLIES + notes)
        self._no_notes = [0.0] * notes
        self._stack: Stack[Storage] = []
        self._spare: list[Storage] = []
        self._before: list[torch.Tensor] = []

    def begin(self) -> None:
        """Drop all gradients and parts; remember the statistics that each micro-batch starts from."""
        self._flat.begin()
        self._spare += [storage for _, storage in self._stack]
        self._stack = []
        self._before = [buffer.clone() for buffer in self._flat.statistics]

    def begin_micro_batch(self) -> None:
        """Back to the statistics of the step's beginning."""
        for buffer, before in zip(self._flat.statistics, self._before, strict=True):
            buffer.copy_(before)
        self._flat.rewind_counters()

    def end_micro_batch(self, index: int, fraction: float, loss: torch.Tensor, count: float) -> None:
        """Fold this leaf into the parts held so far."""
        storage = self._take()
        self._flat.write(storage, fraction, [float(loss), count, *self._no_notes])
        self._flat.drop_gradients()
        push(self._stack, Node(0, index), storage, self._add)

    def finish(self, blocks: Sequence[tuple[int, int]], notes: Sequence[float]) -> Summed:
        """Exchange shards, finish the tree, gather; the notes are added to the first leaf's part, so a
        worker without a leaf gives none.
        """
        leaves = max(stop for _, stop in blocks)
        if self._stack and any(notes):
            own = self._flat.extras(self._stack[0][1])[TALLIES:]
            own.add_(torch.tensor(notes, dtype=own.dtype, device=own.device))
        total = self._take()
        for place, flat in enumerate(total):
            parts = self._exchange(place, flat, [block_nodes(*block) for block in blocks])
            shard = root(parts, leaves, torch.Tensor.add_)
            self._group.all_gather(flat, shard.contiguous())
        self.begin_micro_batch()
        loss, count, *summed = self._flat.read(total)
        self._spare.append(total)
        return Summed(loss, count, tuple(summed))

    def _exchange(
        self, place: int, like: torch.Tensor, nodes: Sequence[tuple[Node, ...]]
    ) -> list[tuple[Node, torch.Tensor]]:
        """This rank's shard of every part of every rank, in leaf order."""
        world = self._group.world_size
        mine = [storage[place] for _, storage in self._stack]
        shard = like.numel() // world
        outgoing = like[:0]
        if mine:
            outgoing = torch.stack(mine).view(len(mine), world, shard).transpose(0, 1).reshape(-1)
        incoming = torch.empty(sum(map(len, nodes)) * shard, dtype=like.dtype, device=like.device)
        self._group.all_to_all(
            incoming, outgoing, [len(of_rank) * shard for of_rank in nodes], [len(mine) * shard] * world
        )
        flattened = [node for of_rank in nodes for node in of_rank]
        return list(zip(flattened, incoming.view(len(flattened), shard), strict=True))

    def _take(self) -> Storage:
        return self._spare.pop() if self._spare else self._flat.allocate(multiple=self._group.world_size)

    def _add(self, left: Storage, right: Storage) -> Storage:
        for one, other in zip(left, right, strict=True):
            one.add_(other)
        self._spare.append(right)
        return left

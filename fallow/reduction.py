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

EXTRAS = 2  # the switch flag, the loss


@dataclass(frozen=True, slots=True)
class Summed:
    """What came back beside the gradients: the plan number to switch to (0: none), and the mean loss."""

    flag: int
    loss: float


class Reducer(Protocol):
    """Turns this worker's micro-batches into the global gradient, left in each parameter's ``grad``."""

    def begin(self) -> None:
        """A step begins (again): forget whatever was gathered."""
        ...

    def begin_micro_batch(self) -> None:
        """Before the forward pass of a micro-batch."""
        ...

    def end_micro_batch(self, index: int, fraction: float, loss: float) -> None:
        """Its gradient is in ``grad``; it and ``loss`` are weighted by ``fraction``, its part of the step."""
        ...

    def finish(self, blocks: Sequence[tuple[int, int]], flag: int) -> Summed:
        """Exchange; ``blocks`` are all ranks' micro-batch ranges. Raises GroupBroken."""
        ...


class Local:
    """A world of one, in torch's own order: gradients accumulate where the optimizer looks for them."""

    def __init__(self, model: nn.Module):
        self._flat = Flat(model, EXTRAS)
        self._loss = 0.0

    def begin(self) -> None:
        """Drop all gradients."""
        self._flat.begin()
        self._loss = 0.0

    def begin_micro_batch(self) -> None:
        """Nothing to prepare."""

    def end_micro_batch(self, index: int, fraction: float, loss: float) -> None:
        """Only the loss is added up: autograd has accumulated the gradient."""
        self._loss += loss

    def finish(self, blocks: Sequence[tuple[int, int]], flag: int) -> Summed:
        """Nothing to exchange."""
        return Summed(flag, self._loss)


class Plain:
    """Each worker accumulates its own micro-batches; one all-reduce sums the workers.

    Running statistics are averaged over the workers, by samples.
    """

    def __init__(self, model: nn.Module, group: Group):
        self._group = group
        self._flat = Flat(model, EXTRAS)
        self._storage = self._flat.allocate()
        self._loss = self._fraction = 0.0

    def begin(self) -> None:
        """Drop all gradients."""
        self._flat.begin()
        self._loss = self._fraction = 0.0

    def begin_micro_batch(self) -> None:
        """Nothing to prepare."""

    def end_micro_batch(self, index: int, fraction: float, loss: float) -> None:
        """Add up this worker's part of the global batch."""
        self._loss += loss
        self._fraction += fraction

    def finish(self, blocks: Sequence[tuple[int, int]], flag: int) -> Summed:
        """One sum over all workers."""
        self._flat.write(self._storage, self._fraction, [float(flag), self._loss])
        self._group.all_reduce(self._storage)
        summed_flag, loss = self._flat.read(self._storage)
        return Summed(round(summed_flag), loss)


class Tree:
    """Every micro-batch is a leaf of one canonical tree, so the sums are bitwise those of any other world.

    Each worker folds its own block; the parts are exchanged in shards, each worker finishes the tree on
    its shard, and the shards are gathered. Running statistics of each micro-batch start from those of the
    step, and are averaged along the same tree.
    """

    def __init__(self, model: nn.Module, group: Group):
        self._group = group
        self._flat = Flat(model, EXTRAS)
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

    def end_micro_batch(self, index: int, fraction: float, loss: float) -> None:
        """Fold this leaf into the parts held so far."""
        storage = self._take()
        self._flat.write(storage, fraction, [0.0, loss])
        self._flat.drop_gradients()
        push(self._stack, Node(0, index), storage, self._add)

    def finish(self, blocks: Sequence[tuple[int, int]], flag: int) -> Summed:
        """Exchange shards, finish the tree, gather; the flag is added to the first leaf's part."""
        leaves = max(stop for _, stop in blocks)
        if self._stack and flag:
            self._flat.extras(self._stack[0][1])[0] += flag
        total = self._take()
        for place, flat in enumerate(total):
            parts = self._exchange(place, flat, [block_nodes(*block) for block in blocks])
            shard = root(parts, leaves, torch.Tensor.add_)
            self._group.all_gather(flat, shard.contiguous())
        self.begin_micro_batch()
        summed_flag, loss = self._flat.read(total)
        self._spare.append(total)
        return Summed(round(summed_flag), loss)

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

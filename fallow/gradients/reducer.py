"""How the micro-batches of a step become one gradient: the port, and the case of a single worker.

A reducer lives as long as its group. It sees each micro-batch begin and end, and exchanges gradients once a
step; the switch flag and the loss ride along. ``overlapped`` sums in any order while the backward pass runs,
``deterministic`` in one order for any number of workers. Which one is used, the trainer says.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import nn

from fallow.gradients.flat import Storage
from fallow.process_group.collectives import Group, GroupBroken
from fallow.transfers import if_known

TALLIES = 4
"""Of the numbers that ride with the gradients: the loss, the count, the micro-batches that were counted, and
the marks of all who gave their notes."""
MARKS = 4093
"""Marks are below it: a prime, and 4,096 workers' sum is still exact in float32."""


@dataclass(frozen=True, slots=True)
class Summed:
    """What came back beside the gradients, summed over all workers.

    ``loss`` and ``count`` are the micro-batches', of which ``counted`` had a count; ``notes`` are the
    workers' own numbers, place by place. The loss stays on its device where nobody had to wait for that.
    """

    loss: float | torch.Tensor
    count: float
    counted: int
    notes: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the step's exchange came to; without ``summed`` it is not to be committed."""

    summed: Summed | None
    loss: float | torch.Tensor


class Reducer(Protocol):
    """Turns this worker's micro-batches into the global gradient, left in each parameter's ``grad``."""

    def begin(self) -> None:
        """A step begins (again): forget whatever was gathered."""
        ...

    def begin_micro_batch(self, last: bool) -> None:
        """Before the forward pass of a micro-batch; ``last``: of this worker's in this step."""
        ...

    def end_micro_batch(self, index: int, fraction: float, loss: torch.Tensor, count: float | None) -> None:
        """Its gradient is in ``grad``; it and the scalar ``loss`` are weighted already. ``fraction`` is its
        part of the step's samples, ``count`` how many items it was averaged over, where they are counted.
        """
        ...

    def finish(self, blocks: Sequence[tuple[int, int]], notes: Sequence[float], mark: int = 1) -> Summed:
        """Exchange; ``blocks`` are all ranks' micro-batch ranges, ``notes`` this worker's own numbers, as
        many as the reducer was made for. All workers give the same ``mark``, from 1 to MARKS, and another one
        in the next step: a sum of them that is not theirs is no sum. Raises GroupBroken.
        """
        ...

    def close(self) -> Storage:
        """Let go of the model; no other method may be called afterwards. Returns memory that the next
        reducer may use; gradients may still lie in it.
        """
        ...


def check_whole(group: Group, value: float, expected: float) -> None:
    """After a step's numbers were read, before any is used. Raises GroupBroken when they are no whole sum.

    NCCL ends an aborted sum as if well, and leaves whatever was in the buffer: a part of this sum, or the one
    before it. The marks of all are there only when everything before them is there too.
    """
    group.settle()
    if value != expected:
        raise GroupBroken(f"a step's marks came to {value:g}, not {expected:g}: its sum is not whole")


class Local:
    """A world of one, in torch's own order: gradients accumulate where the optimizer looks for them."""

    def __init__(self, model: nn.Module):
        self._parameters = list(model.parameters())
        self._loss: torch.Tensor | float = 0.0
        self._count = 0.0
        self._counted = 0

    def begin(self) -> None:
        """Drop all gradients."""
        for parameter in self._parameters:
            parameter.grad = None
        self._loss, self._count, self._counted = 0.0, 0.0, 0

    def begin_micro_batch(self, last: bool) -> None:
        """Nothing to prepare."""

    def end_micro_batch(self, index: int, fraction: float, loss: torch.Tensor, count: float | None) -> None:
        """Only the loss is added up: autograd has accumulated the gradient."""
        self._loss = self._loss + loss
        self._count += count or 0.0
        self._counted += count is not None

    def finish(self, blocks: Sequence[tuple[int, int]], notes: Sequence[float], mark: int = 1) -> Summed:
        """Nothing to exchange."""
        return Summed(if_known(self._loss), self._count, self._counted, tuple(notes))

    def close(self) -> Storage:
        """Nothing to let go of."""
        return []

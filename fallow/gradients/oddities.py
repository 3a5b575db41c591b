"""What is out of the ordinary, after the sum: gradients that missed their bucket or are sparse, and tables.

A gradient is late when more of it came after its bucket had left: a parameter that had none in the step
before, or one that is used in several backward passes (reentrant checkpointing). It is summed by itself and
added, so nothing is lost. Optimizers for sparse gradients get sparse ones again. Costs two sums or more, and
only in steps where some worker had such a gradient; all know, because their number rides in the tail. Tables
of whole numbers, of which most never change (masks, places), have a mark there and are summed when it is set.
"""

from collections.abc import Collection, Mapping, Sequence

import torch

from fallow.gradients.flat import on_wire, put
from fallow.state.buffers import Buffers
from fallow.world.collectives import Group


def mend(
    group: Group,
    parameters: Sequence[torch.Tensor],
    summed: Sequence[torch.Tensor],
    late: Mapping[int, torch.Tensor],
    sparse: Collection[int],
) -> None:
    """Add what was ``late`` on any worker to the ``summed`` gradients, and make them sparse where one was.

    Parameters are told apart by their number. ``late`` holds this worker's own. Raises GroupBroken.
    """
    sparse = {*sparse, *(number for number, gradient in late.items() if gradient.layout is not torch.strided)}
    rows = [[float(number in late), float(number in sparse)] for number in range(len(parameters))]
    marks = torch.tensor(rows, device=parameters[0].device)
    group.all_reduce([marks.view(-1)])
    for number, (was_late, was_sparse) in enumerate(marks.tolist()):
        if was_late:
            rest = torch.empty_like(summed[number], memory_format=torch.contiguous_format)
            put(rest, late.get(number))
            group.all_reduce([on_wire(rest.view(-1))])
            summed[number].add_(rest)
            parameters[number].grad = summed[number]
        if was_sparse:
            parameters[number].grad = summed[number].to_sparse(1)


def add_up(group: Group, buffers: Buffers, tables: Sequence[int], device: torch.device) -> None:
    """Let each of these tables go as far as all workers together moved it. Raises GroupBroken."""
    moved = buffers.movement(tables, device)
    group.all_reduce([moved])
    buffers.settle_tables(tables, moved)

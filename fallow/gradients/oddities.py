"""Gradients out of the ordinary, after the sum: those that missed their bucket, and sparse ones.

A gradient is late when more of it came after its bucket had left: a parameter that had none in the step
before, or one that is used in several backward passes (reentrant checkpointing). It is summed by itself and
added, so nothing is lost. Optimizers for sparse gradients get sparse ones again. Costs two sums or more, and
only in steps where some worker had such a gradient; all know, because their number rides in the tail.
"""

from collections.abc import Collection, Mapping, Sequence

import torch

from fallow.gradients.flat import on_wire, put
from fallow.world.group import Group


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

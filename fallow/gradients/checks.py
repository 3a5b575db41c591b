"""What a loss must be to be differentiated and learned from, so that a wrong one is named at once.

What is out of the ordinary, after the sum: gradients that missed their bucket or are sparse, and tables.

A gradient is late when more of it came after its bucket had left: a parameter that had none in the step
before, or one that is used in several backward passes (reentrant checkpointing). It is summed by itself and
added, so nothing is lost. Optimizers for sparse gradients get sparse ones again. Costs two sums or more, and
only in steps where some worker had such a gradient; all know, because their number rides in the tail. Tables
of whole numbers, of which most never change (masks, places), have a mark there and are summed when it is set.
"""

import math
from collections.abc import Collection, Mapping, Sequence

import torch

from fallow.data.batch_plan import MicroBatch
from fallow.errors import LossError
from fallow.gradients.flat import Flat, Storage, Totals, on_wire, put
from fallow.process_group.collectives import Group


def checked(loss: torch.Tensor, micro: MicroBatch, step: int) -> torch.Tensor:
    """``loss`` if it is a scalar that hangs on a parameter. Raises LossError."""
    if not isinstance(loss, torch.Tensor) or loss.numel() != 1:
        problem = (
            f"shape {tuple(loss.shape)}" if isinstance(loss, torch.Tensor) else repr(type(loss).__name__)
        )
        raise LossError(
            f"step {step}, micro-batch {micro.index}: the loss must be one number, the mean over the "
            f"micro-batch, but has {problem}. Use reduction='mean' or loss.mean()"
        )
    if not loss.requires_grad:
        raise LossError(
            f"step {step}, micro-batch {micro.index}: the loss depends on no trainable parameter. Look for "
            "no_grad(), detach(), item() or a wholly frozen model on its way"
        )
    return loss


def finite(loss: float, step: int, *, updated: bool = False) -> None:
    """Raises LossError unless the loss over a global batch is a number that can be learned from.

    ``updated``: it was looked at too late to keep it from the parameters.
    """
    if not math.isfinite(loss):
        what = "the parameters were updated by it, and are not saved" if updated else "nothing was updated"
        raise LossError(
            f"step {step}: the loss over the global batch is {loss}; {what}. Look "
            "at the learning rate and at this step's samples, or pass allow_non_finite=True to go on"
        )


def complete(
    group: Group,
    flat: Flat,
    storage: Storage,
    totals: Totals,
    *,
    late: Mapping[int, torch.Tensor],
    sparse: Collection[int],
) -> None:
    """Exchange what ``totals``, as read from ``storage``, say is still to be: odd gradients, and tables.

    ``late`` and ``sparse`` are this worker's own, by their parameters' numbers. Raises GroupBroken.
    """
    if totals.odd:
        _mend(group, flat.parameters, flat.gradients(storage), late, sparse)
    if totals.tables:
        moved = flat.buffers.movement(totals.tables, flat.device)
        group.all_reduce([moved])
        flat.buffers.settle_tables(totals.tables, moved)
    if totals.odd or totals.tables:
        group.settle()


def _mend(
    group: Group,
    parameters: Sequence[torch.Tensor],
    summed: Sequence[torch.Tensor],
    late: Mapping[int, torch.Tensor],
    sparse: Collection[int],
) -> None:
    """Add what was ``late`` on any worker to the ``summed`` gradients, and make them sparse where one was."""
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

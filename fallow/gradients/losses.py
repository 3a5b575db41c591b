"""What a loss must be to be differentiated and learned from, so that a wrong one is named at once."""

import math

import torch

from fallow.batches.batch import MicroBatch
from fallow.mistakes import LossError


def checked(loss: torch.Tensor, micro: MicroBatch, step: int) -> torch.Tensor:
    """``loss`` if it is a scalar that hangs on a parameter. Raises LossMistake."""
    if not isinstance(loss, torch.Tensor) or loss.numel() != 1:
        found = f"shape {tuple(loss.shape)}" if isinstance(loss, torch.Tensor) else repr(type(loss).__name__)
        raise LossError(
            f"step {step}, micro-batch {micro.index}: the loss must be one number, the mean over the "
            f"micro-batch, but has {found}. Use reduction='mean' or loss.mean()"
        )
    if not loss.requires_grad:
        raise LossError(
            f"step {step}, micro-batch {micro.index}: the loss depends on no trainable parameter. Look for "
            "no_grad(), detach(), item() or a wholly frozen model on its way"
        )
    return loss


def finite(loss: float, step: int, *, updated: bool = False) -> None:
    """Raises LossMistake unless the loss over a global batch is a number that can be learned from.

    ``updated``: it was looked at too late to keep it from the parameters.
    """
    if not math.isfinite(loss):
        what = "the parameters were updated by it, and are not saved" if updated else "nothing was updated"
        raise LossError(
            f"step {step}: the loss over the global batch is {loss}; {what}. Look "
            "at the learning rate and at this step's samples, or pass allow_non_finite=True to go on"
        )

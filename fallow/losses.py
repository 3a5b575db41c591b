"""What a loss must be before it is differentiated, so that a wrong one is named where it was made."""

import torch

from fallow.batch import MicroBatch
from fallow.mistakes import LossMistake


def checked(loss: torch.Tensor, micro: MicroBatch, step: int) -> torch.Tensor:
    """``loss`` if it is a scalar that hangs on a parameter. Raises LossMistake."""
    if not isinstance(loss, torch.Tensor) or loss.numel() != 1:
        found = f"shape {tuple(loss.shape)}" if isinstance(loss, torch.Tensor) else repr(type(loss).__name__)
        raise LossMistake(
            f"step {step}, micro-batch {micro.index}: the loss must be one number, the mean over the "
            f"micro-batch, but has {found}. Use reduction='mean' or loss.mean()"
        )
    if not loss.requires_grad:
        raise LossMistake(
            f"step {step}, micro-batch {micro.index}: the loss depends on no trainable parameter. Look for "
            "no_grad(), detach(), item() or a wholly frozen model on its way"
        )
    return loss

"""This process's part of its devices' memory, as whoever launched it says: a cap on PyTorch's allocator.

The cap is set when CUDA is first used, not before: who initializes CUDA can fork no more. It binds what goes
through PyTorch's allocator; CUDA's context and other libraries hold what they like.
"""

import logging
import os
from collections.abc import Mapping

import torch

LOG = logging.getLogger("fallow")

ENV_FRACTION = "FALLOW_MEMORY_FRACTION"
"""Above 0, at most 1: of the memory of each device that this process sees."""


def keep_to_share(environment: Mapping[str, str] = os.environ) -> float | None:
    """Hold PyTorch to the share that the environment names; returns it, ``None`` when there is none.

    What is no fraction is logged and left: a training is not ended for it.
    """
    told = environment.get(ENV_FRACTION)
    if told is None:
        return None
    fraction = _fraction(told)
    if fraction is None:
        LOG.warning("%s=%s is no fraction above 0 and up to 1: memory is not limited", ENV_FRACTION, told)
        return None
    torch.cuda._lazy_call(lambda: _cap(fraction))  # at once, or with CUDA
    return fraction


def _cap(fraction: float) -> None:
    """Called while CUDA is being initialized: what is raised here would end the user's first use of it."""
    for device in range(torch.cuda.device_count()):
        try:
            torch.cuda.set_per_process_memory_fraction(fraction, device)
        except RuntimeError as error:
            LOG.warning("cannot limit memory of device %d to %g of it: %s", device, fraction, error)


def _fraction(told: str) -> float | None:
    try:
        fraction = float(told)
    except ValueError:
        return None
    return fraction if 0 < fraction <= 1 else None

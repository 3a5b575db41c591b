"""What a worker reports unasked each second: where the training stands, how fast it goes, what it holds."""

import torch

from fallow.recipe import Recipe
from fallow.reports.pace import Pace
from fallow.reports.reporting import Measurements
from fallow.requests import memory


def measurements(
    device: torch.device,
    recipe: Recipe,
    pace: Pace,
    *,
    next_step: int,
    total_steps: int | None,
    world_size: int,
    saved_ms: int | None,
) -> Measurements:
    """The report of a worker on ``device``; ``None`` is not measured.

    ``memory_peak_bytes`` is the most that tensors needed since caches were released last, ``checkpoint_ms``
    when this worker saved or resumed the training, UTC; ``can_save`` is 1 where it has a path to save to.
    """
    used = memory.measure(device)
    return {
        "step": next_step,
        "remaining_steps": None if total_steps is None else total_steps - next_step,
        "world_size": world_size,
        "step_time_s": pace.step_time_s,
        "samples_per_s": pace.samples_per_s(recipe.global_batch),
        "memory_reserved_bytes": used.reserved_bytes,
        "memory_peak_bytes": used.peak_needed_bytes,
        "checkpoint_ms": saved_ms,
        "can_save": int(recipe.checkpoint is not None),
    }

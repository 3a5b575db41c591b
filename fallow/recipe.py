"""What a training is, and what a step of it came to: values that a script and ``fallow`` exchange."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A committed step: the mean loss over the global batch, and in how many workers it was computed."""

    number: int
    loss: float
    world_size: int
    grad_norm: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """What the training is, the same in every worker. ``schedulers`` are stepped once a committed step.

    ``deterministic`` asks for the same bits at any world size: ``micro_batches`` pieces a step (default:
    as few as the cap allows), summed along one tree, with randomness keyed by (seed, step, piece).
    ``allow_non_finite`` lets a step with a loss of inf or nan be taken; with a ``scaler`` it always may,
    because the scaler skips it. ``checkpoint`` is where the training is saved on SIGUSR1 or ``save()``, and
    resumed from at the start.
    """

    global_batch: int
    max_micro_batch: int
    seed: int = 0
    deterministic: bool = False
    micro_batches: int | None = None
    max_grad_norm: float | None = None
    schedulers: Sequence[Any] = ()
    scaler: Any = None
    state: Mapping[str, Any] | None = None  # extra things with state_dict() and load_state_dict()
    checkpoint: Path | None = None
    allow_non_finite: bool = False

"""What a training is, and what a step of it came to: values that a script and ``fallow`` exchange."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A committed step: the mean loss over the global batch, and in how many workers it was computed.

    ``grad_norm`` is the true global gradient's before clipping, if it is clipped. ``skipped`` says that the
    scaler found an inf or nan in the gradients, so that the optimizer took no step. On a GPU figures may
    still be under way when the step is returned; whoever reads one then waits for it.
    """

    number: int
    loss: float
    world_size: int
    grad_norm: float | None = None
    skipped: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """What the training is, the same in every worker; ``Job.elastic`` says what each part means."""

    global_batch: int
    max_micro_batch: int
    seed: int = 0
    deterministic: bool = False
    micro_batches: int | None = None
    balance_by_speed: bool = False
    max_grad_norm: float | None = None
    on_gradient: Callable[[Any], None] | None = None
    schedulers: Sequence[Any] = ()
    scaler: Any = None
    state: Mapping[str, Any] | None = None
    checkpoint: Path | None = None
    allow_non_finite: bool = False
    start_step: int = 0

    @property
    def scales_losses(self) -> bool:
        """Whether a scaler is at work, so that a step with inf or nan in its gradients is skipped by it."""
        return self.scaler is not None and bool(self.scaler.is_enabled())

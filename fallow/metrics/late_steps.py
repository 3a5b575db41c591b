"""Committed steps whose figures are still on their way from the device, so that no step waits for them.

A plain loop that reads no loss never waits for its GPU, so a training alone must not either. What a step came
to is copied to the host behind the step's own work, and looked at when it is there, some steps later: then a
loss that cannot be learned from ends the training. Whoever reads a figure at once waits, as in any loop.
"""

from collections import deque
from collections.abc import Callable
from typing import Any

import torch

from fallow.gradients.checks import finite
from fallow.transfers import Late
from fallow.types import Recipe, Step

LONGEST = 64
"""Steps that may be behind before the oldest is waited for. Queues of devices hold about 1,000 kernels, so a
training of any size has been held up by its device long before."""


class LateStep(Step):
    """A step whose figures are asked for when they are read."""

    __slots__ = ("_grad_norm", "_loss", "_skipped")
    _loss: float | Callable[[], float]
    _grad_norm: float | Callable[[], float] | None
    _skipped: bool | Callable[[], float]

    def __init__(
        self,
        *,
        number: int,
        loss: float | Callable[[], float],
        world_size: int,
        grad_norm: float | Callable[[], float] | None = None,
        skipped: bool | Callable[[], float] = False,
    ):
        values: dict[str, Any] = {
            "number": number,
            "world_size": world_size,
            "_loss": loss,
            "_grad_norm": grad_norm,
            "_skipped": skipped,
        }
        for name, value in values.items():
            object.__setattr__(self, name, value)

    @property
    def loss(self) -> float:
        """The mean over the global batch."""
        return _read(self._loss)

    @property
    def grad_norm(self) -> float | None:
        """Before clipping."""
        return None if self._grad_norm is None else _read(self._grad_norm)

    @property
    def skipped(self) -> bool:
        """Whether the scaler found an inf or nan."""
        return bool(_read(self._skipped))


class LateSteps:
    """Makes the steps of a training on ``device``, and ends it by a loss that isn't finite and must be."""

    def __init__(self, device: torch.device, recipe: Recipe):
        self._device = device
        self._checks = not (recipe.scales_losses or recipe.allow_non_finite)
        self._behind: deque[tuple[int, Late]] = deque()

    def step(
        self,
        number: int,
        world_size: int,
        loss: float | torch.Tensor,
        grad_norm: float | torch.Tensor | None,
        skipped: bool | torch.Tensor,
    ) -> Step:
        """The step, of figures that may still lie on the device. Never blocks."""
        row = [loss, 0.0 if grad_norm is None else grad_norm, skipped]
        if not any(isinstance(figure, torch.Tensor) for figure in row):
            norm = None if grad_norm is None else float(grad_norm)
            return Step(
                number=number, loss=float(loss), world_size=world_size, grad_norm=norm, skipped=bool(skipped)
            )
        late = Late(row, self._device)
        if isinstance(loss, torch.Tensor) and self._checks:
            self._behind.append((number, late))
        return LateStep(
            number=number,
            loss=(lambda: late.values()[0]) if isinstance(loss, torch.Tensor) else loss,
            world_size=world_size,
            grad_norm=None if grad_norm is None else lambda: late.values()[1],
            skipped=(lambda: late.values()[2]) if isinstance(skipped, torch.Tensor) else skipped,
        )

    def check(self, loss: float | torch.Tensor, number: int) -> None:
        """One that is known already, before anything is updated. Raises LossError."""
        if self._checks and not isinstance(loss, torch.Tensor):
            finite(loss, number)

    def look(self, *, wait: bool = False) -> None:
        """At the losses that have come; at all, if asked to ``wait``. Raises LossError."""
        while self._behind and (wait or len(self._behind) > LONGEST or self._behind[0][1].is_here()):
            number, late = self._behind.popleft()
            finite(late.values()[0], number, updated=True)


def _read(figure: float | Callable[[], float]) -> float:
    return figure() if callable(figure) else figure

"""Lines of the old loop that a script still has: what they would do to a step that is open, named at once.

A plain loop clears, clips, updates and schedules by itself; here that is done with the sum over all workers.
Done by the script as well, on one worker's part of a step, it would train on something else in each world,
and nothing would look wrong.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import torch

from fallow.errors import LoopError

FIRST_STEPS = 3
"""Gradients are looked at in so many steps of this process: a line that is left over is there from the first.
Nothing is read of them but a number that the host keeps, so no device is waited for."""


class Training(Protocol):
    """What a script may call by itself."""

    optimizer: torch.optim.Optimizer
    is_updating: bool

    @property
    def schedulers(self) -> tuple[Any, ...]:
        """Those that are stepped once a step."""
        ...

    def gradients(self) -> list[torch.Tensor | None]:
        """Of each parameter, as they are."""
        ...


class LoopGuard:
    """Watches one worker's ``training`` from the first step of a loop to its last."""

    def __init__(self, training: Training):
        self._training = training
        self._watches_gradients = FIRST_STEPS
        self._known: list[tuple[torch.Tensor, int] | None] = []
        self._scheduled: tuple[Any, ...] | None = None
        self._number: int | None = None
        self._has_micro_batch = False

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Meanwhile the optimizer's ``step`` and ``zero_grad`` are the library's to call."""
        optimizer: Any = self._training.optimizer
        hook = optimizer.register_step_pre_hook(lambda *_: self._check_update())
        own = vars(optimizer).get("zero_grad")
        clears = optimizer.zero_grad

        def zero_grad(*arguments: Any, **options: Any) -> Any:
            self._check_clearing()
            return clears(*arguments, **options)

        optimizer.zero_grad = zero_grad
        try:
            yield
        finally:
            hook.remove()
            if own is None:
                del optimizer.zero_grad
            else:
                optimizer.zero_grad = own

    def begin(self, number: int) -> None:
        """Step ``number`` is given out."""
        self._number, self._has_micro_batch = number, False
        self.keep()
        self._scheduled = self._schedules()

    def handed_out(self) -> None:
        """A micro-batch is the script's now."""
        self._has_micro_batch = True

    def keep(self) -> None:
        """The gradients are as they must be."""
        if self._watches_gradients:
            gradients = self._training.gradients()
            self._known = [None if g is None else (g, g._version) for g in gradients]

    def check(self) -> None:
        """Raises LoopError when the script changed gradients or schedulers since."""
        self.check_schedulers()
        if self._watches_gradients and self._known:
            gradients = self._training.gradients()
            pairs = list(zip(self._known, gradients, strict=True))
            lost = any(was is not None and now is None for was, now in pairs)
            changed = any(now is not None and _differs(was, now) for was, now in pairs)
            if lost:
                raise LoopError(
                    f"{self._where()}: gradients of this step were cleared before trainer.step(). Drop "
                    "zero_grad(): every step begins without gradients, and its micro-batches add to them"
                )
            if changed:
                raise LoopError(
                    f"{self._where()}: gradients were changed other than by trainer.backward(loss). Drop "
                    "clip_grad_norm_() and the like: max_grad_norm= and on_gradient= see the whole global "
                    "gradient; add the loss of another backward() to the one that goes to trainer.backward()"
                )

    def close(self) -> None:
        """The gradients are to be summed: what becomes of them later is no fault. Raises as ``check``."""
        self.check()
        self._known = []

    def forget(self) -> None:
        """The step is taken again: whatever is as it is now was put so."""
        self._known, self._scheduled, self._number = [], None, None

    def committed(self) -> None:
        """The library has updated; what it did to the schedulers is right."""
        self._watches_gradients -= self._watches_gradients > 0
        self._scheduled = self._schedules()
        self._number = None

    def check_schedulers(self) -> None:
        """Raises LoopError when the script stepped a scheduler that is stepped for it."""
        if self._scheduled is not None and self._scheduled != self._schedules():
            raise LoopError(
                f"{self._where()}: a scheduler that was passed to elastic(schedulers=...) was stepped by the "
                "script as well. Drop scheduler.step(): it is stepped once a committed step"
            )

    def _schedules(self) -> tuple[Any, ...]:
        return tuple([getattr(each, "last_epoch", None) for each in self._training.schedulers])

    def _check_update(self) -> None:
        if not self._training.is_updating:
            raise LoopError(
                f"{self._where()}: the script called optimizer.step(). Drop it: trainer.step() updates, with "
                "the gradient of the whole global batch"
            )

    def _check_clearing(self) -> None:
        if self._number is not None and self._has_micro_batch and not self._training.is_updating:
            raise LoopError(
                f"{self._where()}: the script called optimizer.zero_grad() amid a step. Drop it: every step "
                "begins without gradients, and its micro-batches add to them"
            )

    def _where(self) -> str:
        return "between two steps" if self._number is None else f"step {self._number}"


def _differs(was: tuple[torch.Tensor, int] | None, now: torch.Tensor) -> bool:
    return was is None or was[0] is not now or was[1] != now._version

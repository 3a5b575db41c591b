"""Where in somebody else's loop a worker stands, so that a joiner stands where its source does.

A framework's loop has a body of its own around ``trainer.step()``: schedulers, progress, hooks. States are
handed over inside that call, so whoever takes one in goes on in the middle of the same body, and must finish
it as its source does: the rest of the body counts if the step of that body was committed there, and not if
its group broke and the step is to be taken again.
"""

from typing import Any, Protocol


class Scale(Protocol):
    """The part of a gradient scaler that tells an overflow."""

    def get_scale(self) -> float:
        """The factor that losses are multiplied with now."""
        ...


class Position:
    """The step that the body in progress is about; a part of the training's state."""

    def __init__(self, scaler: Scale | None = None):
        self._scaler = scaler
        self._scale = 0.0
        self._skipped_at_source = False
        self.step = -1

    def enter(self, step: int) -> None:
        """A body about ``step`` begins."""
        self.step = step
        self._skipped_at_source = False
        self._scale = self._now()

    def is_committed(self, next_step: int) -> bool:
        """Whether the body's step is over, given the step that comes next."""
        return next_step > self.step

    @property
    def skipped(self) -> bool:
        """Whether the scaler found an overflow in the body's step, so that the optimizer stood still."""
        return self._skipped_at_source or self._now() < self._scale

    def state_dict(self) -> dict[str, Any]:
        """What a joiner takes up."""
        return {"step": self.step, "skipped": self.skipped}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Stand where another stands."""
        self.step = state["step"]
        self._skipped_at_source = state["skipped"]
        self._scale = self._now()

    def _now(self) -> float:
        return float(self._scaler.get_scale()) if self._scaler is not None else 0.0

"""When to stop early: the same answer in all workers, and in those that join. Standard library only."""

from typing import Any

from fallow.errors import Mistake


class EarlyStopping:
    """Watches a value that should fall, a loss of ``Trainer.evaluate``; pass it in ``state=`` of ``elastic``.

    ``best`` is the lowest yet, ``is_best`` whether it came last, ``waited`` how many values came since.
    """

    def __init__(self, patience: int, least_gain: float = 0.0):
        if isinstance(patience, bool) or not isinstance(patience, int) or patience < 1:
            raise Mistake(
                f"EarlyStopping(patience={patience!r}): pass how many values may come without a better one"
            )
        self._patience, self._least_gain = patience, least_gain
        self.best = float("inf")
        self.waited = 0

    @property
    def is_best(self) -> bool:
        """Whether the newest value is the best: the time to save a model."""
        return self.waited == 0

    def should_stop(self, value: float) -> bool:
        """Note ``value``; whether so many in a row were no better. One that is no number is no better."""
        if value < self.best - self._least_gain:
            self.best, self.waited = value, 0
        else:
            self.waited += 1
        return self.waited >= self._patience

    def state_dict(self) -> dict[str, Any]:
        """What a joiner or a resumed training needs."""
        return {"best": self.best, "waited": self.waited}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from it."""
        self.best, self.waited = state["best"], state["waited"]

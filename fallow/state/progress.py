"""How far a script's loop is, beside its step: the epoch it is in, and the side sums that it took."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class Progress:
    """The same in all workers of a group, once they have met.

    ``epoch`` is what ``Trainer.epochs`` gave out last, ``None`` where it wasn't called; ``ended`` says that
    its steps are over. ``sums`` counts the side sums, of which ``last`` is the newest.
    """

    epoch: int | None = None
    ended: bool = False
    sums: int = 0
    last: list[float] = field(default_factory=list)

    def state(self) -> dict[str, Any]:
        """What a joiner or a resumed training goes on from. Saved after its steps, an epoch is done."""
        epoch = None if self.epoch is None else self.epoch + self.ended
        return {"epoch": epoch, "sums": self.sums, "last": list(self.last)}

    def load(self, state: Mapping[str, Any]) -> None:
        """Be there."""
        self.epoch, self.ended = state["epoch"], False
        self.sums, self.last = state["sums"], list(state["last"])

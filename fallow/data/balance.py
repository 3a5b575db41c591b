"""How fast this worker is, and the shares that follow for all; nothing of it unless the recipe asks for it.

What the figures lead to, ``shares`` decides; here they are measured, and put into a step's sum and taken out.
"""

from collections.abc import Sequence

import torch

from fallow.data import shares
from fallow.metrics.stopwatch import Stopwatch
from fallow.types import Recipe


class Balance:
    """Of one training on ``device``, in one group after the other."""

    def __init__(self, device: torch.device, recipe: Recipe):
        self._is_asked_for = recipe.balance_by_speed
        self._stopwatch = Stopwatch(device)
        self.enter(0, 1)

    def enter(self, rank: int, world_size: int) -> None:
        """Another group: what was measured in the one before counts no more."""
        self._rank = rank
        self._speeds = shares.even(world_size)
        self._s_per_sample = 0.0

    @property
    def weights(self) -> tuple[float, ...] | None:
        """Relative speeds, one a rank; ``None`` for even shares."""
        return self._speeds.weights if self._is_asked_for else None

    def start(self) -> None:
        """This worker begins with its part of a step."""
        if self._is_asked_for:
            self._stopwatch.start()

    def stop(self) -> None:
        """It has done its part."""
        if self._is_asked_for:
            self._stopwatch.stop()

    def measure(self, samples: int) -> None:
        """The step is committed; of it this worker computed so many. Blocks on a GPU until it has."""
        if self._is_asked_for and len(self._speeds.weights) > 1:  # alone there is nobody to share with
            self._s_per_sample = self._stopwatch.seconds() / samples if samples else 0.0

    def notes(self) -> list[float]:
        """For the next step's sum: a place a rank, of which this worker fills its own."""
        ranks = range(len(self._speeds.weights)) if self._is_asked_for else ()
        return [self._s_per_sample if rank == self._rank else 0.0 for rank in ranks]

    def learn(self, notes: Sequence[float]) -> None:
        """What all workers' notes came to."""
        self._speeds = self._speeds.after(notes)

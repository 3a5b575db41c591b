"""How fast this worker is, and the shares that follow for all; nothing of it unless the recipe asks for it.

What the figures lead to, ``shares`` decides; here they are measured, and put into a step's sum and taken out.
"""

import logging
from collections.abc import Sequence

import torch
from torch import nn

from fallow.burst.bursts import BurstModule
from fallow.data import shares
from fallow.data.batch_plan import StepShape
from fallow.data.costs import Cost
from fallow.metrics.stopwatch import Stopwatch
from fallow.types import Recipe

LOG = logging.getLogger("fallow")


class Balance:
    """Of one training of ``model`` on ``device``, in one group after the other."""

    def __init__(self, device: torch.device, recipe: Recipe, model: nn.Module):
        self._is_asked_for = recipe.balance_by_speed
        self._by_pieces = recipe.deterministic
        # Whoever has no leaf adds no notes to the tree's sum, and layers on other ranks wait for every rank's
        # samples: both need everybody. A burst plan is for one micro-batch a rank, so that is the cap there.
        is_burst = isinstance(model, BurstModule)
        self._least = int(recipe.deterministic or is_burst)
        self._most = recipe.max_micro_batch if is_burst else None
        self._stopwatch = Stopwatch(device)
        self.enter(0, 1)

    def enter(self, rank: int, world_size: int) -> None:
        """Another group: what was measured in the one before counts no more."""
        self._rank, self._world_size = rank, world_size
        self._speeds = shares.even(world_size, least=self._least, most=self._most)
        self._seconds = 0.0
        self._measured: tuple[int, ...] = (0,) * world_size
        self._sent = self._measured

    def keep_all_at_work(self) -> None:
        """In the groups to come every worker gets something: a loop that computes a batch in any case takes
        longer for that than the share it was spared.
        """
        self._least = 1

    @property
    def costs(self) -> tuple[Cost, ...] | None:
        """What shares go by, one a rank; ``None`` for even shares."""
        return self._speeds.costs if self._is_asked_for else None

    def start(self) -> None:
        """This worker begins with its part of a step."""
        if self._is_asked_for:
            self._stopwatch.start()

    def stop(self) -> None:
        """It has done its part."""
        if self._is_asked_for:
            self._stopwatch.stop()

    def measure(self, shape: StepShape) -> None:
        """A step of that shape is committed. Blocks on a GPU until this worker has computed its part."""
        if self._is_asked_for and self._world_size > 1:  # alone there is nobody to share with
            ranks = range(self._world_size)
            self._measured = tuple(
                len(shape.ranks[rank]) if self._by_pieces else shape.samples(rank) for rank in ranks
            )
            self._seconds = self._stopwatch.seconds() if self._measured[self._rank] else 0.0

    def notes(self) -> list[float]:
        """For the next step's sum: a place a rank, of which this worker fills its own."""
        self._sent = self._measured
        ranks = range(self._world_size) if self._is_asked_for else ()
        return [self._seconds if rank == self._rank else 0.0 for rank in ranks]

    def learn(self, notes: Sequence[float]) -> None:
        """What all workers' notes of a step came to: how long each took for its part of the one before."""
        if not self._is_asked_for or not any(self._sent):
            return
        before, self._speeds = self._speeds, self._speeds.after(self._sent, notes)
        if before.settled is not self._speeds.settled:
            self._tell(before.counts)

    def _tell(self, before: tuple[int, ...]) -> None:
        """Every change of shares to who debugs; to the user that this worker's help is none."""
        counts = self._speeds.counts
        LOG.debug("shares by speed: %s, before %s", counts, before)
        if before[self._rank] and not counts[self._rank]:
            LOG.warning(
                "rank %d of %d gets no samples: even one would make the step longer than it is without this "
                "worker. It is tried again now and then; if it stays so, give it to another job",
                self._rank,
                self._world_size,
            )

"""Which samples a step is made of: a position in a seeded permutation, whatever the world size.

A step number alone says which samples it takes, so nothing about data order has to be handed over at a
resize, and every sample of an epoch is seen exactly once.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from fallow.data.batch_plan import MicroBatch
from fallow.errors import DataError

ENDLESS = 1 << 62
"""The length of an epoch that never ends: a stream whose length nobody knows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """The samples of one micro-batch: ``where`` they stand in the data set, or in the stream of ``epoch``."""

    step: int
    micro: MicroBatch
    epoch: int
    where: Sequence[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """The order of ``samples`` items in global batches of ``global_batch``, reshuffled each epoch.

    The last batch of an epoch holds what is left, unless ``drop_last``. ``visit`` gives the indices of an
    epoch in place of the seeded shuffle: the same in every worker, and as many in each epoch.
    """

    samples: int
    global_batch: int
    seed: int
    shuffle: bool = True
    drop_last: bool = False
    visit: Callable[[int], Sequence[int]] | None = None

    def __post_init__(self) -> None:
        if self.samples < 1 or self.steps_per_epoch < 1:
            raise DataError(
                f"a data set of {self.samples} samples gives no global batch of {self.global_batch}"
                + ("; drop_last drops the only one" if self.drop_last else "")
            )

    @property
    def identity(self) -> dict[str, int | float | bool | None]:
        """What two trainings must share for a step number to mean the same samples."""
        return {"samples": self.samples, "shuffle": self.shuffle, "drop_last": self.drop_last}

    @property
    def steps_per_epoch(self) -> int:
        """Global batches in an epoch."""
        if self.drop_last:
            return self.samples // self.global_batch
        return -(-self.samples // self.global_batch)

    def epoch(self, step: int) -> int:
        """The epoch that ``step`` belongs to, 0-based."""
        return step // self.steps_per_epoch

    def permutation(self, epoch: int) -> Sequence[int] | torch.Tensor:
        """All sample indices in the order in which ``epoch`` visits them. Raises DataError."""
        if self.visit is not None:
            visited = self.visit(epoch)
            if len(visited) != self.samples:
                raise DataError(
                    f"order({epoch}) gave {len(visited)} indices where order(0) gave {self.samples}; every "
                    "epoch must have as many samples"
                )
            return visited
        if not self.shuffle:
            return range(self.samples)
        generator = torch.Generator().manual_seed(self.seed * 1_000_003 + epoch)
        return torch.randperm(self.samples, generator=generator)

    def batch_size(self, step: int) -> int:
        """Samples in the global batch of ``step``."""
        start = (step % self.steps_per_epoch) * self.global_batch
        return min(self.global_batch, self.samples - start)


class Course:
    """The way through the epochs of an ``order``; remembers the two newest permutations."""

    def __init__(self, order: Order):
        self.order = order
        self._permutations: dict[int, Sequence[int] | torch.Tensor] = {}

    def piece(self, step: int, micro: MicroBatch) -> Piece:
        """What ``micro`` of ``step`` consists of."""
        where = self._part(step, micro.start, micro.stop)
        return Piece(step=step, micro=micro, epoch=self.order.epoch(step), where=where)

    def samples(self, step: int) -> Sequence[int]:
        """All samples of ``step``, of all workers."""
        return self._part(step, 0, self.order.batch_size(step))

    def _part(self, step: int, first: int, end: int) -> Sequence[int]:
        start = (step % self.order.steps_per_epoch) * self.order.global_batch
        part = self._permutation(self.order.epoch(step))[start + first : start + end]
        return part.tolist() if isinstance(part, torch.Tensor) else part

    def _permutation(self, epoch: int) -> Sequence[int] | torch.Tensor:
        if epoch not in self._permutations:
            if len(self._permutations) > 1:
                del self._permutations[min(self._permutations)]
            self._permutations[epoch] = self.order.permutation(epoch)
        return self._permutations[epoch]

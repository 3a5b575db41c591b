"""Which samples a step is made of: a position in a seeded permutation, whatever the world size.

A step number alone says which samples it takes, so nothing about data order has to be handed over at a
resize, and every sample of an epoch is seen exactly once.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """The order of ``samples`` items in global batches of ``global_batch``, reshuffled each epoch.

    The last batch of an epoch holds what is left, unless ``drop_last``.
    """

    samples: int
    global_batch: int
    seed: int
    shuffle: bool = True
    drop_last: bool = False

    def __post_init__(self) -> None:
        if self.samples < 1 or self.steps_per_epoch < 1:
            raise ValueError(
                f"a data set of {self.samples} samples gives no global batch of {self.global_batch}"
                + ("; drop_last drops the only one" if self.drop_last else "")
            )

    @property
    def steps_per_epoch(self) -> int:
        """Global batches in an epoch."""
        if self.drop_last:
            return self.samples // self.global_batch
        return -(-self.samples // self.global_batch)

    def epoch(self, step: int) -> int:
        """The epoch that ``step`` belongs to, 0-based."""
        return step // self.steps_per_epoch

    def permutation(self, epoch: int) -> Sequence[int]:
        """All sample indices in the order in which ``epoch`` visits them."""
        if not self.shuffle:
            return range(self.samples)
        generator = torch.Generator().manual_seed(self.seed * 1_000_003 + epoch)
        order: list[int] = torch.randperm(self.samples, generator=generator).tolist()
        return order

    def batch_size(self, step: int) -> int:
        """Samples in the global batch of ``step``."""
        start = (step % self.steps_per_epoch) * self.global_batch
        return min(self.global_batch, self.samples - start)

    def indices(self, step: int, permutation: Sequence[int]) -> Sequence[int]:
        """The samples of ``step``, given its epoch's permutation."""
        start = (step % self.steps_per_epoch) * self.global_batch
        return permutation[start : start + self.batch_size(step)]

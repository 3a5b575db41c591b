"""From a data set to the micro-batches that this worker computes.

Where the samples come from, and nothing else: which samples a step has, ``sampling`` says; how they are cut,
``batch`` says.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

import torch

from fallow.batch import MicroBatch

Collate = Callable[[list[Any]], Any]


class Dataset(Protocol):
    """A map-style data set."""

    def __len__(self) -> int: ...
    def __getitem__(self, index: int, /) -> Any: ...


class Feed:
    """Reads samples in the training loop itself."""

    def __init__(self, dataset: Dataset, collate: Collate | None):
        self._dataset = dataset
        self._collate = collate or torch.utils.data.default_collate

    def micro_batches(
        self, indices: Sequence[int], micros: Sequence[MicroBatch]
    ) -> Iterator[tuple[MicroBatch, Callable[[], Any]]]:
        """Each of ``micros`` with what fetches its samples, given all ``indices`` of the step."""
        for micro in micros:
            yield (
                micro,
                lambda micro=micro: self._collate(  # type: ignore[misc]
                    [self._dataset[i] for i in indices[micro.start : micro.stop]]
                ),
            )

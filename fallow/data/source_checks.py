"""What is passed to ``steps`` as a data set but gives ready batches, or can be read only once.

A batch that is taken for a sample trains on something else without a word: its rows are no samples of the
global batch, and a step has as many of them as the global batch has samples, times a batch.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset

from fallow.errors import DataError

LOG = logging.getLogger("fallow")


def check_source(source: Any) -> None:
    """Raises DataError for a wrapped loader or an iterator; warns of what looks like a list of batches."""
    if isinstance(source, DataLoader | Dataset):
        return
    kind = type(source).__name__
    if not hasattr(type(source), "__getitem__"):
        attributes = getattr(source, "__dict__", {})
        name = next((name for name, value in attributes.items() if isinstance(value, DataLoader)), None)
        if name is not None:
            raise DataError(
                f"steps() got a {kind} around a DataLoader (.{name}), which gives ready batches, and those "
                "cannot be cut for another world: pass the loader itself. A progress bar goes around "
                "trainer.steps(...), not around its data"
            )
    if hasattr(type(source), "__next__"):
        raise DataError(
            f"steps() got a {kind}, which can be read only once, and by one worker: pass the data set or the "
            "loader that it reads, or an object whose iter() begins anew each time and gives single samples"
        )
    rows = _rows(source)
    if rows is not None:
        LOG.warning(
            "steps() got a %s whose items look like ready batches, of %d rows each; here an item is one "
            "sample. If they are batches, pass the data set that they were cut from, or single samples",
            kind,
            rows,
        )


def check_order(order: Callable[[int], Sequence[int]]) -> Sequence[int]:
    """The indices of the first epoch. Raises DataError when ``order`` gives others each time."""
    first = order(0)
    if list(first) != list(order(0)):
        raise DataError(
            "order(0) gave other indices when it was asked again, so each worker would train on an order of "
            "its own: draw from a generator that is seeded with the epoch, not from the global one"
        )
    return first


def _rows(source: Any) -> int | None:
    """How many rows each tensor of the first item has, if inputs and their labels have one each."""
    if type(source) not in (list, tuple) or not source:
        return None
    tensors = [part for part in _parts(source[0]) if isinstance(part, torch.Tensor) and part.dim()]
    rows = {len(tensor) for tensor in tensors}
    shallow = [tensor for tensor in tensors if tensor.numel() == len(tensor)]
    if len(tensors) < 2 or len(rows) != 1 or not 0 < len(shallow) < len(tensors):
        return None
    (number,) = rows
    return number if number > 1 else None


def _parts(item: Any) -> Iterator[Any]:
    if isinstance(item, dict):
        yield from item.values()
    elif isinstance(item, list | tuple):
        yield from item

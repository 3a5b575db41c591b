"""What a script passes to ``steps``, understood: a data set, a stream or torch's own loader.

From a loader its data set, collate function, processes, pinning and whether it shuffles are taken; its batch
size is not, because batches are cut anew for each world. A loader that chooses samples in a way of its own is
refused: other samples than the script meant would be trained on, and nothing would look wrong.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from torch.utils.data import BatchSampler, DataLoader, IterableDataset, RandomSampler, SequentialSampler

from fallow.data.batch_plan import BatchError
from fallow.data.dataset import Collate, MapReader, Reader, StreamReader
from fallow.data.prefetch import Loading
from fallow.data.sampler import ENDLESS, Order
from fallow.data.source_checks import check_order, check_source
from fallow.errors import DataError, LoopError


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The arguments of ``steps``; ``None`` leaves a choice to the loader, if one was passed."""

    collate: Collate | None = None
    shuffle: bool | None = None
    drop_last: bool | None = None
    order: Callable[[int], Sequence[int]] | None = None
    workers: int | None = None
    prefetch: int | None = None
    pin_memory: bool | None = None
    worker_init: Callable[[int], None] | None = None
    samples_per_epoch: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Adapter:
    """What to train on: in which order, read by what, how."""

    order: Order
    reader: Reader
    loading: Loading


def take_in(source: Any, asked: Asked, global_batch: int, seed: int, key: int | None) -> Adapter:
    """Understand ``source``; with ``key``, randomness in reading is keyed. Raises DataMistake, BatchError."""
    loader = source if isinstance(source, DataLoader) else None
    dataset = loader.dataset if loader is not None else source
    check_source(source)
    _check_loader(loader, asked)
    loading = _loading(loader, asked)
    drops = getattr(loader.batch_sampler, "drop_last", None) if loader is not None else None
    drop_last = _first(asked.drop_last, drops, False)
    collate = asked.collate or (loader.collate_fn if loader is not None else None)
    if _is_stream(dataset):
        if asked.shuffle or asked.order:
            raise DataError(
                "a stream is read in its own order: shuffle in the data set, and drop shuffle=, order="
            )
        told = _told_length(dataset) if asked.samples_per_epoch is None else None
        order = Order(
            samples=_first(asked.samples_per_epoch, told, ENDLESS),
            global_batch=global_batch,
            seed=seed,
            shuffle=False,
            drop_last=drop_last,
        )
        return Adapter(order=order, reader=StreamReader(dataset, collate, key, told), loading=loading)
    order = Order(
        samples=_length(dataset, asked),
        global_batch=global_batch,
        seed=seed,
        shuffle=_shuffles(loader, asked),
        drop_last=drop_last,
        visit=asked.order,
    )
    return Adapter(order=order, reader=MapReader(dataset, collate, key), loading=loading)


def length(total_steps: int | None, epochs: int | None, order: Order) -> int:
    """The steps of the whole training, asked for one way or the other. Raises LoopMistake."""
    if (total_steps is None) == (epochs is None):
        raise LoopError("steps() takes either total_steps or epochs")
    asked = total_steps if epochs is None else epochs
    if isinstance(asked, bool) or not isinstance(asked, int) or asked < 0:
        raise LoopError(f"steps() cannot train for {asked!r} steps or epochs: pass a whole number")
    if epochs is None:
        return asked
    if order.samples == ENDLESS:
        raise LoopError("this stream has no length, so no epochs: pass total_steps or samples_per_epoch")
    return asked * order.steps_per_epoch


def _is_stream(dataset: Any) -> bool:
    if isinstance(dataset, IterableDataset):
        return True  # whatever it has besides: torch's own can be neither indexed nor, some, measured
    if hasattr(type(dataset), "__getitem__") and hasattr(type(dataset), "__len__"):
        return False
    if hasattr(type(dataset), "__iter__"):
        return True
    raise DataError(
        f"{type(dataset).__name__} can be neither indexed (with a length) nor iterated: pass a data set or a "
        "torch DataLoader to steps()"
    )


def _length(dataset: Any, asked: Asked) -> int:
    if asked.order is not None:
        return len(check_order(asked.order))
    if asked.samples_per_epoch is not None:
        raise DataError("samples_per_epoch is for streams: this data set has a length of its own")
    return len(dataset)


def _told_length(stream: Any) -> int | None:
    """What a stream says of its length, if anything: one that is made of others may not know it."""
    try:
        return len(stream)
    except (TypeError, NotImplementedError):
        return None


def _shuffles(loader: DataLoader[Any] | None, asked: Asked) -> bool:
    if asked.shuffle is not None:
        return asked.shuffle
    if loader is None or asked.order is not None:
        return True
    assert isinstance(loader.batch_sampler, BatchSampler)  # checked: one that can be followed
    return isinstance(loader.batch_sampler.sampler, RandomSampler)


def _check_loader(loader: DataLoader[Any] | None, asked: Asked) -> None:
    """Refuse a loader whose samples would not be those that torch reads from it."""
    if loader is None:
        return
    if loader.batch_sampler is None:
        raise DataError(
            "the loader has batch_size=None: what its data set gives is a ready batch, which cannot be cut "
            "for another world. Let the data set give single samples and the loader have a batch size; if "
            "they are single samples, pass the data set itself to steps()"
        )
    if asked.order is not None or _is_stream(loader.dataset):
        return
    unfollowed = _unfollowed(loader.batch_sampler, len(loader.dataset))
    if unfollowed is not None:
        raise DataError(
            f"the loader draws samples with {unfollowed}, which a resize cannot follow. Pass "
            "order=FUNCTION to steps(): from an epoch's number to its indices, the same in every worker"
        )


def _unfollowed(batched: Any, samples: int) -> str | None:
    """What a loader draws with, unless that reads each of ``samples`` once an epoch, in order or shuffled.

    Of exactly torch's own kinds that is known; one that inherits from them may do anything.
    """
    sampler = batched.sampler if type(batched) is BatchSampler else batched
    kind = type(sampler)
    if kind is not RandomSampler and kind is not SequentialSampler:
        return kind.__name__
    if kind is RandomSampler and sampler.replacement:
        return f"{kind.__name__} with replacement"
    drawn = len(sampler) if len(sampler) != samples else len(sampler.data_source)
    return None if drawn == samples else f"{kind.__name__} of {drawn} out of {samples} samples"


def _loading(loader: DataLoader[Any] | None, asked: Asked) -> Loading:
    workers = _first(asked.workers, getattr(loader, "num_workers", None), 0)
    prefetch = _first(asked.prefetch, getattr(loader, "prefetch_factor", None), 2)
    if workers < 0 or prefetch < 1:
        raise BatchError(
            f"workers={workers} and prefetch={prefetch}: at least 0 processes, each 1 ahead or more"
        )
    return Loading(
        workers=workers,
        prefetch=prefetch,
        pin_memory=_first(asked.pin_memory, getattr(loader, "pin_memory", None), False),
        worker_init=asked.worker_init or getattr(loader, "worker_init_fn", None),
        context=getattr(loader, "multiprocessing_context", None),
        timeout_s=getattr(loader, "timeout", 0.0),
    )


def _first(*choices: Any) -> Any:
    return next(choice for choice in choices if choice is not None)

"""What a script passes to ``steps``, understood: a data set, a stream or torch's own loader.

From a loader its data set, collate function, processes, pinning and whether it shuffles are taken; its batch
size is not, because batches are cut anew for each world. A loader that chooses samples in a way of its own is
refused: other samples than the script meant would be trained on, and nothing would look wrong.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
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


def take_in(
    source: Any,
    request: Asked,
    global_batch: int,
    seed: int,
    key: int | None,
    *,
    device: torch.device | None = None,
) -> Adapter:
    """Understand ``source``; with ``key``, randomness in reading is keyed, that of ``device`` too.

    Raises DataError, BatchError.
    """
    loader = source if isinstance(source, DataLoader) else None
    dataset = loader.dataset if loader is not None else source
    check_source(source)
    _check_loader(loader, request)
    loading = _loading(loader, request)
    drops = getattr(loader.batch_sampler, "drop_last", None) if loader is not None else None
    drop_last = _first(request.drop_last, drops, False)
    collate = request.collate or (loader.collate_fn if loader is not None else None)
    if _is_stream(dataset):
        if request.shuffle or request.order:
            raise DataError(
                "a stream is read in its own order: shuffle in the data set, and drop shuffle=, order="
            )
        known_length = _declared_length(dataset) if request.samples_per_epoch is None else None
        order = Order(
            samples=_first(request.samples_per_epoch, known_length, ENDLESS),
            global_batch=global_batch,
            seed=seed,
            shuffle=False,
            drop_last=drop_last,
        )
        reader: Reader = StreamReader(dataset, collate, key, known_length, device=device)
        return Adapter(order=order, reader=reader, loading=loading)
    order = Order(
        samples=_length(dataset, request),
        global_batch=global_batch,
        seed=seed,
        shuffle=_shuffles(loader, request),
        drop_last=drop_last,
        visit=request.order,
    )
    return Adapter(order=order, reader=MapReader(dataset, collate, key, device=device), loading=loading)


def length(total_steps: int | None, epochs: int | None, order: Order) -> int:
    """The steps of the whole training, asked for one way or the other. Raises LoopError."""
    if (total_steps is None) == (epochs is None):
        raise LoopError("steps() takes either total_steps or epochs")
    limit = total_steps if epochs is None else epochs
    if isinstance(limit, bool) or not isinstance(limit, int) or limit < 0:
        raise LoopError(f"steps() cannot train for {limit!r} steps or epochs: pass a whole number")
    if epochs is None:
        return limit
    if order.samples == ENDLESS:
        raise LoopError("this stream has no length, so no epochs: pass total_steps or samples_per_epoch")
    return limit * order.steps_per_epoch


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


def _length(dataset: Any, request: Asked) -> int:
    if request.order is not None:
        return len(check_order(request.order))
    if request.samples_per_epoch is not None:
        raise DataError("samples_per_epoch is for streams: this data set has a length of its own")
    return len(dataset)


def _declared_length(stream: Any) -> int | None:
    """What a stream says of its length, if anything: one that is made of others may not know it."""
    try:
        return len(stream)
    except (TypeError, NotImplementedError):
        return None


def _shuffles(loader: DataLoader[Any] | None, request: Asked) -> bool:
    if request.shuffle is not None:
        return request.shuffle
    if loader is None or request.order is not None:
        return True
    assert isinstance(loader.batch_sampler, BatchSampler)  # checked: one that can be followed
    return isinstance(loader.batch_sampler.sampler, RandomSampler)


def _check_loader(loader: DataLoader[Any] | None, request: Asked) -> None:
    """Refuse a loader whose samples would not be those that torch reads from it."""
    if loader is None:
        return
    if loader.batch_sampler is None:
        raise DataError(
            "the loader has batch_size=None: what its data set gives is a ready batch, which cannot be cut "
            "for another world. Let the data set give single samples and the loader have a batch size; if "
            "they are single samples, pass the data set itself to steps()"
        )
    if request.order is not None or _is_stream(loader.dataset):
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


def _loading(loader: DataLoader[Any] | None, request: Asked) -> Loading:
    workers = _first(request.workers, getattr(loader, "num_workers", None), 0)
    prefetch = _first(request.prefetch, getattr(loader, "prefetch_factor", None), 2)
    if workers < 0 or prefetch < 1:
        raise BatchError(
            f"workers={workers} and prefetch={prefetch}: at least 0 processes, each 1 ahead or more"
        )
    return Loading(
        workers=workers,
        prefetch=prefetch,
        pin_memory=_first(request.pin_memory, getattr(loader, "pin_memory", None), False),
        worker_init=request.worker_init or getattr(loader, "worker_init_fn", None),
        context=getattr(loader, "multiprocessing_context", None),
        timeout_s=getattr(loader, "timeout", 0.0),
    )


def _first(*choices: Any) -> Any:
    return next(choice for choice in choices if choice is not None)

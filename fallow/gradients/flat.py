"""A model's gradients and running statistics in flat tensors, so that few sums over the group carry all.

The tail holds the extra numbers of the step, how many gradients are odd,
a mark for each parameter that had one and for each buffer that changed, and how far each counter moved.
Nothing here communicates.

Where each tensor of a model lies in a few flat buckets, so that few sums carry all of a step. Pure.

Gradients come in the reverse order of the model, because a backward pass makes them so: a bucket is complete,
and can travel, while the pass is still busy with the layers before it. Buckets are of one dtype each. What is
known only at the end of a step (running statistics, and the numbers of the tail) lies in the last buckets.
"""

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

import torch
from torch import nn

from fallow.state.buffers import Buffers
from fallow.transfers import row_of


@dataclass(frozen=True, slots=True)
class Place:
    """Elements ``[start, start + size)`` of bucket ``bucket``."""

    bucket: int
    start: int
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Places in the order in which the tensors were given; ``sizes`` and ``dtypes`` are the buckets'.

    The first ``early`` buckets hold gradients only.
    """

    gradients: tuple[Place, ...]
    statistics: tuple[Place, ...]
    tail: Place
    sizes: tuple[int, ...]
    dtypes: tuple[torch.dtype, ...]
    early: int

    def members(self, bucket: int) -> tuple[int, ...]:
        """Which gradients lie in ``bucket``, by their number."""
        return tuple(number for number, place in enumerate(self.gradients) if place.bucket == bucket)


def lay_out(
    parameters: Sequence[torch.Tensor],
    statistics: Sequence[torch.Tensor],
    tail: int,
    bucket_bytes: int | None = None,
) -> Layout:
    """Buckets of about ``bucket_bytes`` (default: one a dtype) for the gradients of ``parameters``, given in
    the model's order, for ``statistics``, and for ``tail`` numbers.

    A tensor is never cut. The tail's dtype is the widest real one here, and at least float32: it carries
    plan numbers and sample counts, which half precision could not hold.
    """
    filled: list[_Bucket] = []
    filling: dict[torch.dtype, _Bucket] = {}
    for number, parameter in reversed(list(enumerate(parameters))):
        bucket = filling.setdefault(parameter.dtype, _Bucket(parameter.dtype))
        bucket.gradients.append((number, parameter.numel()))
        if bucket_bytes is not None and bucket.nbytes >= bucket_bytes and number > 0:
            filled.append(filling.pop(parameter.dtype))
    for number, statistic in enumerate(statistics):
        bucket = filling.setdefault(statistic.dtype, _Bucket(statistic.dtype))
        bucket.statistics.append((number, statistic.numel()))
    numbers = _numbers((*parameters, *statistics))
    last = filling.pop(numbers, _Bucket(numbers))
    complete = [bucket for bucket in filling.values() if not bucket.statistics]
    mixed = [bucket for bucket in filling.values() if bucket.statistics]
    return _placed([*filled, *complete], [*mixed, last], tail)


@dataclass(slots=True)
class _Bucket:
    dtype: torch.dtype
    gradients: list[tuple[int, int]] = field(default_factory=list)  # number, size
    statistics: list[tuple[int, int]] = field(default_factory=list)

    @property
    def nbytes(self) -> int:
        return sum(size for _, size in self.gradients) * int(self.dtype.itemsize)

    @property
    def sizes(self) -> list[int]:
        return [size for _, size in (*self.gradients, *self.statistics)]


def _placed(early: Sequence[_Bucket], late: Sequence[_Bucket], tail: int) -> Layout:
    gradients: dict[int, Place] = {}
    statistics: dict[int, Place] = {}
    buckets = [*early, *late]
    for at, bucket in enumerate(buckets):
        starts = list(accumulate(bucket.sizes, initial=0))
        for (number, size), start in zip(bucket.gradients, starts, strict=False):
            gradients[number] = Place(at, start, size)
        for (number, size), start in zip(bucket.statistics, starts[len(bucket.gradients) :], strict=False):
            statistics[number] = Place(at, start, size)
    sizes = [sum(bucket.sizes) for bucket in buckets]
    end = Place(len(buckets) - 1, sizes[-1], tail)
    return Layout(
        gradients=tuple(gradients[number] for number in range(len(gradients))),
        statistics=tuple(statistics[number] for number in range(len(statistics))),
        tail=end,
        sizes=(*sizes[:-1], sizes[-1] + tail),
        dtypes=tuple(bucket.dtype for bucket in buckets),
        early=len(early),
    )


def _numbers(tensors: Iterable[torch.Tensor]) -> torch.dtype:
    return max(
        (tensor.dtype for tensor in tensors if tensor.dtype in (torch.float32, torch.float64)),
        key=lambda dtype: dtype.itemsize,
        default=torch.float32,
    )


Storage = list[torch.Tensor]
"""One 1-d tensor a bucket, as ``Flat.allocate`` makes them."""
SLACK = 1024
"""Elements to spare in an allocation, so that it still fits a tail or a padding that has changed a little."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """What the tail says after the sum: the ``extras``, over all workers; which parameters had a gradient
    anywhere; how many gradients were out of the ordinary; and which tables of whole numbers somebody changed.
    """

    extras: list[float]
    present: tuple[bool, ...]
    odd: int
    tables: tuple[int, ...]


class Flat:
    """The buckets of one model; ``extras`` further numbers travel with it. ``buffers`` are the model's as it
    was built, if that was before.
    """

    def __init__(
        self,
        model: nn.Module,
        extras: int,
        bucket_bytes: int | None = None,
        buffers: Buffers | None = None,
    ):
        self._all = list(model.parameters())
        self.parameters = [parameter for parameter in self._all if parameter.requires_grad]
        self.buffers = buffers or Buffers(model)
        self._extras = extras
        self.device = next((tensor.device for tensor in model.parameters()), torch.device("cpu"))
        tail = extras + 1 + len(self.parameters) + self.buffers.marks + self.buffers.counters
        self.layout: Layout = lay_out(self.parameters, self.buffers.statistics, tail, bucket_bytes)

    def allocate(self, multiple: int = 1, spare: Storage | None = None) -> Storage:
        """Storage with anything in it, each bucket padded to a multiple of ``multiple`` elements.

        What fits of ``spare``, which nobody may need any more, is used again: fresh memory is slow.
        """
        spare_storages = list(spare or ())
        return [
            self._take(-(-size // multiple) * multiple, dtype, spare_storages)
            for size, dtype in zip(self.layout.sizes, self.layout.dtypes, strict=True)
        ]

    def begin(self) -> None:
        """No parameter has a gradient afterwards, a frozen one neither, and buffers are kept as they are."""
        for parameter in self._all:
            parameter.grad = None
        self.buffers.keep()

    def drop_gradients(self) -> None:
        """No trainable parameter has a gradient afterwards."""
        for parameter in self.parameters:
            parameter.grad = None

    def gradients(self, storage: Storage) -> list[torch.Tensor]:
        """The place of each parameter's gradient in ``storage``, in the parameter's shape."""
        pairs = zip(self.parameters, self.layout.gradients, strict=True)
        return [_view(storage, place).view(parameter.shape) for parameter, place in pairs]

    def write(self, storage: Storage, fraction: float, extras: Sequence[float | torch.Tensor]) -> None:
        """Everything: the gradients as they are, zeros where there are none, and the rest."""
        for parameter, view in zip(self.parameters, self.gradients(storage), strict=True):
            put(view, parameter.grad)
        present = [parameter.grad is not None for parameter in self.parameters]
        self.write_rest(storage, fraction, extras, present, len(self.sparse()))

    def add(self, storage: Storage, fraction: float, extras: Sequence[float | torch.Tensor]) -> None:
        """What ``write`` would write, added to what is there: the same bits in one pass over the memory."""
        for parameter, view in zip(self.parameters, self.gradients(storage), strict=True):
            view.add_(
                0.0 if parameter.grad is None else _dense(parameter.grad)
            )  # as zeros do: -0.0 becomes 0.0
        for view, statistic in zip(self._statistics(storage), self.buffers.values(), strict=True):
            if statistic is not None:
                view.add_(statistic * fraction)
        present = [parameter.grad is not None for parameter in self.parameters]
        tail = _view(storage, self.layout.tail)
        tail.add_(row_of(self._tail(extras, present, len(self.sparse())), tail.dtype, tail.device))

    def present(self) -> set[int]:
        """Which parameters, by their number, have a gradient."""
        return {number for number, parameter in enumerate(self.parameters) if parameter.grad is not None}

    def sparse(self) -> set[int]:
        """Which parameters, by their number, have a gradient that isn't dense."""
        return {
            number
            for number, parameter in enumerate(self.parameters)
            if parameter.grad is not None and parameter.grad.layout is not torch.strided
        }

    def write_rest(
        self,
        storage: Storage,
        fraction: float,
        extras: Sequence[float | torch.Tensor],
        present: Sequence[bool],
        odd: int,
    ) -> None:
        """The statistics times ``fraction``, and the tail. Without a part of the step there is nothing to
        give, not even zero times what is infinite, and what a pass that isn't counted changed is undone.
        """
        if not fraction:
            self.buffers.rewind()
        for view, statistic in zip(self._statistics(storage), self.buffers.values(), strict=True):
            if statistic is None or not fraction:
                view.zero_()
            else:
                torch.mul(statistic, fraction, out=view)
        tail = _view(storage, self.layout.tail)
        tail.copy_(row_of(self._tail(extras, present, odd), tail.dtype, tail.device))

    def numbers(self, storage: Storage) -> list[float]:
        """What the tail says, to be looked at and given to ``read``. Waits for the device, once."""
        values: list[float] = _view(storage, self.layout.tail).tolist()
        return values

    def read(self, storage: Storage, numbers: list[float]) -> Totals:
        """Give each parameter its summed gradient, if any worker had one, and settle the buffers, except for
        tables. The gradients are views of ``storage``.
        """
        extras, (odd, *rest) = numbers[: self._extras], numbers[self._extras :]
        present = tuple([mark > 0 for mark in rest[: len(self.parameters)]])
        changes = rest[len(self.parameters) :]
        self._give(storage, present)
        marks, moves = changes[: self.buffers.marks], changes[self.buffers.marks :]
        tables = self.buffers.settle(self._statistics(storage), marks, moves)
        return Totals(extras=extras, present=present, odd=round(odd), tables=tables)

    def take_unread(self, storage: Storage, present: Container[int]) -> None:
        """As ``read``, and what follows it, for what this worker alone gave; waits for no device. ``present``
        are the numbers of the parameters that had a gradient.
        """
        self._give(storage, [number in present for number in range(len(self.parameters))])
        changes = _view(storage, self.layout.tail)[self._extras + 1 + len(self.parameters) :]
        marks, moves = changes[: self.buffers.marks], changes[self.buffers.marks :]
        self.buffers.settle_unread(self._statistics(storage), marks, moves)

    @property
    def numbers_dtype(self) -> torch.dtype:
        """Of the tail, in which all numbers are summed."""
        return self.layout.dtypes[self.layout.tail.bucket]

    def extras(self, storage: Storage) -> torch.Tensor:
        """The extra numbers in ``storage``, as a view."""
        return _view(storage, self.layout.tail)[: self._extras]

    def _give(self, storage: Storage, present: Iterable[bool]) -> None:
        """Each parameter its summed gradient, if there was one."""
        for parameter, view, had in zip(self.parameters, self.gradients(storage), present, strict=True):
            parameter.grad = view if had else None

    def _tail(
        self, extras: Sequence[float | torch.Tensor], present: Sequence[bool], odd: int
    ) -> list[float | torch.Tensor]:
        changes = self.buffers.look()
        return [*extras, odd, *present, *changes.marks, *changes.moves]

    def _statistics(self, storage: Storage) -> list[torch.Tensor]:
        pairs = zip(self.buffers.statistics, self.layout.statistics, strict=True)
        return [_view(storage, place).view(like.shape) for like, place in pairs]

    def _take(self, size: int, dtype: torch.dtype, rest: Storage) -> torch.Tensor:
        for at, tensor in enumerate(rest):
            elements = tensor.untyped_storage().nbytes() // dtype.itemsize
            if tensor.dtype is dtype and size <= elements <= size + 4 * SLACK:
                return rest.pop(at).as_strided((size,), (1,), 0)
        return torch.empty(size + SLACK, dtype=dtype, device=self.device)[:size]


def put(view: torch.Tensor, gradient: torch.Tensor | None) -> None:
    """Write a gradient of any layout, or zeros for none, into its place."""
    if gradient is None:
        view.zero_()
    else:
        view.copy_(_dense(gradient))


def on_wire(bucket: torch.Tensor) -> torch.Tensor:
    """The bucket as real numbers, which is what groups can sum."""
    return torch.view_as_real(bucket).view(-1) if bucket.is_complex() else bucket


def _dense(gradient: torch.Tensor) -> torch.Tensor:
    return gradient if gradient.layout is torch.strided else gradient.to_dense()


def _view(storage: Storage, place: Place) -> torch.Tensor:
    return storage[place.bucket][place.start : place.start + place.size]

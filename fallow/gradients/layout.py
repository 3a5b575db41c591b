"""Where each tensor of a model lies in a few flat buckets, so that few sums carry all of a step. Pure.

Gradients come in the reverse order of the model, because a backward pass makes them so: a bucket is complete,
and can travel, while the pass is still busy with the layers before it. Buckets are of one dtype each. What is
known only at the end of a step (running statistics, and the numbers of the tail) lies in the last buckets.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

import torch


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

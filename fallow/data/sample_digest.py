"""Whether the workers of a step computed just the samples that it is made of, each as often as it should be.

Every worker knows a step's samples by itself: from a position in the epoch's order. Where workers know
different ones (an order that each drew for itself, data sets of different lengths) samples are lost and
others doubled, and nothing looks wrong. So two hashes ride in the step's sum: of the samples that a worker
computed, and of those that it takes the whole step to have. What is hashed are indices into a data set, or
positions in a stream; what lies there, is not looked at.

A hash of samples is the sum of their own, so it doesn't depend on how a step is cut, nor on its order.
"""

import struct
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any
from zlib import crc32

import torch

from fallow.data.batch_plan import StepShape
from fallow.data.sampler import Piece
from fallow.errors import DataError
from fallow.process_group.collectives import Group, GroupBroken

MODULI = (4093, 4091)
"""Primes whose multiples by 4,096 workers are exact in float32. Together a step with other samples is taken
for right once in 16 million times."""
NOTES = 2 * len(MODULI)
"""What rides in a step's sum: the hash of this worker's samples, and of the whole step's, by each modulus."""
FIRST_STEPS = 3
"""Alone there is nobody to differ from: the bookkeeping is looked at in so many steps, and then left out."""
MOST_NAMED = 8
"""Samples that a message names before it says how many more there are."""
_PACK = struct.Struct("<q").pack


class SampleDigest:
    """One worker's, of the step in hand."""

    def __init__(self) -> None:
        self._left = FIRST_STEPS
        self._watches = False
        self._shape: StepShape | None = None
        self._whole: Callable[[], Sequence[Any]] = list
        self._given: list[Piece] = []
        self._expected: int | None = None

    def begin(self, shape: StepShape, samples: Callable[[], Sequence[Any]]) -> None:
        """A step of ``shape`` begins (again); ``samples`` gives its samples, for all workers."""
        self._watches = shape.world_size > 1 or self._left > 0
        self._shape, self._whole, self._given, self._expected = shape, samples, [], None

    def add(self, piece: Piece) -> None:
        """The script got these samples."""
        if self._watches:
            self._given.append(piece)

    def notes(self) -> list[float]:
        """This worker's part of the step's sum; nothing from one without samples."""
        if not self._watches or not self._given:
            return [0.0] * NOTES
        mine = sum(hash_of(piece.where) for piece in self._given)
        total = self._hash_of_all()
        return [float(each % modulus) for each in (mine, total) for modulus in MODULI]

    def check(self, summed: Sequence[float], step: int, group: Group, device: torch.device) -> None:
        """What all workers' notes came to, before anything is updated. Raises DataError in all of them."""
        if not self._watches or self._shape is None:
            return
        self._left -= self._left > 0
        own = self._hash_of_all()
        workers = sum(bool(rank) for rank in self._shape.ranks)
        for modulus, mine, theirs in zip(MODULI, summed, summed[len(MODULI) :], strict=False):
            expected = own % modulus
            if round(mine) % modulus != expected or round(theirs) != workers * expected:
                raise DataError(self._text(step, group, device))

    def _hash_of_all(self) -> int:
        if self._expected is None:
            self._expected = hash_of(self._whole())
        return self._expected

    def _text(self, step: int, group: Group, device: torch.device) -> str:
        """What was lost and what was doubled, as this worker sees it. All workers come here together."""
        hashes = [_number(sample) for sample in self._whole()]
        try:
            computed = Counter(self._of_all(group, device))
            lost, more = Counter(hashes) - computed, computed - Counter(hashes)
            what = f"{_named(lost)} were read by nobody, and {_named(more)} once too often, or wrongly"
        except GroupBroken:
            what = "some were read by nobody, and others twice"
        return (
            f"step {step}: the workers do not agree about its samples; nothing was updated. Of the "
            f"{len(hashes)} that rank {group.rank} knows, {what}. All workers must go through one data set "
            "in one order: let order= draw from a generator that is seeded with the epoch, and not go by "
            "what differs between processes (a set, a listed folder, the rank)"
        )

    def _of_all(self, group: Group, device: torch.device) -> list[int]:
        """The samples that all workers were given. Raises GroupBroken."""
        mine = [_number(sample) for piece in self._given for sample in piece.where]
        counts = torch.zeros(group.world_size, dtype=torch.int64, device=device)
        counts[group.rank] = len(mine)
        group.all_reduce([counts])
        lengths = counts.tolist()
        samples = torch.zeros(sum(lengths), dtype=torch.int64, device=device)
        start = sum(lengths[: group.rank])
        samples[start : start + len(mine)] = torch.tensor(mine, dtype=torch.int64, device=device)
        group.all_reduce([samples])
        numbers: list[int] = samples.tolist()
        return numbers


def hash_of(samples: Iterable[Any]) -> int:
    """The sum of the samples' hashes, the same in every process and whatever their order."""
    try:
        return sum(map(crc32, map(_PACK, samples)))
    except (struct.error, TypeError):  # no whole numbers: keys of the script's own
        return sum(map(_number, samples))


def _number(sample: Any) -> int:
    """A whole number for one sample: itself, or a hash of a key; 0 for what has no lasting text."""
    if isinstance(sample, str | bytes | float | tuple):
        return crc32(repr(sample).encode())
    try:
        return int(sample.__index__())
    except AttributeError:
        return 0


def _named(samples: Counter[int]) -> str:
    named = sorted(samples.elements())
    more = f" and {len(named) - MOST_NAMED} more" if len(named) > MOST_NAMED else ""
    return f"{len(named)} ({', '.join(map(str, named[:MOST_NAMED]))}{more})" if named else "none"

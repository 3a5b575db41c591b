"""Which samples of a global batch each rank has, and what has to move when that changes. Pure.

Samples keep their order: a rank has an interval of them, and intervals follow each other in rank order, so
two ways of sharing them overlap in intervals too.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from fallow.burst.plan import BadPlan


@dataclass(frozen=True, slots=True)
class Shares:
    """``ends[r]`` is where rank ``r``'s samples end and the next rank's begin."""

    ends: tuple[int, ...]

    def of(self, rank: int) -> tuple[int, int]:
        """The half-open interval of samples that ``rank`` has; empty where it has none."""
        return (self.ends[rank - 1] if rank else 0), self.ends[rank]

    def count(self, rank: int) -> int:
        """How many samples ``rank`` has."""
        start, stop = self.of(rank)
        return stop - start


@dataclass(frozen=True, slots=True, kw_only=True)
class Moves:
    """What one rank sends and receives, as (other rank, start, stop) of its own samples before and after.

    ``stays`` is (start before, start after, samples) of what it has before and after.
    """

    sends: tuple[tuple[int, int, int], ...]
    receives: tuple[tuple[int, int, int], ...]
    stays: tuple[int, int, int]


def by_counts(counts: Sequence[int]) -> Shares:
    """Shares of so many samples, rank by rank."""
    return Shares(tuple(accumulate(counts)))


def on_ranks(samples: int, world_size: int, first_rank: int, gpus: int) -> Shares:
    """``samples`` cut evenly over ``gpus`` ranks from ``first_rank`` on; the first ones have one more.

    Raises: BadPlan for ranks that are not there.
    """
    if first_rank < 0 or gpus < 1 or first_rank + gpus > world_size:
        raise BadPlan(f"ranks {first_rank} to {first_rank + gpus - 1} are not among {world_size}")
    less, more = divmod(samples, gpus)
    counts = [0] * world_size
    for place in range(gpus):
        counts[first_rank + place] = less + (place < more)
    return by_counts(counts)


def moves(before: Shares, after: Shares, rank: int) -> Moves:
    """What ``rank`` sends, receives and keeps when the samples of ``before`` become those of ``after``."""
    mine_before, mine_after = before.of(rank), after.of(rank)
    sends, receives = [], []
    for other in range(len(before.ends)):
        if other == rank:
            continue
        if overlap := _overlap(mine_before, after.of(other)):
            sends.append((other, overlap[0] - mine_before[0], overlap[1] - mine_before[0]))
        if overlap := _overlap(before.of(other), mine_after):
            receives.append((other, overlap[0] - mine_after[0], overlap[1] - mine_after[0]))
    common = _overlap(mine_before, mine_after) or (mine_before[0], mine_before[0])
    return Moves(
        sends=tuple(sends),
        receives=tuple(receives),
        stays=(common[0] - mine_before[0], max(common[0] - mine_after[0], 0), common[1] - common[0]),
    )


def _overlap(one: tuple[int, int], other: tuple[int, int]) -> tuple[int, int] | None:
    start, stop = max(one[0], other[0]), min(one[1], other[1])
    return (start, stop) if start < stop else None

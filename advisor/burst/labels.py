"""Sets of alternatives none of which is better in everything, and where each came from. Pure.

A *label* is what a part of a plan costs: time, GPU-time and, where memory is bounded, bytes. Sets are
combined in a row (all add up) or side by side (the longer time counts, the rest adds up), and only what is
not dominated is kept.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Index = npt.NDArray[np.intp]

# Columns of `Labels.costs`; memory is there only where the plan has a memory limit.
TIME, GPU_TIME, MEMORY = 0, 1, 2

BLOCK = 256
"""Labels compared at once in the filter of three costs: large enough for numpy, small enough to stay in
cache.
"""


@dataclass(frozen=True, slots=True)
class Chosen:
    """One layer's place: its name, its first GPU within the group, and how many GPUs it has."""

    layer: str
    first_rank: int
    gpus: int


@dataclass(frozen=True, slots=True)
class Labels:
    """``costs`` has a row a label. ``trace(row)`` yields where each layer of that label lies."""

    costs: Array
    trace: Callable[[int], Iterator[Chosen]]

    def __len__(self) -> int:
        return len(self.costs)

    def only(self, rows: Index) -> "Labels":
        """Those rows alone."""
        trace = self.trace
        return Labels(self.costs[rows], lambda row: trace(int(rows[row])))

    def plus(self, cost: Array) -> "Labels":
        """``cost`` more for each."""
        return Labels(self.costs + cost, self.trace)

    def moved(self, ranks: int) -> "Labels":
        """On GPUs further up by ``ranks``."""
        trace = self.trace

        def further(row: int) -> Iterator[Chosen]:
            return (Chosen(each.layer, each.first_rank + ranks, each.gpus) for each in trace(row))

        return Labels(self.costs, further)


def single(cost: Sequence[float], chosen: Sequence[Chosen] = ()) -> Labels:
    """One label."""
    return Labels(np.array([cost], dtype=float), lambda _: iter(chosen))


def union(sets: Sequence[Labels]) -> Labels:
    """All labels of several sets, the dominated ones too."""
    if len(sets) == 1:
        return sets[0]
    ends = np.cumsum([len(each) for each in sets])

    def trace(row: int) -> Iterator[Chosen]:
        place = int(np.searchsorted(ends, row, side="right"))
        return sets[place].trace(row - int(ends[place - 1]) if place else row)

    return Labels(np.concatenate([each.costs for each in sets]), trace)


def in_a_row(first: Labels, second: Labels) -> Labels:
    """Every label of ``first`` with every one of ``second`` behind it."""
    many = len(second)

    def trace(row: int) -> Iterator[Chosen]:
        yield from first.trace(row // many)
        yield from second.trace(row % many)

    costs = (first.costs[:, None, :] + second.costs[None, :, :]).reshape(-1, first.costs.shape[1])
    return Labels(costs, trace)


def side_by_side(first: Labels, second: Labels) -> Labels:
    """Both at once: the longer time counts, GPU-time and bytes add up. Both are undominated and ascend by
    time.

    With two costs each time of either set takes the cheapest of both that are as fast, so none is dominated.
    """
    if first.costs.shape[1] == 2:
        times = np.concatenate((first.costs[:, TIME], second.costs[:, TIME]))
        times.sort()
        times = times[times >= max(first.costs[0, TIME], second.costs[0, TIME])]
        first_at = np.searchsorted(first.costs[:, TIME], times, side="right") - 1
        right = np.searchsorted(second.costs[:, TIME], times, side="right") - 1
        costs = np.column_stack((times, first.costs[first_at, GPU_TIME] + second.costs[right, GPU_TIME]))
    else:
        first_at, right = (each.ravel() for each in np.indices((len(first), len(second))))
        costs = first.costs[first_at] + second.costs[right]
        costs[:, TIME] = np.maximum(first.costs[first_at, TIME], second.costs[right, TIME])

    def trace(row: int) -> Iterator[Chosen]:
        yield from first.trace(int(first_at[row]))
        yield from second.trace(int(right[row]))

    labels = Labels(costs, trace)
    return labels if costs.shape[1] == 2 else pareto(labels)


def pareto(labels: Labels) -> Labels:
    """The labels that no other one equals or beats in every cost, by ascending time."""
    return labels.only(efficient(labels.costs)) if len(labels) > 1 else labels


def efficient(costs: Array) -> Index:
    """Rows of ``costs`` that no other row equals or beats in every column, by ascending first column."""
    order = np.lexsort(costs.T[::-1])
    costs = costs[order]
    if costs.shape[1] == 2:
        least = np.minimum.accumulate(costs[:, 1])
        return order[np.concatenate(([True], costs[1:, 1] < least[:-1]))]
    front = np.empty((0, costs.shape[1]))
    rows = []
    for start in range(0, len(costs), BLOCK):
        block = costs[start : start + BLOCK]
        alive = np.flatnonzero(~_beaten(block, front))
        alive = alive[~_beaten_earlier(block[alive])]
        front = np.concatenate((front, block[alive]))
        rows.append(order[start + alive])
    return np.concatenate(rows)


def _beaten(block: Array, by: Array) -> npt.NDArray[np.bool_]:
    """Which rows of ``block`` some row of ``by`` equals or beats in all columns."""
    beaten = np.zeros(len(block), dtype=bool)
    for start in range(0, len(by), 8 * BLOCK):
        part = by[start : start + 8 * BLOCK]
        beaten |= np.any(np.all(part[None, :, :] <= block[:, None, :], axis=2), axis=1)
    return beaten


def _beaten_earlier(block: Array) -> npt.NDArray[np.bool_]:
    """Which rows an earlier row of the same block equals or beats; rows ascend lexicographically."""
    below = np.all(block[None, :, :] <= block[:, None, :], axis=2)
    return np.asarray(np.any(np.tril(below, -1), axis=1))

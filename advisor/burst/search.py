"""The cheapest way through a row of elements under one limit, with proof. Pure.

Minimizes one cost (time, or GPU-time) where another has a limit. A price on the limited cost makes the
problem a shortest path; the best price (Handler and Zang 1980, "A dual algorithm for the constrained shortest
path problem") gives a plan, a lower bound for every plan, and for each place the least that is still to come.
Labels are then made only where limit, plan and bound allow something better, so the result is the optimum,
not the best that was met.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from advisor.burst.labels import Array, Chosen, Index, Labels, pareto, union
from advisor.burst.sweep import Element, sweep

TOLERANCE = 1e-9
"""Relative: sums of the same times in another order differ by less."""

MOST_PRICES = 40
"""Prices tried; each step removes one corner of a convex hull, and tables of real models have fewer than
20.
"""

MOST_LABELS = 20_000
"""Labels kept at one place. Beyond it every second one of neighbours in time is let go, and the gap says
so.
"""


@dataclass(frozen=True, slots=True)
class Best:
    """The best labels' costs, its layers, and a bound that no plan is below; they are equal unless labels
    were let go.
    """

    costs: Array
    chosen: tuple[Chosen, ...]
    bound: float


class Infeasible(ValueError):
    """No way through keeps the limit. ``least`` is the least of the limited cost."""

    def __init__(self, least: float) -> None:
        super().__init__(f"the least that can be reached is {least:.6g}")
        self.least = least


class Row:
    """A row of elements, prepared for many searches."""

    def __init__(self, elements: Sequence[Element]) -> None:
        self.elements = elements
        self._flat = [_Flat(element) for element in elements]

    def to_go(self, weights: Array) -> list[Array]:
        """For each place and state: the least weighted cost of all elements behind it. The first has one
        entry.
        """
        costs = [np.zeros(len(self.elements[-1].states))]
        for flat in reversed(self._flat):
            costs.append((flat.least(weights) + costs[-1][None, :]).min(axis=1))
        return costs[::-1]

    def cheapest(self, weights: Array) -> tuple[Array, tuple[Chosen, ...]]:
        """The way of least weighted cost: its costs and layers."""
        rest = self.to_go(weights)
        state, costs = 0, np.zeros(len(weights))
        chosen: list[Chosen] = []
        for place, element in enumerate(self.elements):
            worth = [
                (float((labels.costs @ weights).min()) + rest[place + 1][j]) if len(labels) else np.inf
                for j, labels in enumerate(element.arcs[state])
            ]
            j = int(np.argmin(worth))
            labels = element.arcs[state][j]
            row = int((labels.costs @ weights).argmin())
            costs = costs + labels.costs[row]
            chosen.extend(labels.trace(row))
            state = j
        return costs, tuple(chosen)

    def best(self, aim: int, limits: dict[int, float]) -> Best:
        """The way of the least cost ``aim`` of which no limited cost is above its limit. Raises:
        Infeasible.
        """
        size = self.elements[0].arcs[0][0].costs.shape[1]
        unit = np.eye(size)
        limits = {cost: limit * (1 + TOLERANCE) for cost, limit in limits.items()}
        for cost, limit in limits.items():
            least, _ = self.cheapest(unit[cost])
            if least[cost] > limit:
                raise Infeasible(float(least[cost]))
        free, free_chosen = self.cheapest(unit[aim])
        if _within(free, limits):
            return Best(free, free_chosen, float(free[aim]))
        prices, best, chosen, bound = self._priced(aim, limits, unit)
        labels, complete = self._labelled(aim, limits, prices, best)
        if labels is not None:
            row = int(labels.costs[:, aim].argmin())
            if best is None or labels.costs[row, aim] < best[aim]:
                best, chosen = labels.costs[row], tuple(labels.trace(row))
        if best is None:
            raise Infeasible(float("nan"))
        return Best(best, chosen, float(best[aim]) if complete else min(bound, float(best[aim])))

    def _priced(
        self, aim: int, limits: dict[int, float], unit: Array
    ) -> tuple[list[Array], Array | None, tuple[Chosen, ...], float]:
        """Prices that bound well, the best way met within the limits, and the best bound."""
        main = next(iter(limits))
        limit = limits[main]
        prices: list[Array] = [unit[aim], *(unit[cost] for cost in limits)]
        inside, inside_chosen = self.cheapest(unit[main])
        outside, _ = self.cheapest(unit[aim])
        bound = float(outside[aim])
        best: Array | None = None
        chosen: tuple[Chosen, ...] = ()
        if _within(inside, limits):
            best, chosen = inside, inside_chosen
        for _ in range(MOST_PRICES):
            gain, cost = inside[aim] - outside[aim], outside[main] - inside[main]
            if gain <= 0 or cost <= 0:
                break
            weights = unit[aim] + gain / cost * unit[main]
            met, met_chosen = self.cheapest(weights)
            bound = max(bound, float(met @ weights - gain / cost * limit))
            prices.append(weights)
            if _within(met, limits) and (best is None or met[aim] < best[aim]):
                best, chosen = met, met_chosen
            if met @ weights >= min(inside @ weights, outside @ weights) * (1 - TOLERANCE):
                break
            if met[main] <= limit:
                inside = met
            else:
                outside = met
        return [*prices[: 1 + len(limits)], *prices[1 + len(limits) :][-3:]], best, chosen, bound

    def _labelled(
        self, aim: int, limits: dict[int, float], prices: Sequence[Array], best: Array | None
    ) -> tuple[Labels | None, bool]:
        """All undominated ways that may be better than ``best``, and whether none was let go."""
        tests = [(weights, self.to_go(weights), _ceiling(weights, aim, limits, best)) for weights in prices]

        def prune(costs: Array, place: int, state: int) -> Index:
            alive = np.ones(len(costs), dtype=bool)
            for weights, rest, ceiling in tests:
                alive &= costs @ weights + rest[place + 1][state] <= ceiling
            return np.flatnonzero(alive)

        ends, complete = sweep(self.elements, prune, MOST_LABELS)
        ends = [labels for labels in ends if len(labels)]
        return (pareto(union(ends)) if ends else None), complete


class _Flat:
    """All arcs of an element in one array, so that a price is applied to all at once."""

    def __init__(self, element: Element) -> None:
        cells = [labels for row in element.arcs for labels in row]
        self._shape = (len(element.arcs), len(element.states))
        self._empty = np.array([not len(labels) for labels in cells])
        sizes = [len(labels) for labels in cells if len(labels)]
        self._starts = np.concatenate(([0], np.cumsum(sizes)[:-1])).astype(np.intp)
        self._costs = np.concatenate([labels.costs for labels in cells])

    def least(self, weights: Array) -> Array:
        """The least weighted cost for each pair of states; infinite where there is no way."""
        least = np.full(len(self._empty), np.inf)
        least[~self._empty] = np.minimum.reduceat(self._costs @ weights, self._starts)
        return least.reshape(self._shape)


def _within(costs: Array, limits: dict[int, float]) -> bool:
    return all(costs[cost] <= limit for cost, limit in limits.items())


def _ceiling(weights: Array, aim: int, limits: dict[int, float], best: Array | None) -> float:
    """What a way may weigh at most, if it keeps the limits and is better than the known one."""
    ceiling = 0.0
    for cost, weight in enumerate(weights):
        if weight == 0:
            continue
        if cost == aim:
            if best is None:
                return np.inf
            ceiling += weight * best[aim]
        else:
            ceiling += weight * limits[cost]
    return float(ceiling * (1 + TOLERANCE))

"""DeepPool's published planner, re-implemented to be held against: a choice layer by layer. Not in the
product.

For each layer and number of GPUs (powers of two) it keeps the fastest way there, among predecessors whose
layer's own amplification (its time on g GPUs times g, over its time on one) is below the limit, or the lowest
met; layers of under 300 us are not asked. Branches are planned from each number of GPUs before the fork as if
each had GPUs of its own. Read from the published repository at 7f823f2; in the cost model of
``advisor.burst`` so that both plan the same thing.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from advisor.burst.cost import Setting, compute, exchange, gradient_sum, widths
from advisor.burst.labels import Chosen
from fallow.burst.table import Fork, Layer, LayerTable, every_layer
from fallow.burst.table import Sequence as Nodes

ASKED_FROM_US = 300.0
"""Layers that take less on one GPU count as amplification 1, as in the original."""


@dataclass(slots=True)
class _At:
    """The best way to have a layer on some GPUs: its end, its own time, and the choices before."""

    end: float
    own: float
    chosen: dict[str, int] = field(default_factory=dict)


def plan(table: LayerTable, setting: Setting, limit: float) -> tuple[Chosen, ...]:
    """Where the greedy puts each layer; branches beside the longest one have GPUs of their own while there
    are some.
    """
    ends = _Greedy(setting, limit).row(table.layers, None, {})
    best = min(ends.values(), key=lambda at: at.end)
    return tuple(_placed(table.layers, best.chosen, 0, setting.gpus, setting))


class _Greedy:
    def __init__(self, setting: Setting, limit: float) -> None:
        self._setting, self._limit = setting, limit
        self._states = widths(setting)

    def row(self, nodes: Nodes, before: Layer | None, at: dict[int, _At]) -> dict[int, _At]:
        """The best ways to the last layer of ``nodes``, from the ways to the layer before them."""
        fork: Fork | None = None
        for node in nodes:
            if isinstance(node, Fork):
                fork = node
                continue
            if before is None:
                at = {
                    gpus: _At(self._own(node, gpus), self._own(node, gpus), {node.name: gpus})
                    for gpus in self._states
                }
            elif fork is None:
                at = {gpus: self._best(before, node, at, gpus) for gpus in self._states}
            else:
                at, fork = self._joined(fork, before, node, at), None
            before = node
        return at

    def _own(self, layer: Layer, gpus: int) -> float:
        return compute(layer, gpus, self._setting) + gradient_sum(layer, gpus, self._setting.network)

    def _best(self, before: Layer, layer: Layer, at: dict[int, _At], gpus: int) -> _At:
        """The predecessor with the earliest end that is within the limit, or nearer to it than those
        before.
        """
        alone = self._own(before, 1)
        best, lowest = None, float("inf")
        for gpus_before, way in at.items():
            moved = exchange(before.output, gpus_before, gpus, self._setting)
            own = moved + self._own(layer, gpus)
            amplification = way.own * gpus_before / alone if alone > ASKED_FROM_US else 1.0
            if (best is None or way.end + own < best.end) and (
                amplification < self._limit or amplification < lowest
            ):
                best, lowest = _At(way.end + own, own, {**way.chosen, layer.name: gpus}), amplification
        assert best is not None
        return best

    def _joined(self, fork: Fork, before: Layer, join: Layer, at: dict[int, _At]) -> dict[int, _At]:
        joined: dict[int, _At] = {}
        for start, way in at.items():
            branches = [
                (branch[-1], self.row(branch, before, {start: way})) if branch else (before, {start: way})
                for branch in fork.branches
            ]
            for gpus in self._states:
                ways = []
                for last, ends in branches:
                    assert isinstance(last, Layer)
                    ways.append(self._best(last, join, ends, gpus))
                end = max(each.end for each in ways)
                if gpus not in joined or end < joined[gpus].end:
                    chosen: dict[str, int] = {}
                    for each in ways:
                        chosen |= each.chosen
                    joined[gpus] = _At(end, sum(each.own for each in ways), chosen)
        return joined


def _placed(nodes: Nodes, gpus_of: dict[str, int], base: int, cap: int, setting: Setting) -> list[Chosen]:
    """The longest branch stays; the others, longest first, go beside it where GPUs are left, else follow
    it.
    """
    placed: list[Chosen] = []
    for node in nodes:
        if isinstance(node, Layer):
            placed.append(Chosen(node.name, base, min(gpus_of[node.name], cap)))
            continue
        free = cap
        for branch in sorted(node.branches, key=lambda branch: -_length(branch, gpus_of, setting)):
            width = max((gpus_of[layer.name] for layer in every_layer(branch)), default=0)
            beside = free < cap and 0 < width <= free
            placed += _placed(
                branch, gpus_of, base + cap - free if beside else base, width if beside else cap, setting
            )
            free -= width if beside or free == cap else 0
    return placed


def _length(branch: Sequence[Layer | Fork], gpus_of: dict[str, int], setting: Setting) -> float:
    return sum(compute(layer, gpus_of[layer.name], setting) for layer in every_layer(tuple(branch)))

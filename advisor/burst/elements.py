"""A model as elements in a row, each with its alternatives from one number of GPUs to the next. Pure.

An element is a layer, or a fork together with the layer that joins it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import product

import numpy as np

from advisor.burst.cost import Setting, compute, exchange, gradient_sum, memory, share, widths
from advisor.burst.labels import Array, Chosen, Index, Labels, in_a_row, pareto, side_by_side, single, union
from advisor.burst.sweep import Element, Matrix, sweep
from fallow.burst.table import Fork, Layer, every_layer
from fallow.burst.table import Sequence as Nodes

MOST_PARTITIONED = 5
"""Branches that are grouped in every way (52 ways of 5); of more, all in turn, all at once, or the longest
apart.
"""

MOST_WIDTHS = 48
"""Ways to divide GPUs among groups that are tried: all of them for powers of two up to 64 GPUs and four
groups.
"""

Groups = tuple[tuple[int, ...], ...]
"""Numbers of branches, group by group."""


@dataclass(frozen=True, slots=True)
class Builder:
    """Builds elements for one setting. ``sum_weight`` is how much of each sum of gradients counts as time.

    1: gradients are summed after the backward pass. 0: their sum is free, which bounds what overlap can
    reach.
    """

    setting: Setting
    sum_weight: float
    states_within: Callable[[int], tuple[int, ...]]
    moves: dict[tuple[int, int, int, bool], Array] = field(default_factory=dict)
    """Exchanges that were worked out: output, GPUs before and behind, disjoint."""

    def elements(self, nodes: Nodes, cap: int) -> list[Element]:
        """The elements of a sequence of layers and forks on at most ``cap`` GPUs."""
        states = self.states_within(cap)
        elements: list[Element] = []
        before: Layer | None = None
        fork: Fork | None = None
        for node in nodes:
            if isinstance(node, Fork):
                fork = node
                continue
            own = [self._own(node, gpus) for gpus in states]
            if before is None:
                elements.append(Element((tuple(own),), states))
            elif fork is None:
                elements.append(Element(self._behind(before, own, states), states))
            else:
                joined = self._block(fork, before, states, cap)
                arcs = tuple(
                    tuple(in_a_row(joined[i][j], own[j]) for j in range(len(states)))
                    for i in range(len(states))
                )
                elements.append(Element(arcs, states))
            before, fork = node, None
        return elements

    def _own(self, layer: Layer, gpus: int) -> Labels:
        """A layer itself on ``gpus``."""
        setting = self.setting
        time = compute(layer, gpus, setting)
        time += self.sum_weight * gradient_sum(layer, gpus, setting.network)
        return single(self._costs(time, gpus, memory(layer, gpus, setting)), [Chosen(layer.name, 0, gpus)])

    def _costs(self, time: float, gpus: int, bytes_before: float = 0.0) -> list[float]:
        return [time, gpus * time] if self.setting.memory_bytes is None else [time, gpus * time, bytes_before]

    def move(self, output: int, before: int, behind: int, *, disjoint: bool) -> Array:
        """An exchange, charged to the GPUs behind it."""
        key = (output, before, behind, disjoint)
        if key not in self.moves:
            time = exchange(output, before, behind, self.setting, disjoint=disjoint)
            self.moves[key] = np.array(self._costs(time, behind))
        return self.moves[key]

    def _behind(self, before: Layer, own: Sequence[Labels], states: tuple[int, ...]) -> Matrix:
        return tuple(
            tuple(
                labels.plus(self.move(before.output, gpus_before, gpus, disjoint=False))
                for labels, gpus in zip(own, states, strict=True)
            )
            for gpus_before in states
        )

    def _block(self, fork: Fork, before: Layer, states: tuple[int, ...], cap: int) -> Matrix:
        """Everything between the layer before a fork and the one that joins it, for each pair of their
        GPUs.
        """
        groupings = _groupings(fork, self.setting, states[0])
        divided = {
            len(groups): _divided(cap, len(groups), states, powers_of_two=self.setting.powers_of_two)
            for groups in groupings
        }
        branches = _Branches(self, fork, before)
        rows = []
        for into in states:
            row = []
            for out in states:
                tried = [
                    branches.grouped(groups, division, into, out)
                    for groups in groupings
                    for division in divided[len(groups)]
                ]
                row.append(pareto(union(tried)))
            rows.append(tuple(row))
        return tuple(rows)


class _Branches:
    """The branches of one fork, each solved once for a cap and a pair of neighbours."""

    def __init__(self, builder: Builder, fork: Fork, before: Layer) -> None:
        self._builder, self._fork, self._before = builder, fork, before
        self._cores: dict[tuple[int, int], _Core] = {}
        self._solved: dict[tuple[int, int, int, int, bool], Labels] = {}
        self._turns: dict[tuple[tuple[int, ...], int, int, int, bool], Labels] = {}
        self._sides: dict[tuple[Groups, tuple[int, ...], int, int], Labels] = {}

    def grouped(self, groups: Groups, division: tuple[int, ...], into: int, out: int) -> Labels:
        """Groups side by side on GPUs of their own, the branches of each in turn; the first group is the main
        one.
        """
        main = self._in_turn(groups[0], division[0], into, out, aside=False)
        if len(groups) == 1:
            return main
        return side_by_side(main, self._aside(groups[1:], division[1:], into, out).moved(division[0]))

    def _aside(self, groups: Groups, division: tuple[int, ...], into: int, out: int) -> Labels:
        """Groups beside the main one, counted from the first GPU behind it."""
        key = (groups, division, into, out)
        if key not in self._sides:
            branch = self._in_turn(groups[0], division[0], into, out, aside=True)
            if len(groups) > 1:
                branch = side_by_side(
                    branch, self._aside(groups[1:], division[1:], into, out).moved(division[0])
                )
            self._sides[key] = branch
        return self._sides[key]

    def _in_turn(self, group: tuple[int, ...], cap: int, into: int, out: int, *, aside: bool) -> Labels:
        key = (group, cap, into, out, aside)
        if key not in self._turns:
            labels = self._branch(group[0], cap, into, out, aside=aside)
            for number in group[1:]:
                labels = pareto(in_a_row(labels, self._branch(number, cap, into, out, aside=aside)))
            self._turns[key] = labels
        return self._turns[key]

    def _branch(self, number: int, cap: int, into: int, out: int, *, aside: bool) -> Labels:
        key = (number, cap, into, out, aside)
        if key not in self._solved:
            self._solved[key] = self._solve(number, cap, into, out, aside=aside)
        return self._solved[key]

    def _solve(self, number: int, cap: int, into: int, out: int, *, aside: bool) -> Labels:
        move, nodes = self._builder.move, self._fork.branches[number]
        if not nodes:
            return single(list(move(self._before.output, into, out, disjoint=False)))
        last = nodes[-1]
        assert isinstance(last, Layer)
        core = self._core(number, cap)
        begin = np.array([move(self._before.output, into, gpus, disjoint=aside) for gpus in core.states])
        end = np.array([move(last.output, gpus, out, disjoint=aside) for gpus in core.states])
        return pareto(core.labels.plus(begin[core.first] + end[core.last]))

    def _core(self, number: int, cap: int) -> "_Core":
        """A branch without its first and last exchange, from each number of GPUs to each."""
        if (number, cap) not in self._cores:
            first, *rest = self._builder.elements(self._fork.branches[number], cap)
            cells = [labels for a in range(len(first.states)) for labels in _from(first, rest, a)]
            sizes = [len(labels) for labels in cells]
            numbers = np.arange(len(cells))
            self._cores[number, cap] = _Core(
                first.states,
                union(cells),
                np.repeat(numbers // len(first.states), sizes),
                np.repeat(numbers % len(first.states), sizes),
            )
        return self._cores[number, cap]


@dataclass(frozen=True, slots=True)
class _Core:
    """A branch's labels, and for each which state it begins and ends on."""

    states: tuple[int, ...]
    labels: Labels
    first: Index
    last: Index


def _from(first: Element, rest: Sequence[Element], start: int) -> tuple[Labels, ...]:
    """What a branch that begins on ``states[start]`` costs for each number of GPUs that it ends on."""
    nothing = first.arcs[0][start].only(np.arange(0))
    only = tuple(labels if j == start else nothing for j, labels in enumerate(first.arcs[0]))
    return tuple(sweep([Element((only,), first.states), *rest])[0])


def builder(setting: Setting, sum_weight: float, least_share: int) -> Builder:
    """A builder whose layers have no smaller share than ``least_share`` samples, the least that was
    measured.
    """

    def states_within(cap: int) -> tuple[int, ...]:
        return tuple(gpus for gpus in widths(setting, cap) if share(setting.batch, gpus) >= least_share)

    return Builder(setting, sum_weight, states_within)


def _groupings(fork: Fork, setting: Setting, least: int) -> list[Groups]:
    """Ways to put branches into groups. The branch that takes longest leads the first, where skips are as
    well.
    """
    skips = tuple(number for number, branch in enumerate(fork.branches) if not branch)
    lengths = {
        number: sum(compute(layer, least, setting) for layer in every_layer(branch))
        for number, branch in enumerate(fork.branches)
        if branch
    }
    if not lengths:
        return [(skips,)]
    longest = max(lengths, key=lambda number: (lengths[number], -number))
    others = sorted(set(lengths) - {longest})
    if len(lengths) <= MOST_PARTITIONED:
        ways = _partitions([longest, *others])
    else:
        ways = [[[longest, *others]], [[longest], others], [[longest], *([other] for other in others)]]
    return [((*way[0], *skips), *(tuple(group) for group in way[1:])) for way in ways]


def _partitions(members: list[int]) -> list[list[list[int]]]:
    """Every way to divide ``members`` into groups; the first member is in the first group."""
    ways = [[[members[0]]]]
    for member in members[1:]:
        ways = [
            grown
            for way in ways
            for grown in (
                *([*way[:k], [*way[k], member], *way[k + 1 :]] for k in range(len(way))),
                [*way, [member]],
            )
        ]
    return ways


@cache
def _divided(cap: int, groups: int, states: tuple[int, ...], *, powers_of_two: bool) -> list[tuple[int, ...]]:
    """Ways to give each group GPUs of its own, none of which leaves some that another group could use."""
    if groups == 1:
        return [(cap,)]
    usable = [gpus for gpus in states if gpus < cap]
    if not powers_of_two and len(usable) ** (groups - 1) > MOST_WIDTHS:
        usable = [gpus for gpus in usable if gpus & (gpus - 1) == 0]
    result = []
    for sides in product(usable, repeat=groups - 1):
        rest = cap - sum(sides)
        main = max((gpus for gpus in states if gpus <= rest), default=0)
        if main:
            result.append((main, *sides))
    return [way for way in result if not any(_covers(other, way) for other in result)][:MOST_WIDTHS]


def _covers(other: tuple[int, ...], way: tuple[int, ...]) -> bool:
    return other != way and all(a >= b for a, b in zip(other, way, strict=True))

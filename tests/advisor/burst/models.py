"""Random small layer tables, and every plan of one, enumerated without the planner's help."""

import random
from collections.abc import Iterator
from itertools import product

from advisor.burst.cost import Setting, compute, widths
from advisor.burst.labels import Chosen
from fallow.burst.table import Fork, Layer, LayerTable, Timing, every_layer
from fallow.burst.table import Sequence as Nodes

BATCHES = (1, 2, 4, 8)


class Drawn:
    """Draws layers whose times grow with the batch, at random slopes and fixed parts."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._made = 0

    def layer(self) -> Layer:
        """A layer with a name of its own."""
        draw = self._random
        fixed, slope, part = draw.uniform(1, 60), draw.uniform(0.5, 40), draw.uniform(0.2, 0.5)
        self._made += 1
        return Layer(
            name=f"layer {self._made}",
            timings=tuple(
                Timing(batch, part * (fixed + slope * batch), (1 - part) * (fixed + slope * batch))
                for batch in BATCHES
            ),
            parameters=draw.choice((0, 1_000, 50_000, 2_000_000)),
            output=draw.choice((10, 5_000, 200_000)),
            kept_bytes=draw.choice((0, 1_000, 400_000)),
        )

    def chain(self, layers: int) -> LayerTable:
        """Layers in a row."""
        return LayerTable(model="drawn", hardware="none", layers=tuple(self.layer() for _ in range(layers)))

    def forked(self, *, nested: bool) -> LayerTable:
        """A layer, a fork of two or three branches (one may be a skip), a layer; nested: a fork within a
        branch.
        """
        draw = self._random
        branches: list[Nodes] = [(self.layer(),) for _ in range(draw.choice((2, 3)) - nested)]
        if nested:
            inner = Fork(((self.layer(),), draw.choice(((), (self.layer(),)))))
            branches.append((self.layer(), inner, self.layer()))
        elif draw.random() < 0.4:
            branches[-1] = ()
        return LayerTable(
            model="drawn",
            hardware="none",
            layers=(self.layer(), Fork(tuple(branches)), self.layer()),
        )


def every_plan(table: LayerTable, setting: Setting) -> Iterator[tuple[Chosen, ...]]:
    """Each layer on each number of GPUs, each branch in turn with the others or on GPUs of its own."""
    yield from _row(table.layers, 0, setting.gpus, setting)


def _row(nodes: Nodes, base: int, cap: int, setting: Setting) -> Iterator[tuple[Chosen, ...]]:
    if not nodes:
        yield ()
        return
    first, rest = nodes[0], nodes[1:]
    heads = list(
        _fork(first, base, cap, setting) if isinstance(first, Fork) else _layer(first, base, cap, setting)
    )
    tails = list(_row(rest, base, cap, setting))
    for head, tail in product(heads, tails):
        yield head + tail


def _layer(layer: Layer, base: int, cap: int, setting: Setting) -> Iterator[tuple[Chosen, ...]]:
    for gpus in widths(setting, cap):
        yield (Chosen(layer.name, base, gpus),)


def _fork(fork: Fork, base: int, cap: int, setting: Setting) -> Iterator[tuple[Chosen, ...]]:
    """The branch that is longest on one GPU, and skips, stay at ``base``; each other one is there or
    apart.
    """
    lengths = [sum(compute(layer, 1, setting) for layer in every_layer(branch)) for branch in fork.branches]
    longest = lengths.index(max(lengths))
    movable = [number for number, branch in enumerate(fork.branches) if branch and number != longest]
    for groups in product(range(len(movable) + 1), repeat=len(movable)):
        group_of = dict.fromkeys(range(len(fork.branches)), 0) | dict(zip(movable, groups, strict=True))
        used = sorted(set(group_of.values()))
        for division in product(range(1, cap + 1), repeat=len(used)):
            if sum(division) > cap:
                continue
            starts = {group: base + sum(division[:place]) for place, group in enumerate(used)}
            caps = dict(zip(used, division, strict=True))
            ways = [
                list(_row(branch, starts[group_of[number]], caps[group_of[number]], setting))
                for number, branch in enumerate(fork.branches)
            ]
            for parts in product(*ways):
                yield tuple(chosen for part in parts for chosen in part)

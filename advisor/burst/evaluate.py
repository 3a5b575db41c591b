"""What a given placement of layers takes, walked layer by layer. Pure.

The planner adds up the same costs while it searches; this walks a finished plan and shares nothing with the
search, so each holds the other against the light. It is also how a plan is judged whose gradients are summed
during the backward pass: one queue of sums, from the last layer to the first, worked off while the main
branch goes backward.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from advisor.burst.cost import Setting, backlog, backward, compute, exchange, gradient_sum, memory
from advisor.burst.labels import Chosen
from fallow.burst.plan import Predicted
from fallow.burst.table import Fork, Layer, LayerTable, every_layer
from fallow.burst.table import Sequence as Nodes


@dataclass(slots=True)
class _Walk:
    """``hidden`` holds (backward, sum) of each layer met; a layer beside the main branch hides nothing.

    ``busy`` is what each GPU works, in microseconds.
    """

    at: Mapping[str, Chosen]
    setting: Setting
    hidden: list[tuple[float, float]]
    busy: list[float]

    def row(self, nodes: Nodes, base: int, *, aside: bool) -> float:
        """The time of layers and forks in a row on GPUs from ``base`` on."""
        time, before = 0.0, None
        fork: Fork | None = None
        for node in nodes:
            if isinstance(node, Fork):
                fork = node
                continue
            if fork is not None and before is not None:
                time, fork = time + self._fork(fork, before, node, base, aside=aside), None
            elif before is not None:
                time += self._move(before, node, disjoint=False)
            time += self._own(node, aside=aside)
            before = node
        return time

    def _own(self, layer: Layer, *, aside: bool) -> float:
        gpus, setting = self.at[layer.name].gpus, self.setting
        summed = gradient_sum(layer, gpus, setting.network)
        self.hidden.append((0.0 if aside else backward(layer, gpus, setting), summed))
        return self._charged(layer, compute(layer, gpus, setting) + (0.0 if setting.overlap else summed))

    def _move(self, before: Layer, behind: Layer, *, disjoint: bool) -> float:
        gpus_before, gpus_behind = self.at[before.name].gpus, self.at[behind.name].gpus
        time = exchange(before.output, gpus_before, gpus_behind, self.setting, disjoint=disjoint)
        return self._charged(behind, time)

    def _charged(self, layer: Layer, time: float) -> float:
        placed = self.at[layer.name]
        for rank in range(placed.first_rank, placed.first_rank + placed.gpus):
            self.busy[rank] += time
        return time

    def _fork(self, fork: Fork, before: Layer, join: Layer, base: int, *, aside: bool) -> float:
        """Branches on the same GPUs follow each other; those on others run beside them."""
        groups: dict[int, float] = {}
        for branch in fork.branches:
            own = min((self.at[layer.name].first_rank for layer in every_layer(branch)), default=base)
            apart = own != base
            if branch:
                first, last = branch[0], branch[-1]
                assert isinstance(first, Layer) and isinstance(last, Layer)
                time = self._move(before, first, disjoint=apart)
                time += self.row(branch, own, aside=aside or apart)
                time += self._move(last, join, disjoint=apart)
            else:
                time = self._move(before, join, disjoint=False)
            groups[own] = groups.get(own, 0.0) + time
        return max(groups.values())


def evaluate(table: LayerTable, chosen: Sequence[Chosen], setting: Setting) -> Predicted:
    """Time and GPU-time of one step. What still travels at its end keeps the GPUs of the widest layer
    waiting.
    """
    return walked(table, chosen, setting)[0]


def walked(
    table: LayerTable, chosen: Sequence[Chosen], setting: Setting
) -> tuple[Predicted, tuple[float, ...]]:
    """As ``evaluate``, and for each GPU the microseconds of a step in which it works."""
    walk = _Walk({each.layer: each for each in chosen}, setting, [], [0.0] * setting.gpus)
    time, rest = walk.row(table.layers, 0, aside=False), 0.0
    if setting.overlap:
        rest = backlog(reversed(walk.hidden))
    gpu_time = sum(walk.busy) + rest * max(each.gpus for each in chosen)
    return Predicted(time_us=time + rest, gpu_time_us=gpu_time), tuple(walk.busy)


def held_bytes(table: LayerTable, chosen: Sequence[Chosen], setting: Setting) -> float:
    """Bytes on the first GPU if it kept what all layers leave behind, which none of the others exceeds."""
    at = {each.layer: each.gpus for each in chosen}
    return sum(memory(layer, at[layer.name], setting) for layer in every_layer(table.layers))


def uniform(table: LayerTable, gpus: int) -> tuple[Chosen, ...]:
    """All layers on the same number of GPUs: plain data parallelism."""
    return tuple(Chosen(layer.name, 0, gpus) for layer in every_layer(table.layers))

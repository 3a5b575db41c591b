"""Plans for a chain of layers whose gradients are summed while the backward pass goes on. Pure.

A sum that is not done when the next layer's backward pass ends waits in a queue, so what a layer costs
depends on the layers behind it: labels are made from the last layer to the first, each with its queue. A
label with a longer queue ends later by at most the difference, so one is better than another if it is in
time, time with queue, GPU-time and GPU-time with queue. Two lower bounds of what is still to come hold: the
queue is worked off for nothing, or all of it is still there at the end; so does each mixture of the two.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from advisor.burst.cost import Setting, backward, compute, exchange, gradient_sum
from advisor.burst.labels import Array, Chosen, Index, efficient
from fallow.burst.table import Layer

MOST_LABELS = 4_000
"""Labels kept at one place; beyond it every second one is let go, and the plan's gap is then that of its
bound.
"""

PRICES = (0.25, 0.5, 1.0, 2.0, 4.0)
"""Prices of GPU-time that prune, in units of time over GPU-time of the best plan known."""

MIXTURES = (0.0, 0.5, 1.0)
"""How much of the queue is still there at the end, in a bound."""

TIME, END, BUSY, BUSY_END = range(4)
"""Columns of a label: time, time with queue, GPU-time, GPU-time with queue."""


@dataclass(frozen=True, slots=True)
class Found:
    """The best way found, its time and GPU-time, and whether it is proved to be the best."""

    time: float
    gpu_time: float
    chosen: tuple[Chosen, ...]
    proved: bool


@dataclass(frozen=True, slots=True)
class _Arrays:
    """Each layer's times by state, and each exchange's by pair of states."""

    own: list[Array]
    hidden: list[Array]
    summed: list[Array]
    moved: list[Array]
    gpus: Array


def best(
    layers: Sequence[Layer],
    states: Sequence[int],
    setting: Setting,
    *,
    limits: tuple[float, float],
    aim: int,
    best_so_far: tuple[float, float] | None,
) -> Found | None:
    """The way of the least time (``aim`` 0) or GPU-time (1) within ``limits`` of both that is better than
    ``best_so_far``.

    ``states`` are the numbers of GPUs that a layer may have; what still travels at the end is charged to the
    largest.
    """
    arrays = _arrays(layers, states, setting)
    tests = _tests(arrays, limits, aim, best_so_far)
    widest = float(arrays.gpus[-1])
    last = len(layers) - 1
    fronts: list[list[tuple[Array, Index, Index]]] = [
        [
            (
                _label(arrays.own[last][j], arrays.summed[last][j], arrays.gpus[j], widest),
                np.zeros(1, dtype=np.intp),
                np.zeros(1, dtype=np.intp),
            )
            for j in range(len(states))
        ]
    ]
    proved = True
    for place in range(last - 1, -1, -1):
        front = []
        for i in range(len(states)):
            met = _met(arrays, fronts[-1], place, i, widest)
            met = _only(met, tests.alive(met[0], place, i))
            met = _only(met, efficient(met[0])) if len(met[0]) > 1 else met
            while len(met[0]) > MOST_LABELS:
                met, proved = _only(met, np.arange(0, len(met[0]), 2)), False
            front.append(met)
        fronts.append(front)
    return _finished(layers, states, fronts, limits, aim, proved=proved)


def _label(own: float, summed: float, gpus: float, widest: float) -> Array:
    busy = own * gpus
    return np.array([[own, own + summed, busy, busy + widest * summed]])


def _arrays(layers: Sequence[Layer], states: Sequence[int], setting: Setting) -> _Arrays:
    return _Arrays(
        own=[np.array([compute(layer, gpus, setting) for gpus in states]) for layer in layers],
        hidden=[np.array([backward(layer, gpus, setting) for gpus in states]) for layer in layers],
        summed=[
            np.array([gradient_sum(layer, gpus, setting.network) for gpus in states]) for layer in layers
        ],
        moved=[
            np.array(
                [[exchange(layer.output, before, gpus, setting) for gpus in states] for before in states]
            )
            for layer in layers[:-1]
        ],
        gpus=np.array(states, dtype=float),
    )


def _met(
    arrays: _Arrays, front: Sequence[tuple[Array, Index, Index]], place: int, i: int, widest: float
) -> tuple[Array, Index, Index]:
    """Every label behind, with layer ``place`` on state ``i`` before it."""
    costs, states, rows = [], [], []
    for j, (labels, _, _) in enumerate(front):
        if not len(labels):
            continue
        moved, own = arrays.moved[place][i, j], arrays.own[place][i]
        queue = (
            np.maximum(labels[:, END] - labels[:, TIME] - arrays.hidden[place][i], 0)
            + arrays.summed[place][i]
        )
        time = labels[:, TIME] + moved + own
        busy = labels[:, BUSY] + arrays.gpus[j] * moved + arrays.gpus[i] * own
        costs.append(np.column_stack((time, time + queue, busy, busy + widest * queue)))
        states.append(np.full(len(labels), j))
        rows.append(np.arange(len(labels)))
    if not costs:
        nothing = np.zeros(0, dtype=np.intp)
        return np.zeros((0, 4)), nothing, nothing
    return np.concatenate(costs), np.concatenate(states), np.concatenate(rows)


def _only(front: tuple[Array, Index, Index], rows: Index) -> tuple[Array, Index, Index]:
    return front[0][rows], front[1][rows], front[2][rows]


@dataclass(frozen=True, slots=True)
class _Tests:
    """Weighted sums of a label's columns, with the least that is to come before each place, and their
    ceilings.
    """

    weights: list[Array]
    before: list[list[Array]]
    ceilings: list[float]

    def alive(self, labels: Array, place: int, state: int) -> Index:
        """Rows that can still end within all limits and better than the best known."""
        alive = np.ones(len(labels), dtype=bool)
        for weights, before, ceiling in zip(self.weights, self.before, self.ceilings, strict=True):
            alive &= labels @ weights + before[place][state] <= ceiling
        return np.flatnonzero(alive)


def _tests(
    arrays: _Arrays, limits: tuple[float, float], aim: int, best_so_far: tuple[float, float] | None
) -> _Tests:
    ceilings = list(limits)
    if best_so_far is not None:
        ceilings[aim] = min(ceilings[aim], best_so_far[aim])
    prices = [(1.0, 0.0), (0.0, 1.0)]
    if best_so_far is not None:
        prices += [(1.0, price * best_so_far[0] / best_so_far[1]) for price in PRICES]
    tests = _Tests([], [], [])
    for time, busy in prices:
        ceiling = sum(weight * most for weight, most in zip((time, busy), ceilings, strict=True) if weight)
        if not np.isfinite(ceiling):
            continue
        for part in MIXTURES:
            tests.weights.append(np.array([time * (1 - part), time * part, busy * (1 - part), busy * part]))
            tests.before.append(_before(arrays, time, busy, part))
            tests.ceilings.append(ceiling * (1 + 1e-9))
    return tests


def _before(arrays: _Arrays, time: float, busy: float, part: float) -> list[Array]:
    """For each layer and state: the least weighted cost of all layers before it and of the exchange into
    it.
    """
    widest = float(arrays.gpus[-1])
    least = [np.zeros(len(arrays.gpus))]
    for place in range(len(arrays.own) - 1):
        own = (time + busy * arrays.gpus) * arrays.own[place]
        own += part * (time + busy * widest) * (arrays.summed[place] - arrays.hidden[place])
        moved = (time + busy * arrays.gpus)[None, :] * arrays.moved[place]
        least.append((least[-1][:, None] + own[:, None] + moved).min(axis=0))
    return least


def _finished(
    layers: Sequence[Layer],
    states: Sequence[int],
    fronts: Sequence[Sequence[tuple[Array, Index, Index]]],
    limits: tuple[float, float],
    aim: int,
    *,
    proved: bool,
) -> Found | None:
    """The best label of the first layer within the limits, walked to the last layer."""
    best_end: tuple[float, float, int, int] | None = None
    for i, (labels, _, _) in enumerate(fronts[-1]):
        for row in range(len(labels)):
            time, gpu_time = float(labels[row, END]), float(labels[row, BUSY_END])
            if time > limits[0] * (1 + 1e-9) or gpu_time > limits[1] * (1 + 1e-9):
                continue
            if best_end is None or (time, gpu_time)[aim] < best_end[aim]:
                best_end = (time, gpu_time, i, row)
    if best_end is None:
        return None
    time, gpu_time, state, row = best_end
    chosen = []
    for layer, front in zip(layers, reversed(fronts), strict=True):
        chosen.append(Chosen(layer.name, 0, states[state]))
        _, before, rows = front[state]
        state, row = int(before[row]), int(rows[row])
    return Found(time, gpu_time, tuple(chosen), proved)

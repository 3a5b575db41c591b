"""Labels from the first element of a row to its last. Pure."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from advisor.burst.labels import Array, Chosen, Index, Labels, efficient

Matrix = tuple[tuple[Labels, ...], ...]

Prune = Callable[[Array, int, int], Index]
"""Which rows of costs at (place, state) are worth going on with."""


@dataclass(frozen=True, slots=True)
class Element:
    """One step in a row. ``states`` are numbers of GPUs, ascending.

    ``arcs[i][j]`` holds what may lie between the layer before on ``states[i]`` GPUs and this element's layer
    on ``states[j]``; a first element has one row. A set may be empty: there is no such way.
    """

    arcs: Matrix
    states: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Front:
    """The labels of one place and state: their costs and, a row each, state and row before and row of the
    arc.
    """

    costs: Array
    before: Index
    row: Index
    arc: Index


def sweep(
    elements: Sequence[Element], prune: Prune | None = None, most: int | None = None
) -> tuple[list[Labels], bool]:
    """The undominated ways to each state of the last element, and whether all of them were kept.

    ``prune`` lets those go that cannot become the best; above ``most`` labels at one place every second is
    let go.
    """
    size = elements[0].arcs[0][0].costs.shape[1]
    nothing = np.zeros(0, dtype=np.intp)
    start = _Front(np.zeros((1, size)), nothing, nothing, nothing)
    fronts, complete = [[start]], True
    for place, element in enumerate(elements):
        front = []
        for j in range(len(element.states)):
            met = _met(fronts[-1], element, j, size)
            if prune is not None:
                met = _only(met, prune(met.costs, place, j))
            met = _only(met, efficient(met.costs)) if len(met.costs) > 1 else met
            while most is not None and len(met.costs) > most:
                met, complete = _only(met, np.arange(0, len(met.costs), 2)), False
            front.append(met)
        fronts.append(front)
    return [Labels(front.costs, _tracer(elements, fronts, j)) for j, front in enumerate(fronts[-1])], complete


def _met(fronts: Sequence[_Front], element: Element, j: int, size: int) -> _Front:
    """Every label of every state before, with every arc from there to ``states[j]``."""
    costs, before, rows, arcs = [np.zeros((0, size))], [], [], []
    for i, front in enumerate(fronts):
        arc = element.arcs[i][j].costs
        many, each = len(front.costs), len(arc)
        if not many or not each:
            continue
        costs.append((front.costs[:, None, :] + arc[None, :, :]).reshape(-1, size))
        before.append(np.full(many * each, i))
        rows.append(np.repeat(np.arange(many), each))
        arcs.append(np.tile(np.arange(each), many))
    if not before:
        nothing = np.zeros(0, dtype=np.intp)
        return _Front(costs[0], nothing, nothing, nothing)
    return _Front(np.concatenate(costs), np.concatenate(before), np.concatenate(rows), np.concatenate(arcs))


def _only(front: _Front, rows: Index) -> _Front:
    return _Front(front.costs[rows], front.before[rows], front.row[rows], front.arc[rows])


def _tracer(
    elements: Sequence[Element], fronts: Sequence[Sequence[_Front]], end: int
) -> Callable[[int], Iterator[Chosen]]:
    """How to walk back from a label of the last element; without recursion, as models may have many
    layers.
    """

    def trace(row: int) -> Iterator[Chosen]:
        steps, state = [], end
        for place in range(len(elements) - 1, -1, -1):
            front = fronts[place + 1][state]
            before = int(front.before[row])
            steps.append((elements[place].arcs[before][state], int(front.arc[row])))
            state, row = before, int(front.row[row])
        for labels, arc in reversed(steps):
            yield from labels.trace(arc)

    return trace

"""How Pollux's six applications scale: seconds a step by placement and batch, as its authors measured them.

Source: the tables published with Pollux (Qiao et al., OSDI 2021) for T4 GPUs, 4 a node. ``placements`` has
every placement on up to 4 nodes, ``scalability`` placements of 6 to 16 nodes; in between we interpolate
linearly, over nodes at the same number of GPUs a node. The global batch never changes: each GPU computes
``ceil(batch / GPUs)`` samples, in several micro-batches when more than the largest measured one would be
needed; all but the last of those need no synchronisation:

    step = step_time(micro) + (micro-batches - 1) * (step_time(micro) - sync_time(micro))

What was not measured (fewer samples a GPU than in the table) is not offered: see ``most_gpus``.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil

Point = tuple[int, float, float]
"""Samples a micro-batch, seconds a step, seconds of it spent in synchronisation."""

# More nodes count as so many: the measured tables end there.
MOST_NODES = 16
# Even placements on so many nodes stand in the table of placements, not in that of scalability.
NODES_IN_PLACEMENTS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Application:
    """The measurements of one application. ``largest_micro`` caps the micro-batch below the table's."""

    name: str
    placements: Mapping[tuple[int, ...], tuple[Point, ...]]
    grid: Mapping[int, Mapping[int, tuple[Point, ...]]]
    iterations: Mapping[int, int]
    largest_micro: int

    @property
    def smallest_micro(self) -> int:
        """The fewest samples a GPU that were measured."""
        return min(points[0][0] for points in self.placements.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class ConstantBatch:
    """Step times of an application at one global batch; remembers what it has computed."""

    application: Application
    batch: int
    _known: dict[tuple[int, ...], float] = field(default_factory=dict, compare=False, repr=False)

    def step_s(self, counts: tuple[int, ...]) -> float:
        """Seconds a step with ``counts`` GPUs on each of its nodes."""
        key = tuple(sorted(counts))
        if key not in self._known:
            self._known[key] = step_time_s(self.application, key, self.batch)
        return self._known[key]

    def most_gpus(self, limit: int) -> int:
        """The most GPUs, up to ``limit``, on which each still gets as many samples as were measured."""
        least = self.application.smallest_micro
        return max(n for n in range(1, limit + 1) if n == 1 or ceil(self.batch / n) >= least)


def application(
    name: str,
    placements: Iterable[tuple[tuple[int, ...], Point]],
    scalability: Iterable[tuple[int, int, Point]],
    iterations: Mapping[int, int],
    *,
    largest_micro: int | None = None,
) -> Application:
    """The measurements in order. ``iterations``: how many the validation run at each batch took."""
    placed: defaultdict[tuple[int, ...], list[Point]] = defaultdict(list)
    for counts, point in placements:
        placed[counts].append(point)
    grid: defaultdict[int, defaultdict[int, list[Point]]] = defaultdict(lambda: defaultdict(list))
    for nodes, gpus, point in scalability:
        grid[nodes][gpus].append(point)
    for counts, points in placed.items():
        if len(counts) == NODES_IN_PLACEMENTS and max(counts) == min(counts):
            grid[NODES_IN_PLACEMENTS][sum(counts)] = points
    return Application(
        name=name,
        placements={counts: tuple(sorted(points)) for counts, points in placed.items()},
        grid={n: {g: tuple(sorted(p)) for g, p in sorted(row.items())} for n, row in sorted(grid.items())},
        iterations=dict(iterations),
        largest_micro=largest_micro or max(point[0] for points in placed.values() for point in points),
    )


def step_time_s(app: Application, counts: tuple[int, ...], batch: int) -> float:
    """Seconds a step of the whole ``batch`` on ``counts`` GPUs a node (in rising order)."""
    each = ceil(batch / sum(counts))
    rounds = ceil(each / app.largest_micro)
    step_s, sync_s = _measured(app, counts, ceil(each / rounds))
    return step_s + (rounds - 1) * (step_s - sync_s)


def _measured(app: Application, counts: tuple[int, ...], micro: float) -> tuple[float, float]:
    points = app.placements.get(counts)
    if points is not None:
        return _at(points, micro)
    nodes, gpus = min(len(counts), MOST_NODES), sum(counts)
    sizes = tuple(app.grid)
    upper = min(bisect_left(sizes, nodes), len(sizes) - 1)
    lower = upper if sizes[upper] == nodes else max(upper - 1, 0)
    low = _on_nodes(app.grid[sizes[lower]], sizes[lower] * gpus / nodes, micro)
    if lower == upper:
        return low
    high = _on_nodes(app.grid[sizes[upper]], sizes[upper] * gpus / nodes, micro)
    return _between(low, high, (nodes - sizes[lower]) / (sizes[upper] - sizes[lower]))


def _on_nodes(row: Mapping[int, Sequence[Point]], gpus: float, micro: float) -> tuple[float, float]:
    sizes = tuple(row)
    upper = min(bisect_left(sizes, gpus), len(sizes) - 1)
    lower = max(upper - 1, 0) if sizes[upper] > gpus else upper
    low = _at(row[sizes[lower]], micro)
    if lower == upper:
        return low
    high = _at(row[sizes[upper]], micro)
    return _between(low, high, (gpus - sizes[lower]) / (sizes[upper] - sizes[lower]))


def _at(points: Sequence[Point], micro: float) -> tuple[float, float]:
    upper = min(bisect_left(points, micro, key=lambda point: point[0]), len(points) - 1)
    lower = max(upper - 1, 0) if points[upper][0] > micro else upper
    low, high = points[lower], points[upper]
    if lower == upper:
        return low[1], low[2]
    return _between((low[1], low[2]), (high[1], high[2]), (micro - low[0]) / (high[0] - low[0]))


def _between(low: tuple[float, float], high: tuple[float, float], at: float) -> tuple[float, float]:
    at = min(max(at, 0.0), 1.0)
    return low[0] + at * (high[0] - low[0]), low[1] + at * (high[1] - low[1])

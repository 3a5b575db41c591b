"""The least average JCT that any schedule could have had, one that knows the future included.

Lower bounds for elastic jobs on one pool, tighter than "alone" (nobody shares) and "fluid" (everything
scales). Here jobs share what there is, and scale as measured. What is let go of, and only ever helps:
resizes, starts and moves are free; GPUs can be divided; all arrivals are known beforehand; the pool is only
kept to its size on average over each slot of two minutes; and a job may follow several plans by halves.

A *plan* of a job is how many GPUs it has in each slot until it is done. The least mean of JCTs over mixes of
plans is a linear program with far too many columns, so they are made as they are needed (column generation,
Dantzig and Wolfe, "Decomposition Principle for Linear Programs", 1960): HiGHS mixes the plans there are and
prices each slot's GPU time, and each job answers with its cheapest plan at those prices. Any prices prove

    sum over jobs of their cheapest plan (JCT + the price of its GPU time)  -  the price of all GPU time

to be a bound on the sum of JCTs, whatever the program has found so far: the solver is not trusted for it.

For a fixed end T a job's cheapest plan is a convex program, and its dual has one unknown, ``mu``, what the
whole work is worth: in each slot it takes the point of its hull with the most ``mu * speed - price * GPUs``.
The dual at any ``mu`` is below the cheapest plan, and is linear in T within a slot, so its values at the ends
of the slots and over a grid of ``mu`` bound all T.
"""

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import highspy
import numpy as np
from numpy.typing import NDArray

from advisor.sim.workload import TraceJob, Workload, alone_s

Array = NDArray[np.float64]

SLOT_S = 120.0
WORTHS = np.geomspace(0.5, 100.0, 100)
"""Grid of ``mu``, in times that the work takes at the job's best speed."""
OVERFLOW_PRICE = 20.0
"""Seconds of JCT that a GPU-second beyond the pool costs, while no mix fits into it yet."""
CLOSE = 0.005
WARMING = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """Average JCTs in seconds: nothing is below ``least_s``, and ``mix_s`` is a mix that fits the pool."""

    least_s: float
    mix_s: float
    turns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Elastic:
    """A job's concave hull: ``speeds`` (share of its whole work a second) by ``gpus``, from (0, 0) up."""

    submitted_s: float
    gpus: Array
    speeds: Array


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """``used``: GPUs in each slot, on average over it, from slot ``first`` on."""

    jct_s: float
    first: int
    used: Array


def offline_bound(workload: Workload, gpus: int, gpus_per_node: int, *, most_turns: int = 150) -> Bound:
    """The bound for these jobs on a pool of ``gpus``, within CLOSE of a mix unless the turns ran out."""
    jobs = [elastic(job, gpus, gpus_per_node) for job in workload.jobs]
    edges = _edges(jobs)
    slots = np.diff(edges)
    mixing = _Mixing(len(jobs), slots, gpus)
    prices = np.zeros(len(slots))
    least, centred, centre, mix = 0.0, -np.inf, prices, np.inf
    for turn in range(most_turns):
        proven = -gpus * float(slots @ prices)
        for at, job in enumerate(jobs):
            bound, plan = cheapest(job, prices, edges)
            proven += bound
            if plan is not None:
                mixing.add(at, plan)
        least = max(least, proven)
        if turn >= WARMING and proven > centred:
            centred, centre = proven, prices
        mix, found = mixing.solve()
        if mix - least <= CLOSE * mix:
            break
        prices = found if turn % 3 == 0 else _between(centre if turn >= WARMING else prices, found, turn)
    return Bound(least_s=least / len(jobs), mix_s=mix / len(jobs), turns=turn + 1)


def elastic(job: TraceJob, gpus: int, gpus_per_node: int) -> Elastic:
    """How a job scales on packed places; sizes that two others together are better than are left out."""
    hull = [(0.0, 0.0)]
    for size in range(job.smallest, min(job.largest, gpus) + 1):
        point = (size * job.share, 1 / alone_s(job, size, gpus_per_node))
        while len(hull) > 1 and _slope(hull[-2], hull[-1]) <= _slope(hull[-2], point):
            hull.pop()
        if point[1] > hull[-1][1]:
            hull.append(point)
    sizes, speeds = np.array(hull).T
    return Elastic(submitted_s=job.submitted_s, gpus=sizes, speeds=speeds)


def cheapest(job: Elastic, prices: Array, edges: Array) -> tuple[float, Plan | None]:
    """A bound on JCT + price of the cheapest plan at these prices (per GPU-second), and a plan near it.

    ``None``: no plan on the grid ends within the edges. What ends beyond them costs at least until there.
    """
    first = int(np.searchsorted(edges, job.submitted_s, side="right")) - 1
    starts = np.maximum(edges[first:-1], job.submitted_s)
    long, price = edges[first + 1 :] - starts, prices[first:]
    worths = WORTHS / job.speeds[-1]
    steepness = np.diff(job.speeds) / np.diff(job.gpus)
    at = np.searchsorted(-steepness, -(price[None, :] / worths[:, None]), side="right")
    sizes, speeds = job.gpus[at], job.speeds[at]
    won = worths[:, None] * speeds - price * sizes
    duals = np.cumsum(np.concatenate([worths[:, None], (1 - won) * long], axis=1), axis=1)
    bound = float(np.minimum(duals[:, :-1], duals[:, 1:]).max(axis=0).min())
    bound = min(bound, float(edges[-1]) - job.submitted_s)
    made = _best_plan(long, price, sizes, speeds)
    return bound, None if made is None else replace(made, first=first)


def _best_plan(long: Array, price: Array, sizes: Array, speeds: Array) -> Plan | None:
    """The cheapest of the plans on the grid, of one row a worth and one column a slot of ``long`` seconds."""
    worked = np.cumsum(speeds * long, axis=1)
    rows = np.flatnonzero(worked[:, -1] >= 1.0)
    if not len(rows):
        return None
    last = (worked[rows] >= 1.0).argmax(axis=1)
    part = 1 - (worked[rows, last] - 1.0) / (speeds[rows, last] * long[last])
    paid = np.cumsum(sizes[rows] * (long * price), axis=1)[np.arange(len(rows)), last]
    paid -= (1 - part) * sizes[rows, last] * long[last] * price[last]
    jcts = np.cumsum(long)[last] - (1 - part) * long[last]
    best = int((jcts + paid).argmin())
    used = sizes[rows[best], : last[best] + 1].copy()
    used[-1] *= part[best]
    return Plan(jct_s=float(jcts[best]), first=0, used=used)


class _Mixing:
    """The linear program over the plans made so far: mix them so that each slot's GPUs are enough."""

    def __init__(self, jobs: int, slots: Array, gpus: int) -> None:
        self._slots, self._jobs = slots, jobs
        with _output_to_errors():
            self._solver = highspy.Highs()
        self._solver.setOptionValue("output_flag", False)
        self._solver.setOptionValue("threads", 1)
        none, nothing = np.array([], dtype=np.int32), np.array([], dtype=np.float64)
        for _ in slots:
            self._solver.addRow(-highspy.kHighsInf, float(gpus), 0, none, nothing)
        for _ in range(jobs):
            self._solver.addRow(1.0, 1.0, 0, none, nothing)
        for at, long in enumerate(slots):
            self._column(OVERFLOW_PRICE * long, np.array([at]), np.array([-1.0]))
        for at in range(jobs):
            self._column(float(slots.sum()), np.array([len(slots) + at]), np.array([1.0]))

    def add(self, job: int, plan: Plan) -> None:
        used = np.flatnonzero(plan.used)
        rows = np.append(used + plan.first, len(self._slots) + job)
        self._column(plan.jct_s, rows, np.append(plan.used[used], 1.0))

    def solve(self) -> tuple[float, Array]:
        """The sum of JCTs of the best mix, and the price of a GPU-second in each slot."""
        self._solver.run()
        duals = np.array(self._solver.getSolution().row_dual[: len(self._slots)])
        return self._solver.getInfo().objective_function_value, np.maximum(-duals, 0.0) / self._slots

    def _column(self, cost: float, rows: Array, values: Array) -> None:
        self._solver.addCol(cost, 0.0, highspy.kHighsInf, len(rows), rows.astype(np.int32), values)


@contextmanager
def _output_to_errors() -> Iterator[None]:
    """HiGHS names itself on standard output, where a bench may be printing one object of JSON."""
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)


def _between(centre: Array, found: Array, turn: int) -> Array:
    """Prices jump from solve to solve, and the best ones seen steady them (Wentges, 1997)."""
    stay = 0.5 if turn <= WARMING else 0.7
    return stay * centre + (1 - stay) * found


def _edges(jobs: Sequence[Elastic]) -> Array:
    """Ends of the slots, in seconds: from the first arrival until long after the last, coarser then."""
    last = max(job.submitted_s for job in jobs)
    long = max(1 / job.speeds[1] for job in jobs)
    fine = np.arange(min(job.submitted_s for job in jobs), last + SLOT_S, SLOT_S)
    return np.append(fine, fine[-1] + np.cumsum(np.geomspace(SLOT_S, max(long / 20, SLOT_S), 250)))


def _slope(one: tuple[float, float], two: tuple[float, float]) -> float:
    return (two[1] - one[1]) / (two[0] - one[0])

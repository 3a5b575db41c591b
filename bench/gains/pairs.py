"""Expected gain of putting two jobs on one V100, beside what Gavel's measured table gives them.

Mixes as in ``bench/packing.py``: Fallow starts knowing nothing, every round tries whom it chooses, three
windows each with a measuring error, and learns. Every advice counts once as it is first given for a couple:
*untried*, and again when the couple was measured. What comes is the table's own joint speed, less the one job
that runs anyway, over the horizon; a pair whose foreground is under 0.9 of its speed is parted after a minute
of settling and three windows, and gives nothing from then on.
"""

import random
from collections.abc import Iterator, Sequence

from advisor.planner.limits import PlannerConfig
from advisor.planner.pairing import Couple, Experience, Pairing, choose_pairs, couple_of, learn
from bench.gains.case import Case
from bench.packing import ROUNDS, RULES, WINDOW_S, Table, mixes, read_table, trial_of

HOURS = PlannerConfig().horizon_s / 3600
SETTLES_S = 60
PARTED_AFTER_H = (SETTLES_S + RULES.undo_windows * WINDOW_S) / 3600
UNTRIED, MEASURED = "untried", "measured"


def cases(seeds: Sequence[int]) -> list[Case]:
    """Every advice of every mix. Needs the reference data."""
    table = read_table()
    return [case for jobs in mixes(table).values() for seed in seeds for case in _advised(jobs, table, seed)]


def _advised(jobs: Sequence[str], table: Table, seed: int) -> Iterator[Case]:
    known, draw = Experience(gpu_model="V100"), random.Random(seed)
    told: set[tuple[Couple, bool]] = set()
    for _ in range(ROUNDS):
        pairs = choose_pairs(jobs, known, RULES)
        for pair in pairs:
            couple = couple_of(jobs[pair.foreground], jobs[pair.guest])
            if (couple, pair.measured) not in told:
                told.add((couple, pair.measured))
                yield Case(
                    kind=MEASURED if pair.measured else UNTRIED,
                    expected=max(0.0, pair.gain) * HOURS,
                    came=_came(pair, couple, jobs, table),
                )
        for couple in sorted(
            {couple_of(jobs[p.foreground], jobs[p.guest]) for p in pairs} - set(known.trials)
        ):
            known = learn(known, trial_of(couple, table, draw))


def _came(pair: Pairing, couple: Couple, jobs: Sequence[str], table: Table) -> float:
    speeds = table[couple]
    foreground = speeds[0] if jobs[pair.foreground] == couple[0] else speeds[1]
    hours = HOURS if foreground >= RULES.foreground_floor else PARTED_AFTER_H
    return max(0.0, sum(speeds) - 1) * hours

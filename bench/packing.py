"""How well jobs are paired on shared GPUs by short trials, on Gavel's measured V100 pairs.

A mix of jobs, each of one GPU, has half as many GPUs as jobs. Fallow starts knowing nothing of any pair.
Each round lasts one trial (three windows of 30 s): ``advisor.planner.pairing`` chooses who is tried, the
table says how fast both run (each window with a measuring error), and what was seen is learnt. After the last
round only measured pairs are kept, and the undo rule watches them, window by window, until the end.

* *joint throughput* is the sum of all speeds relative to running alone, over the GPUs. A GPU without a pair
  runs one job alone. It is a mean over the whole time, the trials and their failures included.
* *optimum* is the best matching under the same rule (no foreground under 0.9) that knows the table; *unruled*
  is the best matching without that rule, which no tool may use on other people's jobs.
* The *foreground* of a couple is the job that is slowed less; its guest gets what is left, and waits without
  it. *slowest foreground* is the table's own value for the worst couple that is left at the end.
* Mixes: the one-GPU jobs of Gavel's two large traces as they stand there, seeded uniform draws from the
  table's 26 job types, and each type once. A row of zeros (the pair could not run) is a failed trial.
* Beside: random pairs and pairs by largest expected speed taken greedily, with the same trials and undo rule.

    python bench/packing.py [--json] [--quick]
"""

import argparse
import csv
import gzip
import json
import os
import random
import statistics
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from advisor.planner.pairing import (  # noqa: E402
    Couple,
    Experience,
    Pairing,
    PairingRules,
    Trial,
    choose_pairs,
    couple_of,
    expected_speeds,
    learn,
    must_undo,
    part,
)

SHARED = Path(os.environ.get("FALLOW_SHARED", ROOT.parent / "shared"))
RULES = PairingRules()
UNRULED = PairingRules(foreground_floor=0.0, gain_floor=1e-9)
WINDOW_S = 30
ROUNDS = 12
NOISE = 0.01
TARGET = 0.9
Table = Mapping[Couple, tuple[float, float]]
Choose = Callable[[Sequence[str], Experience, random.Random], tuple[Pairing, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """One mix under one way of choosing."""

    share_of_optimum: float
    share_of_unruled: float
    steady_share: float
    per_gpu: float
    slowest_foreground: float
    trials_of_a_pair: int
    pairs_seen: int
    undone: int


def main() -> None:
    """Run the mixes and print the table, or the figures as JSON."""
    parser = argparse.ArgumentParser(description="Pairing by short trials on Gavel's V100 pairs")
    parser.add_argument("--json", action="store_true", help="one object of figures")
    parser.add_argument("--quick", action="store_true", help="one seed; ends within 50 s")
    options = parser.parse_args()
    if not (SHARED / "traces" / "gavel").is_dir():
        print(f"skipped: no reference data at {SHARED}; set FALLOW_SHARED to its folder", file=sys.stderr)
        return
    table = read_table()
    seeds = range(1 if options.quick else 5)
    windows = (2 if options.quick else 6) * 3600 // WINDOW_S
    ways: dict[str, Choose] = {"fallow": by_pairing, "random": by_chance, "greedy": by_greed}
    results = {
        mix: {
            way: [live(jobs, table, choose, random.Random(seed), windows) for seed in seeds]
            for way, choose in ways.items()
        }
        for mix, jobs in mixes(table).items()
    }
    figures = figures_of(results)
    if options.json:
        print(json.dumps(figures))
        return
    print_table(results, mixes(table), figures)


def read_table() -> Table:
    """Relative speeds of the pairs of one-GPU jobs on one V100, by couple in alphabetical order."""
    path = SHARED / "traces" / "gavel" / "colocated_throughputs.csv.gz"
    table: dict[Couple, tuple[float, float]] = {}
    with gzip.open(path, "rt") as file:
        for row in csv.DictReader(file):
            if row["worker_type"] == "v100" and row["scale_factor_a"] == row["scale_factor_b"] == "1":
                names = (
                    name_of(row["model_a"], row["batch_size_a"]),
                    name_of(row["model_b"], row["batch_size_b"]),
                )
                speeds = float(row["rel_speed_a"]), float(row["rel_speed_b"])
                table[couple_of(*names)] = speeds if names == couple_of(*names) else (speeds[1], speeds[0])
    return table


def mixes(table: Table) -> dict[str, tuple[str, ...]]:
    """Jobs by mix; an odd one out is left away."""
    types = sorted({name for couple in table for name in couple})
    found: dict[str, tuple[str, ...]] = {}
    with gzip.open(SHARED / "traces" / "gavel" / "job_traces.csv.gz", "rt") as file:
        rows = [row for row in csv.DictReader(file) if row["scale_factor"] == "1"]
    for trace in ("minimize_makespan", "max_min_fairness"):
        jobs = [name_of(row["model"], row["batch_size"]) for row in rows if row["trace"] == trace]
        known = [job if job in types else job.split("/")[0] for job in jobs]
        found[trace] = tuple(known[: len(known) // 2 * 2])
    draw = random.Random(5)
    for count in (26, 52, 100):
        found[f"uniform {count}"] = tuple(draw.choice(types) for _ in range(count))
    return found | {"each type once": tuple(types)}


def name_of(model: str, batch: str) -> str:
    """A profile's name."""
    return f"{model}/{batch}" if batch else model


def live(jobs: Sequence[str], table: Table, choose: Choose, draw: random.Random, windows: int) -> Outcome:
    """Trials, then what was found good, watched until the end."""
    known, total, window = Experience(gpu_model="V100"), 0.0, 0
    tried: dict[Couple, int] = {}
    for _ in range(ROUNDS):
        pairs = choose(jobs, known, draw)
        new = {couple_of(jobs[p.foreground], jobs[p.guest]) for p in pairs} - set(known.trials)
        total += RULES.undo_windows * throughput(jobs, pairs, table)
        window += RULES.undo_windows
        for couple in sorted(new):
            tried[couple] = tried.get(couple, 0) + RULES.undo_windows
            known = learn(known, trial_of(couple, table, draw))
        if not new:
            break
    kept, watched, undone = settle(jobs, known), window, 0
    slow: dict[Couple, list[float]] = {}
    while watched < windows:
        total, watched = total + throughput(jobs, kept, table), watched + 1
        bad = {couple for couple in couples(jobs, kept) if is_bad(couple, table, slow, draw)}
        for couple in bad:
            known, undone = part(known, *couple), undone + 1
        kept = settle(jobs, known) if bad else kept
    best, unruled = optimum(jobs, table, RULES), optimum(jobs, table, UNRULED)
    return Outcome(
        share_of_optimum=total / watched / best,
        share_of_unruled=total / watched / unruled,
        steady_share=throughput(jobs, kept, table) / best,
        per_gpu=total / watched / (len(jobs) // 2),
        slowest_foreground=min((max(table[c]) for c in couples(jobs, kept)), default=1.0),
        trials_of_a_pair=max(tried.values(), default=0),
        pairs_seen=len(tried),
        undone=undone,
    )


def settle(jobs: Sequence[str], known: Experience) -> tuple[Pairing, ...]:
    """The best of what was measured and is allowed."""
    return choose_pairs(jobs, known, RULES, explore=False)


def couples(jobs: Sequence[str], pairs: Sequence[Pairing]) -> tuple[Couple, ...]:
    """Which profiles are side by side, sorted."""
    return tuple(sorted({couple_of(jobs[pair.foreground], jobs[pair.guest]) for pair in pairs}))


def trial_of(couple: Couple, table: Table, draw: random.Random) -> Trial:
    """Three windows of both, each with its measuring error; a pair that cannot run has speed 0."""
    first, second = (
        statistics.fmean(speed * (1 + draw.gauss(0, NOISE)) for _ in range(RULES.undo_windows))
        for speed in table[couple]
    )
    return Trial(
        first=couple[0], second=couple[1], first_speed=first, second_speed=second, windows=RULES.undo_windows
    )


def is_bad(couple: Couple, table: Table, slow: dict[Couple, list[float]], draw: random.Random) -> bool:
    """One more window of the foreground is measured; whether it is time to undo."""
    seen = slow.setdefault(couple, [])
    seen.append(max(table[couple]) * (1 + draw.gauss(0, NOISE)))
    return must_undo(seen[-RULES.undo_windows :], RULES)


def throughput(jobs: Sequence[str], pairs: Sequence[Pairing], table: Table) -> float:
    """The sum of relative speeds over the GPUs; a GPU without a pair runs one job alone."""
    return len(jobs) // 2 + sum(sum(table[couple_of(jobs[p.foreground], jobs[p.guest])]) - 1 for p in pairs)


def optimum(jobs: Sequence[str], table: Table, rules: PairingRules) -> float:
    """The best there is for somebody who knows the table."""
    trials = {
        couple: Trial(first=couple[0], second=couple[1], first_speed=speeds[0], second_speed=speeds[1])
        for couple, speeds in table.items()
    }
    knowing = Experience(gpu_model="V100", trials=trials)
    return throughput(jobs, choose_pairs(jobs, knowing, rules, explore=False), table)


def by_pairing(jobs: Sequence[str], known: Experience, draw: random.Random) -> tuple[Pairing, ...]:
    """Fallow's own choice."""
    return choose_pairs(jobs, known, RULES)


def by_chance(jobs: Sequence[str], known: Experience, draw: random.Random) -> tuple[Pairing, ...]:
    """Measured good pairs stay; the others are paired by lot."""
    kept = settle(jobs, known)
    taken = {place for pair in kept for place in (pair.foreground, pair.guest)}
    rest = [place for place in range(len(jobs)) if place not in taken]
    draw.shuffle(rest)
    lots = zip(rest[::2], rest[1::2], strict=False)
    return kept + tuple(
        blank(first, second)
        for first, second in lots
        if couple_of(jobs[first], jobs[second]) not in known.trials
    )


def by_greed(jobs: Sequence[str], known: Experience, draw: random.Random) -> tuple[Pairing, ...]:
    """Measured good pairs stay; of the others the couple of the largest expected speed goes first."""
    kept = settle(jobs, known)
    free = set(range(len(jobs))) - {place for pair in kept for place in (pair.foreground, pair.guest)}
    sums = {
        couple: sum(expected_speeds(*couple, known, RULES)[:2])
        for couple in {couple_of(jobs[a], jobs[b]) for a, b in combinations(sorted(free), 2)}
        if couple not in known.trials
    }
    made: list[Pairing] = []
    offers = [(sums.get(couple_of(jobs[a], jobs[b]), 0.0), a, b) for a, b in combinations(sorted(free), 2)]
    for expected, first, second in sorted(offers, reverse=True):
        if expected > 1 and {first, second} <= free:
            free -= {first, second}
            made.append(blank(first, second))
    return kept + tuple(made)


def blank(first: int, second: int) -> Pairing:
    """A pair of which nothing is expected."""
    return Pairing(
        foreground=first, guest=second, foreground_speed=0, guest_speed=0, foreground_worst=0, measured=False
    )


Results = Mapping[str, Mapping[str, Sequence[Outcome]]]


def mean(outcomes: Sequence[Outcome], name: str) -> float:
    """Over the seeds."""
    return statistics.fmean(getattr(outcome, name) for outcome in outcomes)


def figures_of(results: Results) -> dict[str, Any]:
    """The worst mix counts."""
    worst = {way: min(mean(by_way[way], "share_of_optimum") for by_way in results.values()) for way in WAYS}
    unruled = min(mean(by_way["fallow"], "share_of_unruled") for by_way in results.values())
    fallow = [outcome for by_way in results.values() for outcome in by_way["fallow"]]
    slowest = min(outcome.slowest_foreground for outcome in fallow)
    longest = max(outcome.trials_of_a_pair for outcome in fallow) * WINDOW_S
    return {
        "joint_throughput_share_of_optimum": {
            "value": worst["fallow"],
            "target": TARGET,
            "ok": worst["fallow"] >= TARGET,
            "beside": {
                "random": worst["random"],
                "greedy": worst["greedy"],
                "of_the_unruled_optimum": unruled,
            },
        },
        "slowest_foreground_after_undo": {
            "value": slowest,
            "target": RULES.foreground_floor,
            "ok": slowest >= RULES.foreground_floor,
            "beside": {},
        },
        "longest_trial_of_a_pair_s": {"value": longest, "target": 90, "ok": longest <= 90, "beside": {}},
    }


WAYS = ("fallow", "random", "greedy")


def print_table(results: Results, jobs: Mapping[str, Sequence[str]], figures: Mapping[str, Any]) -> None:
    """One line a mix and way, then the figures."""
    print(
        f"{'mix':18} {'jobs':>4} {'way':7} {'of optimum':>10} {'steady':>7} {'of unruled':>10} "
        f"{'per GPU':>7} {'slowest':>7} {'pairs tried':>11} {'undone':>6}"
    )
    for mix, by_way in results.items():
        for way, outcomes in by_way.items():
            print(
                f"{mix:18} {len(jobs[mix]):4} {way:7} {mean(outcomes, 'share_of_optimum'):10.3f} "
                f"{mean(outcomes, 'steady_share'):7.3f} {mean(outcomes, 'share_of_unruled'):10.3f} "
                f"{mean(outcomes, 'per_gpu'):7.3f} {min(o.slowest_foreground for o in outcomes):7.3f} "
                f"{mean(outcomes, 'pairs_seen'):11.1f} {mean(outcomes, 'undone'):6.1f}"
            )
    for name, figure in figures.items():
        verdict = "ok" if figure["ok"] else "MISSED"
        beside = ", ".join(f"{peer} {value:.3f}" for peer, value in figure["beside"].items())
        print(f"{name:36} {figure['value']:.3f}  target {figure['target']}  {verdict}  {beside}")


if __name__ == "__main__":
    main()

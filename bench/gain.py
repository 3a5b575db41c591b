"""Expected gain of an advice against what then came, on simulated clusters whose labels are true.

Whole path, no short cuts: the cluster's ten-second samples go into a real store; at many instants the
service's judgement and the live state are read back *as of* that instant, the policies advise, and the
expected gain of every advice to let idle GPUs go is kept. Then the time after is simulated from the true
labels: the advice is taken (``advisor.planner.transition``: Pause), the GPUs are free until the label says
that the job works again or has ended, it is resumed, and what that cost is taken off. Nobody's consent is
missing in these clusters.

* *error* is |expected - came| over what came (at least a GPU-minute an advice), one case an advice and
instant.
* *total* is the sum of all expected over the sum of all that came, less 1.
* Beside: what a constant (the mean of what came, peeked) and "as long again as it has lasted" would have
  reached.
* Pairs are held against Gavel's V100 table (``bench/gains/pairs.py``), smaller sizes against MISO's A100
  slices (``bench/gains/sizes.py``), moves for a gang against how long it then waits in the simulator
  (``bench/gains/moves.py``, jobs as long as Philly's), memory and pairs against how long jobs of Philly's
  still ran (``bench/gains/ends.py``), where the reference data is. Of one pair that was never tried nobody
  can tell whether it gets on, nor of a job that reports nothing when it ends: those are held to their total.
* Idle times older than the records cannot be told from jobs that never began; nothing is advised on those.

    python bench/gain.py [--json] [--quick]
"""

import argparse
import json
import statistics
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from advisor.actions import Pause  # noqa: E402
from advisor.live.snapshot import EVERYBODY, Site, read_live  # noqa: E402
from advisor.planner.limits import Limits, PlannerConfig  # noqa: E402
from advisor.planner.plan import Advice  # noqa: E402
from advisor.planner.transition import transition  # noqa: E402
from advisor.policies import idle_reclaim  # noqa: E402
from advisor.state.model import ClusterState  # noqa: E402
from analytics.assess import assess  # noqa: E402
from analytics.query import Connection, run  # noqa: E402
from analytics.thresholds import Thresholds  # noqa: E402
from bench.gains import ends, moves, pairs, sizes  # noqa: E402
from bench.gains.case import GUESSED, TOLD  # noqa: E402
from bench.gains.case import Case as Elsewhere  # noqa: E402
from bench.packing import SHARED, read_table  # noqa: E402
from collector.sources.simulated.cluster import SimulatedCluster  # noqa: E402
from collector.sources.simulated.labels import Label, LabelKind  # noqa: E402
from collector.store.database import open_store  # noqa: E402

MINUTE_MS, HOUR_MS, DAY_MS = 60_000, 3_600_000, 86_400_000
START_MS = 1_793_145_600_000  # 2026-10-28, a Wednesday
TICK_MS = 10_000
STEP_MS = 107 * MINUTE_MS  # no round number: instants wander through the day
MOVE_SEEDS = range(9)
"""A gang that waits for long waits beside others, so a few of these clusters hold most of the hours."""
HISTORY_DAYS = 7
TARGET = 0.2
RULES = PlannerConfig()
EVERY = frozenset({EVERYBODY})
CONSENTING = Site(preemptible=EVERY, checkpointable=EVERY, may_share=EVERY)
WORKING = frozenset(
    {
        LabelKind.NOTEBOOK_SESSION,
        LabelKind.SMALL_MODEL,
        LabelKind.LARGE_TRAINING,
        LabelKind.TENSORFLOW_HOG,
        LabelKind.JAX_PREALLOCATION,
        LabelKind.SATURATED_TRAINING,
        LabelKind.BATCH,
        LabelKind.STARTING_UP,
        LabelKind.KEEP_WARM,
        LabelKind.INFERENCE,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One advice, in GPU-hours; ``spell`` is the idle time that it is about."""

    kind: str
    expected: float
    came: float
    elapsed: float
    size_gpus: float
    spell: tuple[str, int | None]


def main() -> None:
    """Run the clusters and print the table, or the figures as JSON."""
    parser = argparse.ArgumentParser(description="Expected gain of advice against what then came")
    parser.add_argument("--json", action="store_true", help="one object of figures")
    parser.add_argument("--quick", action="store_true", help="one cluster, a shorter past; ends within 50 s")
    options = parser.parse_args()
    seeds, days = ((0,), 9) if options.quick else (tuple(range(3)), 13)
    cases = [case for seed in seeds for case in run_seed(seed, days)]
    shown = figures(cases) | measured_elsewhere(range(1 if options.quick else 3), options.quick)
    if options.json:
        print(json.dumps(shown))
        return
    print_table(cases, shown, seeds, days)


def run_seed(seed: int, days: int) -> list[Case]:
    """Store a cluster's past and ask for advice at many instants of it, a week after its beginning."""
    cluster = SimulatedCluster(seed)
    end_ms = START_MS + days * DAY_MS
    truth = cluster.truth(START_MS, end_ms)
    cases: list[Case] = []
    with tempfile.TemporaryDirectory() as folder, open_store(Path(folder) / "fallow.duckdb") as store:
        for history in cluster.history(START_MS, end_ms, TICK_MS):
            store.write_history(history)
        last_ms = end_ms - RULES.horizon_s * 1000
        with store.reader() as reader:
            for now_ms in range(START_MS + HISTORY_DAYS * DAY_MS, last_ms, STEP_MS):
                cases += judge(reader, now_ms, truth)
    return cases


def judge(reader: Connection, now_ms: int, truth: Sequence[Label]) -> Iterator[Case]:
    """Every advice of one instant to let idle GPUs go, beside what then came."""
    live = read_live(
        lambda name, given: run(reader, name, given).to_pylist(),
        assess(reader, now_ms, Thresholds(), TICK_MS),
        CONSENTING,
        RULES,
    )
    for answer in idle_reclaim.advise(live.state, live.observed, Limits(), RULES):
        if isinstance(answer, Advice) and answer.job is not None and answer.gain_gpu_hours > 0:
            job = live.state.jobs[answer.job]
            size = live.state.placements[answer.job].size_gpus
            idle_ms = now_ms - (job.idle_since_ms or now_ms)
            yield Case(
                kind="unknown" if job.kind is None else job.kind.value,
                expected=answer.gain_gpu_hours,
                came=given_back(live.state, answer, wakes_ms(answer, now_ms, truth)),
                elapsed=min(idle_ms / HOUR_MS, RULES.horizon_s / 3600) * size,
                size_gpus=size,
                spell=(answer.job, job.idle_since_ms),
            )


def wakes_ms(advice: Advice, now_ms: int, truth: Sequence[Label]) -> int | None:
    """When the job works on any of its GPUs again, by the labels; ``None``: not any more."""
    again = [
        max(row.from_ms, now_ms)
        for row in truth
        if row.holder is not None
        and row.holder.job == advice.job
        and row.kind in WORKING
        and row.to_ms > now_ms
    ]
    ends = [row.to_ms for row in truth if row.holder is not None and row.holder.job == advice.job]
    return min(again, default=max(ends, default=None))


def given_back(state: ClusterState, advice: Advice, wakes_ms: int | None) -> float:
    """GPU-hours that are free within the horizon when the job is paused now and resumed as it wakes."""
    assert advice.job is not None
    held = state.placements[advice.job]
    paused = transition(state, Pause(job=advice.job))
    assert advice.job not in paused.placements
    end_ms = state.as_of_ms + RULES.horizon_s * 1000
    back_ms = end_ms if wakes_ms is None else min(wakes_ms, end_ms)
    freed = sum(p.size_gpus for p in state.placements.values()) - sum(
        p.size_gpus for p in paused.placements.values()
    )
    assert abs(freed - held.size_gpus) < 1e-9
    return max(0.0, (back_ms - state.as_of_ms) / HOUR_MS - RULES.resume_s / 3600) * freed


def error(expected: float, came: float, size_gpus: float) -> float:
    """Relative to what came; under a GPU-minute, to that."""
    return abs(expected - came) / max(came, size_gpus / 60)


def figures(cases: Sequence[Case]) -> dict[str, Any]:
    """The figures, with what simpler expectations would have reached beside them."""
    found = statistics.median(error(c.expected, c.came, c.size_gpus) for c in cases)
    flat = statistics.fmean(c.came / c.size_gpus for c in cases)
    total = sum(c.expected for c in cases) / sum(c.came for c in cases) - 1
    once = list({case.spell: case for case in reversed(cases)}.values())
    first = statistics.median(error(c.expected, c.came, c.size_gpus) for c in once)
    return {
        "median_error_of_gain": {
            "value": found,
            "target": TARGET,
            "ok": found <= TARGET,
            "beside": {
                "constant": statistics.median(error(flat * c.size_gpus, c.came, c.size_gpus) for c in cases),
                "as_long_again": statistics.median(error(c.elapsed, c.came, c.size_gpus) for c in cases),
            },
        },
        "median_error_of_first_advice": {
            "value": first,
            "target": TARGET,
            "ok": first <= TARGET,
            "beside": {
                "idle_times": len(once),
                "as_long_again": statistics.median(error(c.elapsed, c.came, c.size_gpus) for c in once),
            },
        },
        "error_of_the_total": {"value": total, "target": TARGET, "ok": abs(total) <= TARGET, "beside": {}},
        "cases": {"value": len(cases), "target": 1, "ok": len(cases) >= 1, "beside": {}},
    }


def measured_elsewhere(seeds: Sequence[int], quick: bool) -> dict[str, Any]:
    """The figures of pairs, sizes, moves and memory, on published measurements."""
    if not (SHARED / "traces" / "gavel").is_dir():
        print(
            "skipped: no reference data for pairs, sizes, moves and memory; set FALLOW_SHARED to its folder",
            file=sys.stderr,
        )
        return {}
    paired, sized = pairs.cases(seeds), sizes.cases(SHARED / "traces" / "miso")
    tried, untried = (
        [case for case in paired if case.kind == kind] for kind in (pairs.MEASURED, pairs.UNTRIED)
    )
    once = statistics.median(case.error for case in tried)
    total = sum(case.expected for case in untried) / sum(case.came for case in untried) - 1
    slices = statistics.median(case.error for case in sized)
    philly = SHARED / "traces" / "philly"
    moved = moves.cases(philly, seeds, jobs=150) if quick else moves.cases(philly, MOVE_SEEDS)
    got_on = sum(case.came > pairs.PARTED_AFTER_H for case in untried) / len(untried)
    return {
        "median_error_of_tried_pairs": judged(once, cases=len(tried)),
        "error_of_the_total_of_untried_pairs": judged(total, cases=len(untried), got_on=got_on),
        "median_error_of_sizes": judged(slices, cases=len(sized)),
        **by_reports("moves", moved),
        **measured_ends(seeds),
    }


def measured_ends(seeds: Sequence[int]) -> dict[str, Any]:
    """What lasts until a job ends: memory that it gives back, and pairs."""
    ran, table = ends.lengths(SHARED / "traces" / "philly"), read_table()
    freed = [case for seed in seeds for case in ends.memory(ran, seed, 200)]
    joined = [case for seed in seeds for case in ends.pairs(table, ran, seed, 200)]
    return by_reports("memory", freed) | by_reports("lasting_pairs", joined)


def by_reports(name: str, cases: Sequence[Elsewhere]) -> dict[str, Any]:
    """One kind of advice, on jobs that report what is left of them and on others."""
    shown = {}
    for kind in (TOLD, GUESSED):
        mine = [case for case in cases if case.kind == kind]
        came = sum(case.came for case in mine)
        if came == 0:
            continue  # too few jobs for any, as with --quick
        median = statistics.median(case.error for case in mine)
        total = sum(case.expected for case in mine) / came - 1
        if kind == TOLD:
            shown[f"median_error_of_{name}"] = judged(median, cases=len(mine), total=total)
        else:
            shown[f"error_of_the_total_of_guessed_{name}"] = judged(total, cases=len(mine), median=median)
    return shown


def judged(value: float, **beside: float) -> dict[str, Any]:
    """A figure that may lie a fifth off."""
    return {"value": value, "target": TARGET, "ok": abs(value) <= TARGET, "beside": beside}


def print_table(cases: Sequence[Case], shown: Mapping[str, Any], seeds: Sequence[int], days: int) -> None:
    """By kind of job, then the figures."""
    print(f"{len(seeds)} clusters of 32 GPUs, {days} days each, advice from day {HISTORY_DAYS} on")
    print(f"{'kind':12} {'cases':>6} {'expected':>9} {'came':>9} {'median error':>13}")
    for kind in sorted({case.kind for case in cases}):
        mine = [case for case in cases if case.kind == kind]
        median = statistics.median(error(c.expected, c.came, c.size_gpus) for c in mine)
        expected, came = sum(c.expected for c in mine), sum(c.came for c in mine)
        print(f"{kind:12} {len(mine):6} {expected:9.1f} {came:9.1f} {median:13.3f}")
    for name, figure in shown.items():
        verdict = "ok" if figure["ok"] else "MISSED"
        beside = ", ".join(f"{peer} {value:.3f}" for peer, value in figure["beside"].items())
        print(f"{name:30} {figure['value']:.3f}  target {figure['target']}  {verdict}  {beside}")


if __name__ == "__main__":
    main()

"""How long jobs take under Fallow's own decisions, on measured workloads, against what others published.

Everything is decided by ``advisor.decide.decide``, the function that decides live, in the simulated world of
``advisor.sim``; no job tells it more than a real one could.

*Pollux* (``--only pollux``). The six workloads of each load on 16 nodes of 4 T4, as one project. Step times
are Pollux's own measurements, a job keeps its global batch and needs the iterations of the validation run at
that batch. Order GOODPUT. Each cell is the average JCT over the six, as a ratio to the published one:

* *Tiresias*, *Pollux*: computed from the result files of Pollux's authors (their simulator, 30 s a restart,
  rounds of 60 s). Pollux also tunes the batch while it trains; Fallow never changes it.
* at a resize of 1.2 s: 0.1 s of stopping and starting, and 1.3 GB of state (BERT-base, 110 M parameters with
  Adam's moments in 32 bits, the largest of the six) over 10 Gbit/s. All jobs are charged that.
* *30 s*: the same with Pollux's own cost of a restart. *no reports*: at 1.2 s, jobs don't say what is left.
* *alone*: if each job had the cluster to itself at its best size; *fluid*: one server as fast as all GPUs,
  least remaining work first. No schedule at a constant batch is below either (on packed places).
* *LAS here*: our own Tiresias in the same world at 30 s: how near this world is to that of the authors.

*Philly* (``--only philly``). Jobs submitted from 3 to 16 October 2017, quotas in proportion to demand and at
least the largest gang, load 0.8, nodes of 8 GPUs; a job that is put back loses what it did since its last
half-hourly checkpoint. Order ARRIVAL, no minimal run time: guarantees are kept at once; what is lent goes by
jobs (``by-job``). Beside: the same lent by projects (``fallow``, the default), each project in its own GPUs,
one FIFO pool, the shortest job first by an oracle that knows durations, and Fallow with each project's queue
in the order which that oracle tells: what a better order of waiting could gain.

*Bounds* (``--only bounds``, minutes a load). What no schedule of Pollux's workloads gets below, were it to
know every arrival beforehand and resize for nothing (``bench/schedules/offline.py``), beside what Fallow
gets.

    python bench/jct.py [--json] [--quick] [--only pollux|philly|bounds] [--loads 0.5,1.0]

``--quick``: the first workload of each load, and one day; its ratios are of those alone, and say little.
"""

import argparse
import csv
import json
import os
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from advisor.planner.limits import Limits, Order  # noqa: E402
from advisor.sim.cluster import Cluster, sized_for  # noqa: E402
from advisor.sim.compare import Comparison, Setting, compare  # noqa: E402
from advisor.sim.traces.philly import read_philly  # noqa: E402
from advisor.sim.traces.pollux import read_pollux  # noqa: E402
from advisor.sim.workload import Workload  # noqa: E402
from advisor.sim.world import Physics  # noqa: E402

TRACES = Path(os.environ.get("FALLOW_SHARED", ROOT.parent / "shared")) / "traces"
LOADS = ("0.5", "1.0", "1.5", "2.0")
WORKLOADS = range(1, 7)
RESIZE_S = 0.1 + 110e6 * 12 / 1.25e9
POLLUX_RESTART_S = 30.0
OFTEN = Limits(min_runtime_s=0.0, cooldown_s=0.0, actions_per_hour=None, resize_pause_s=0.0)
Figures = dict[str, dict[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """Average JCTs over the workloads of one load, in seconds."""

    load: str
    fallow: float
    restarting: float
    silent: float
    las: float
    tiresias: float
    pollux: float
    alone: float
    fluid: float
    resizes: int
    preemptions: int


def main() -> None:
    """Run the simulations and print the tables, or the figures as JSON."""
    parser = argparse.ArgumentParser(description="Average JCT on measured workloads")
    parser.add_argument("--json", action="store_true", help="one object of figures")
    parser.add_argument("--quick", action="store_true", help="a part of it; ends within 50 s")
    parser.add_argument("--only", choices=("pollux", "philly", "bounds"), help="one of the three")
    parser.add_argument("--loads", default=",".join(LOADS), help=f"of Pollux's workloads: {', '.join(LOADS)}")
    flags = parser.parse_args()
    if not TRACES.is_dir():
        sys.exit(f"no reference data at {TRACES}; set FALLOW_SHARED to the folder that has traces/")
    began = time.monotonic()
    figures: Figures = {}
    names = flags.loads.split(",")
    if unknown := [load for load in names if load not in LOADS]:
        parser.error(f"--loads: there is no load {', '.join(unknown)}; choose from {', '.join(LOADS)}")
    numbers = WORKLOADS[:1] if flags.quick else WORKLOADS
    if flags.only in (None, "pollux"):
        loads = [measure_load(load, numbers) for load in names]
        figures |= pollux_figures(loads)
        if not flags.json:
            print_loads(loads)
    if flags.only == "bounds":
        for load in names:
            figures |= bound_figures(load, numbers)
    if flags.only in (None, "philly"):
        found = measure_philly("2017-10-03..2017-10-03" if flags.quick else "2017-10-03..2017-10-16")
        figures |= philly_figures(found)
        if not flags.json:
            print_philly(found)
    if flags.json:
        print(json.dumps(figures, indent=1))
        return
    for name, each in figures.items():
        said = "ok  " if each["ok"] else "MISS"
        beside = "".join(f"; {what} {value:.3f}" for what, value in each["beside"].items())
        print(f"{said} {name}: {each['value']:.3f} (at most {each['target']:g}){beside}")
    print(f"{time.monotonic() - began:.0f} s in all")


def measure_load(load: str, numbers: Sequence[int]) -> Load:
    """One load: Fallow three times, LAS once, and the bounds, averaged over the workloads."""
    published = published_jcts()
    cells: list[dict[str, float]] = []
    for number in numbers:
        workload = one_project(read_pollux(TRACES / "pollux" / "workloads.csv.gz", f"{load}/{number}"))
        fast = pollux_run(workload, "fallow", RESIZE_S)
        score = fast.scores["fallow"]
        cells.append(
            {
                "fallow": score.avg_jct_s,
                "restarting": jct(pollux_run(workload, "fallow", POLLUX_RESTART_S)),
                "silent": jct(pollux_run(workload, "fallow", RESIZE_S, reports=False)),
                "las": jct(pollux_run(workload, "las", POLLUX_RESTART_S)),
                "tiresias": published[f"tiresias-{load}", number],
                "pollux": published[f"pollux-{load}", number],
                "alone": fast.alone_bound_s,
                "fluid": fast.fluid_bound_s,
                "resizes": score.resizes,
                "preemptions": score.preemptions,
            }
        )
    means = {name: fmean(cell[name] for cell in cells) for name in cells[0]}
    counts = {name: round(sum(cell[name] for cell in cells)) for name in ("resizes", "preemptions")}
    return Load(load=load, **{**means, **counts})  # type: ignore[arg-type]


def pollux_run(workload: Workload, policy: str, cost_s: float, *, reports: bool = True) -> Comparison:
    """One policy on one workload, a start and a resize costing ``cost_s``."""
    physics = Physics(
        start_s=lambda _: cost_s, resize_s=lambda _: cost_s, saves_on_request=True, reports_left=reports
    )
    setting = Setting(
        cluster=Cluster(nodes=16, gpus_per_node=4),
        physics=physics,
        limits=replace(OFTEN, order=Order.GOODPUT),
        tick_s=1.0,
    )
    return compare(workload, [policy], setting)


def bound_figures(load: str, numbers: Sequence[int]) -> Figures:
    """Fallow's average JCT over what no schedule gets below; it is to be within a tenth of that."""
    from bench.schedules.offline import offline_bound

    published = published_jcts()
    ours, bounds = [], []
    for number in numbers:
        workload = one_project(read_pollux(TRACES / "pollux" / "workloads.csv.gz", f"{load}/{number}"))
        ours.append(jct(pollux_run(workload, "fallow", RESIZE_S)))
        bounds.append(offline_bound(workload, 64, 4).least_s)
    beside = {
        f"bound, of {name}": fmean(bounds) / fmean(published[f"{name}-{load}", number] for number in numbers)
        for name in ("tiresias", "pollux")
    }
    worst = max(mine / bound for mine, bound in zip(ours, bounds, strict=True))
    name = f"pollux load {load} vs any schedule, one that knows the future included"
    return {name: figure(fmean(ours) / fmean(bounds), 1.1, {**beside, "worst workload": worst})}


def measure_philly(days: str) -> Comparison:
    """Six policies on these days of the Philly trace."""
    workload = read_philly(TRACES / "philly" / "philly_jobs.csv.gz", days)
    setting = Setting(cluster=sized_for(workload, 0.8, 8), limits=replace(OFTEN, order=Order.ARRIVAL))
    return compare(workload, ["static", "fifo", "srtf", "foretold", "fallow", "by-job"], setting)


def pollux_figures(loads: Sequence[Load]) -> Figures:
    """The ratios of each load against their targets, and of the mean over all loads."""
    figures: Figures = {}
    for each in loads:
        beside = {
            "without reported remaining work": each.silent / each.tiresias,
            "alone bound": each.alone / each.tiresias,
            "fluid bound": each.fluid / each.tiresias,
            "LAS in this world": each.las / each.tiresias,
        }
        name = f"pollux load {each.load}"
        figures[f"{name} vs tiresias"] = figure(each.fallow / each.tiresias, 0.65, beside)
        figures[f"{name} vs pollux"] = figure(
            each.fallow / each.pollux,
            0.95,
            {"alone bound": each.alone / each.pollux, "fluid bound": each.fluid / each.pollux},
        )
        figures[f"{name} vs tiresias at 30 s"] = figure(each.restarting / each.tiresias, 0.75, {})
    return figures


def philly_figures(found: Comparison) -> Figures:
    """Average JCTs as ratios, the worst project's fairness, and broken guarantees."""
    scores = found.scores
    ours, by_project = scores["by-job"], scores["fallow"]
    worst = max(ours.fairness_avg, key=lambda name: ours.fairness_avg[name])
    fifo = scores["fifo"]
    return {
        "philly vs static partition": figure(
            ours.avg_jct_s / scores["static"].avg_jct_s,
            0.2,
            {
                "lent by projects": by_project.avg_jct_s / scores["static"].avg_jct_s,
                "fifo": fifo.avg_jct_s / scores["static"].avg_jct_s,
                "alone bound": found.alone_bound_s / scores["static"].avg_jct_s,
            },
        ),
        "philly vs one fifo pool": figure(
            ours.avg_jct_s / fifo.avg_jct_s,
            0.95,
            {
                "lent by projects": by_project.avg_jct_s / fifo.avg_jct_s,
                "srtf, an oracle": scores["srtf"].avg_jct_s / fifo.avg_jct_s,
                "the same guarantees and an oracle's order": scores["foretold"].avg_jct_s / fifo.avg_jct_s,
                "alone bound": found.alone_bound_s / fifo.avg_jct_s,
            },
        ),
        "philly finish-time fairness of the worst project": figure(
            ours.fairness_avg[worst],
            1.0,
            {
                "lent by projects": max(by_project.fairness_avg.values()),
                "fifo": max(fifo.fairness_avg.values()),
                "worst single job": max(ours.fairness_worst.values()),
            },
        ),
        "philly quota-violation seconds": figure(
            ours.quota_violation_s,
            0.0,
            {"lent by projects": by_project.quota_violation_s, "fifo": fifo.quota_violation_s},
        ),
    }


def figure(value: float, target: float, beside: dict[str, float]) -> dict[str, Any]:
    """A figure that must be at most its target; finish-time fairness is compared to 4 digits."""
    return {
        "value": round(value, 4),
        "target": target,
        "ok": round(value, 4) <= target,
        "beside": {name: round(each, 4) for name, each in beside.items()},
    }


def published_jcts() -> dict[tuple[str, int], float]:
    """Average JCTs in seconds that follow from Pollux's published results, by run and workload."""
    with (TRACES / "pollux" / "published_results.csv").open(newline="") as lines:
        return {
            (row["run"], int(row["workload"].removeprefix("workload-"))): float(row["avg_jct_s"])
            for row in csv.DictReader(lines)
            if row["experiment"] == "jobload"
        }


def one_project(workload: Workload) -> Workload:
    """The same jobs as those of one project: Pollux knows no others."""
    return replace(workload, jobs=tuple(replace(job, project="pool") for job in workload.jobs))


def jct(found: Comparison) -> float:
    """The average JCT of the only policy that was run."""
    return next(iter(found.scores.values())).avg_jct_s


def print_loads(loads: Iterable[Load]) -> None:
    """The table of Pollux's workloads."""
    print(f"Pollux's workloads, average JCT; a resize costs {RESIZE_S:.1f} s")
    heads = [
        *("load", "Fallow s", "/Tiresias", "/Pollux", "30 s/Tir.", "no rep./Tir.", "LAS here/Tir."),
        *("alone/Tir.", "alone/Pol.", "fluid/Tir.", "resizes", "preempted"),
    ]
    print("  ".join(f"{head:>13}" for head in heads))
    for each in loads:
        ratios = (
            each.fallow / each.tiresias,
            each.fallow / each.pollux,
            each.restarting / each.tiresias,
            each.silent / each.tiresias,
            each.las / each.tiresias,
            each.alone / each.tiresias,
            each.alone / each.pollux,
            each.fluid / each.tiresias,
        )
        cells = (each.load, f"{each.fallow:,.0f}", *(f"{ratio:.3f}" for ratio in ratios))
        print("  ".join(f"{cell:>13}" for cell in (*cells, str(each.resizes), str(each.preemptions))))


def print_philly(found: Comparison) -> None:
    """The table of Philly's jobs."""
    print(f"Philly, {len(found.workload.jobs):,} jobs on {next(iter(found.scores.values())).gpus} GPUs")
    print(f"{'policy':>8} {'avg JCT s':>12} {'p99 s':>12} {'queueing s':>12} {'violated s':>12} "
          f"{'preempted':>10} {'lost GPU-h':>10} {'worst fairness':>15}")  # fmt: skip
    for name, score in found.scores.items():
        print(
            f"{name:>8} {score.avg_jct_s:>12,.0f} {score.p99_jct_s:>12,.0f} {score.avg_queueing_s:>12,.0f} "
            f"{score.quota_violation_s:>12,.0f} {score.preemptions:>10,} {score.lost_gpu_hours:>10.1f} "
            f"{max(score.fairness_avg.values()):>15.4f}"
        )
    print(f"   alone {found.alone_bound_s:>12,.0f}  no schedule is below it")


if __name__ == "__main__":
    main()

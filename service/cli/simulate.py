"""``fallow simulate``: what policies would have made of a trace, or of this site's own recorded history."""

import argparse
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console, RenderableType
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.text import Text

from analytics import text
from analytics.vocabulary.states import GpuState
from service.cli.asking import asked, is_simulated
from service.cli.freshness import measured_window
from service.cli.screen import Column, console, print_json, table
from service.durations import parse_span
from service.errors import FallowError

if TYPE_CHECKING:
    from advisor.sim.cluster import Cluster
    from advisor.sim.compare import Comparison, Setting
    from advisor.sim.score import Score
    from advisor.sim.workload import Workload

GPUS_PER_NODE, PAST = 8, "30d"
SHOWN_BAD_ROWS = 3
SHOWN_STATES = tuple(
    state.value
    for state in GpuState
    if state not in {GpuState.ALLOCATED_EMPTY, GpuState.SUSPECT, GpuState.WITHHELD}
)
"""Those that a simulation tells apart: all who hold a GPU there are on it, and its counters never lie."""


class CannotSimulate(FallowError):
    """The trace, the cluster or a policy's name makes no sense; the message says which and what to do."""


def run_simulate(flags: argparse.Namespace) -> int:
    """Read the workload, run the policies, print their scores; write the page when asked."""
    from advisor.sim.cluster import BadCluster
    from advisor.sim.compare import UnknownPolicy, compare
    from advisor.sim.run import SimulationError
    from advisor.sim.traces.rows import TraceError

    names = [name.strip() for name in flags.policy.split(",")]
    _check_flags(flags)
    try:
        workload = _workload(flags)
        setting = _setting(flags, workload)
        with _progress(flags) as on_progress:
            runs = compare(workload, names, setting, on_progress)
    except (TraceError, BadCluster, UnknownPolicy, SimulationError) as error:
        raise CannotSimulate(str(error)) from error
    if flags.html is not None:
        from service.cli.chart_runs import page

        _write(flags.html, page(runs, setting.cluster))
    if flags.json:
        print_json([_row(runs, score) for score in runs.scores.values()], flags)
    else:
        _show(runs, setting, flags.html)
    return 0


def _check_flags(flags: argparse.Namespace) -> None:
    """Whatever would be found out only after the whole run, or never."""
    if flags.from_store and flags.trace is not None:
        raise CannotSimulate("give either --trace or --from-store: a run plays one of them")
    if not flags.from_store and flags.trace is None:
        raise CannotSimulate("say what to simulate: --trace FILE, or --from-store")
    if flags.from_store and (flags.format is not None or flags.pick is not None):
        raise CannotSimulate(
            "--format and --pick are of a trace file; what was recorded here is cut by --since"
        )
    if flags.trace is not None and (flags.since or flags.until):
        raise CannotSimulate(
            "--since and --until are of what was recorded here; --pick names a part of a trace"
        )
    if flags.nodes is not None and flags.gpus_per_node is not None:
        raise CannotSimulate("--nodes says how many GPUs a node has; --gpus-per-node goes with --load")
    if flags.load is not None and flags.quotas is not None:
        raise CannotSimulate("--load gives quotas in proportion to demand; --quotas goes with --nodes")
    if (flags.nodes is None) == (flags.load is None):
        raise CannotSimulate("give the cluster either as --nodes 16x4, or as --load 0.8 to size it by demand")
    if flags.html is not None and (flags.html.is_dir() or not flags.html.parent.is_dir()):
        raise CannotSimulate(f"cannot write {flags.html}: give --html a file in a folder that is there")


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise CannotSimulate(f"writing {path}: {error.strerror}; give --html another file") from error


def _workload(flags: argparse.Namespace) -> "Workload":
    if flags.from_store:
        return _recorded(flags)
    from advisor.sim.traces.read import read_trace

    return read_trace(flags.trace, flags.format, flags.pick)


def _recorded(flags: argparse.Namespace) -> "Workload":
    from advisor.sim.traces.recorded import recorded_workload

    with asked(flags) as client:
        start, end = measured_window(client, flags.since or PAST, flags.until)
        workload = recorded_workload(client.rows("recorded_jobs", from_ts=start, to_ts=end))
    if not workload.jobs:
        raise CannotSimulate(
            f"no job held a GPU between {start} and {end}; give an earlier --since, or a --trace"
        )
    simulated = is_simulated(flags)  # the page of charts names where its jobs come from, and nothing else
    return replace(workload, origin=f"simulated: {workload.origin}") if simulated else workload


def _setting(flags: argparse.Namespace, workload: "Workload") -> "Setting":
    from advisor.sim.compare import Setting
    from advisor.sim.world import Physics

    restart_s, save_s = (
        parse_span(flags.restart).total_seconds(),
        parse_span(flags.checkpoint).total_seconds(),
    )
    elastic = any(job.largest > job.smallest for job in workload.jobs)
    physics = Physics(
        start_s=lambda _: restart_s,
        resize_s=lambda _: restart_s,
        checkpoint_s=save_s,
        saves_on_request=elastic,
        reports_left=not flags.no_reports,
    )
    return Setting(
        cluster=_cluster(flags, workload),
        physics=physics,
        tick_s=parse_span(flags.tick).total_seconds(),
        grace_s=parse_span(flags.grace).total_seconds(),
    )


def _cluster(flags: argparse.Namespace, workload: "Workload") -> "Cluster":
    from advisor.sim.cluster import Cluster, parse_nodes, shared_out, sized_for
    from advisor.sim.run import fitting

    if flags.load is not None:
        each = flags.gpus_per_node
        return sized_for(workload, flags.load, GPUS_PER_NODE if each is None else each)
    nodes, each = parse_nodes(flags.nodes)
    bare = Cluster(nodes=nodes, gpus_per_node=each)
    if flags.quotas != "demand":
        return bare
    fit, _ = fitting(workload, bare)
    return replace(bare, quotas=shared_out(fit, bare.gpus, each))


def _progress(
    flags: argparse.Namespace,
) -> "AbstractContextManager[Callable[[str, int, int], None] | None]":
    """A bar a policy on a terminal's stderr; nothing in a pipe, and nothing on stdout ever."""
    screen = console(stderr=True)
    return nullcontext(None) if flags.json or not screen.is_terminal else _Bars(screen)


class _Bars:
    """A context that gives a callback which moves a bar for each policy."""

    def __init__(self, screen: Console) -> None:
        self._bars = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.completed:,.0f} of {task.total:,.0f} jobs"),
            TimeElapsedColumn(),
            console=screen,
            transient=True,
        )
        self._tasks: dict[str, TaskID] = {}

    def __enter__(self) -> Callable[[str, int, int], None]:
        self._bars.start()
        return self._move

    def __exit__(self, *_: object) -> None:
        self._bars.stop()

    def _move(self, name: str, done: int, jobs: int) -> None:
        if name not in self._tasks:
            self._tasks[name] = self._bars.add_task(name, total=jobs)
        self._bars.update(self._tasks[name], completed=done)


def _row(runs: "Comparison", score: "Score") -> dict[str, object]:
    workload = runs.workload
    return {
        **asdict(score),
        "trace": workload.origin,
        "bad_rows": [asdict(row) for row in (*workload.bad_rows, *runs.too_large)],
        "left_out": dict(workload.left_out),
        "cut_off": dict(workload.cut_off),
        "not_played": list(workload.not_played),
        "alone_bound_s": runs.alone_bound_s,
        "fluid_bound_s": runs.fluid_bound_s,
    }


def _show(runs: "Comparison", setting: "Setting", html: Path | None) -> None:
    from advisor.sim.compare import POLICIES

    screen, cluster, scores = console(), setting.cluster, list(runs.scores.values())
    screen.print(
        f"{runs.workload.origin}: {len(runs.workload.jobs):,} jobs on {cluster.nodes} nodes of "
        f"{cluster.gpus_per_node} GPUs",
        style="bold",
    )
    for line in (*_omissions(runs), *runs.workload.not_played):
        screen.print(line, style="yellow")
    screen.print(table(_TIME_COLUMNS, [_times(score) for score in scores]))
    screen.print(
        f"No schedule has a lower average JCT than {text.length(runs.alone_bound_s)} (each job alone) or "
        f"{text.length(runs.fluid_bound_s)} (one server as fast as all GPUs).",
        style="bright_black",
    )
    screen.print(table(_USE_COLUMNS, [_uses(score) for score in scores]))
    if any(score.fairness_avg for score in scores):
        screen.print(
            "Finish-time fairness: average (worst job); at most 1 is as good as own GPUs", style="bold"
        )
        screen.print(_fairness(scores))
    for score in scores:
        screen.print(f"{score.policy}: {POLICIES[score.policy].about}", style="bright_black")
    if html is not None:
        screen.print(f"Charts: {html}")


def _omissions(runs: "Comparison") -> list[str]:
    bad, large = runs.workload.bad_rows, runs.too_large
    lines = [f"{count:,} rows left out: {why}" for why, count in runs.workload.left_out]
    lines += [f"{count:,} jobs {why}" for why, count in runs.workload.cut_off]
    if bad:
        lines.append(f"{len(bad):,} rows skipped as they make no sense here; the first:")
        lines += [f"  line {row.line}: {row.reason}" for row in bad[:SHOWN_BAD_ROWS]]
    if large:
        lines.append(f"{len(large):,} jobs left out, under every policy, as they are too large; the first:")
        lines += [f"  {row.reason}" for row in large[:SHOWN_BAD_ROWS]]
    return lines


_TIME_COLUMNS = (
    Column(title="policy"),
    *(Column(title=title, right=True) for title in ("avg JCT", "p99 JCT", "queueing", "makespan")),
    *(Column(title=title, right=True) for title in ("allocated", "utilization", "preempted", "resized")),
)
_USE_COLUMNS = (
    Column(title="GPU-hours"),
    *(Column(title=name, right=True) for name in SHOWN_STATES),
    Column(title="free while jobs wait", right=True),
    Column(title="lost work", right=True),
    Column(title="quota violated", right=True),
)


def _times(score: "Score") -> list[str | Text]:
    return [
        Text(score.policy, style="bold"),
        text.length(score.avg_jct_s),
        text.length(score.p99_jct_s),
        text.length(score.avg_queueing_s),
        text.length(score.makespan_s),
        text.percent(score.allocated_ratio),
        text.percent(score.utilization_ratio),
        f"{score.preemptions:,}",
        f"{score.resizes:,}",
    ]


def _uses(score: "Score") -> list[str | Text]:
    return [
        Text(score.policy, style="bold"),
        *(text.hours(score.gpu_hours[name]) for name in SHOWN_STATES),
        text.hours(score.free_while_waiting_gpu_hours),
        text.hours(score.lost_gpu_hours),
        text.length(score.quota_violation_s),
    ]


def _fairness(scores: "Sequence[Score]") -> RenderableType:
    projects = sorted({name for score in scores for name in score.fairness_avg})
    columns = [Column(title="project"), *(Column(title=s.policy, right=True) for s in scores)]
    lines: list[list[str | Text]] = [
        [name, *(f"{s.fairness_avg[name]:.2f} ({s.fairness_worst[name]:.2f})" for s in scores)]
        for name in projects
    ]
    return table(columns, lines)

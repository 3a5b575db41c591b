"""What imported accounting knows, on a terminal: below a ledger, and of one job."""

import json
from collections.abc import Collection, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from analytics import text
from analytics.vocabulary.jobs import bare_id, told_id
from analytics.vocabulary.managers import is_imported, source_of
from service.cli import words
from service.cli.screen import Column, console, table
from service.client import Client
from service.summaries import accounted

if TYPE_CHECKING:
    from service.schemas.rows import AccountedRunsRow, AccountedUseRow

KEYS = ("user", "project", "account", "partition", "qos", "cluster", "node", "job")
MOST_ROWS = 100
"""A year has some hundred thousand jobs; those with the most hours come first."""
MOST_GPUS = 16
"""Of a job, each with its mean; --json has all."""


def draw(client: Client, by: str, span: tuple[datetime, datetime], filters: dict[str, str | None]) -> None:
    """Print what is known of the window before it was measured, where anything is. Raises ``ClientError``."""
    if filters.get("model"):
        return
    chosen = {name: value for name, value in filters.items() if name != "model"}
    key = by if by in KEYS else "all"
    rows = client.rows_if_kept("accounted_use", from_ts=span[0], to_ts=span[1], by=key, **chosen)
    if not rows:
        return
    screen = console()
    screen.print(f"{accounted.HEADING}:", style="bold")
    if key != "all":
        columns = [
            Column(title=key),
            Column(title="runs", right=True),
            Column(title="given", right=True),
            Column(title="with means", right=True),
            Column(title="mean use", right=True),
            Column(title="mean of 0", right=True),
        ]
        screen.print(table(columns, [_line(row) for row in rows[:MOST_ROWS]]))
        if len(rows) > MOST_ROWS:
            rest = sum(row["gpu_hours"] or 0.0 for row in rows[MOST_ROWS:])
            screen.print(
                f"{text.many(len(rows) - MOST_ROWS, 'row')} more with {text.gpu_hours(rest)}: "
                "--user, --project, --node or a shorter range narrows them down"
            )
    screen.print(accounted.told(rows))


def all_runs(client: Client, job: str) -> "list[AccountedRunsRow]":
    """The imported runs of a job's id, the newest first, whosever and in whichever cluster. Blocks."""
    if not is_imported(job) or told_id(job) != job:
        return []
    return list(client.rows_if_kept("accounted_runs", job=bare_id(job)) or [])


def runs_of(job: str, rows: "Sequence[AccountedRunsRow]") -> "list[AccountedRunsRow]":
    """Those of the newest run's person and cluster: numbers are used again, and each cluster has its own."""
    cluster = _cluster_of(job)
    own = [row for row in rows if cluster in ("", row["cluster"])]
    return [row for row in own if all(row[each] == own[0][each] for each in ("user_name", "cluster"))]


def elsewhere(rows: "Sequence[AccountedRunsRow]", jobs: Collection[str]) -> "list[AccountedRunsRow]":
    """The newest run in each cluster where none of the measured ``jobs`` ran, if these say their own."""
    clusters = {_cluster_of(job) for job in jobs}
    newest = {row["cluster"]: row for row in reversed(rows)}
    return [] if "" in clusters else [row for cluster, row in newest.items() if cluster not in clusters]


def other(run: "AccountedRunsRow") -> str:
    """That a job of that id was in another cluster, of which nothing is measured."""
    began = run["started_at"] or run["submitted_at"]
    return (
        f"{run['user_name'] or 'somebody'} had a job of this id in cluster {run['cluster']}, from "
        f"{words.clock_time(began)} to {words.clock_time(run['ended_at'])}: nobody measured it"
    )


def header(run: "AccountedRunsRow") -> str:
    """Its id, name, and whose it is."""
    who = " · ".join(str(run[each]) for each in ("user_name", "project") if run[each])
    name = f" {run['job_name']}" if run["job_name"] else ""
    return f"{run['job'].partition(':')[0]}:{run['shown_id']}{name}{f' · {who}' if who else ''}"


def lines(runs: "Sequence[AccountedRunsRow]") -> tuple[str, ...]:
    """Sentences about the newest imported run, and how many were before it."""
    run, before = runs[0], len(runs) - 1
    again = f"; {text.many(before, 'run')} before it" if before else ""
    where = ", ".join(
        f"{label} {name}" for label, name in (("partition", run["partition"]), ("QOS", run["qos"])) if name
    )
    cluster = f", cluster {run['cluster']}" if run["cluster"] else ""
    source = f"By {source_of(run['job'])}{cluster}{f', {where}' if where else ''}"
    state = f" as {run['state_name']}" if run["state_name"] else ""
    ended = f"ended {words.clock_time(run['ended_at'])}{state}"
    if run["started_at"] is None:
        return (
            f"{source}: waited since {words.clock_time(run['submitted_at'])}, never began, {ended}{again}",
        )
    lasted_s = (words.moment(run["ended_at"]) - words.moment(run["started_at"])).total_seconds()
    nodes = f" on {text.many(len(run['node_names']), 'node')}" if run["node_names"] else ""
    return (
        f"{source}: began {words.clock_time(run['started_at'])}, {ended}{again}",
        f"{text.many(run['gpus'], 'GPU')}{nodes} for {text.length(lasted_s)}: "
        f"{text.hours(lasted_s / 3600 * run['gpus'])} GPU-hours",
        accounted.gpus_used(run) or "nobody kept what was made of them",
        *_means(run),
    )


def _cluster_of(job: str) -> str:
    """The cluster that a job's id bears; empty where it bears none."""
    return told_id(job).removeprefix(bare_id(job)).removeprefix("@")


def counted(client: Client, runs: "Sequence[AccountedRunsRow]") -> str | None:
    """Why sums have less of the newest run than accounting gave it; ``None`` where they don't. Blocks."""
    if not runs or (began := runs[0]["started_at"]) is None:
        return None
    run = runs[0]
    span = {"from_ts": began, "to_ts": run["ended_at"]}
    rows = client.rows_if_kept("accounted_use", **span, by="job", user=run["user_name"]) or ()
    return accounted.counted([row for row in rows if row["key"] == run["job"]])


def _means(run: "AccountedRunsRow") -> tuple[str, ...]:
    means = json.loads(run["measured"] or "[]")
    shown = tuple(
        f"  {each['node']}/{each['gpu']}: {text.percent(each['utilization_ratio'])}"
        + (
            f", at most {text.memory(each['memory_used_bytes'], each['memory_total_bytes'])}"
            if each["memory_used_bytes"] is not None
            else ""
        )
        for each in means[:MOST_GPUS]
    )
    more = len(means) - MOST_GPUS
    return (*shown, *([f"  and {text.many(more, 'GPU')} more; --json has them"] if more > 0 else []))


def _line(row: "AccountedUseRow") -> list[str]:
    return [
        row["key"] or "(not known)",
        text.count(row["runs"]),
        text.hours(row["gpu_hours"]),
        text.hours(row["measured_gpu_hours"]),
        text.percent(row["utilization_ratio"]),
        text.hours(row["unused_gpu_hours"]),
    ]

"""``fallow waste``: who wasted how much, why, who was told, and what to do; a table to forward as it is.

The sum is the ledger's (docs/decisions/0049), so it is the one of ``fallow ledger``, pages and reports.
"""

import argparse
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from rich.console import RenderableType
from rich.text import Text

from analytics import text
from service.cli import freshness, words
from service.cli.asking import asked
from service.cli.ledger import NOT_KNOWN
from service.cli.screen import Column, console, print_csv, print_json, table
from service.client import Client
from service.durations import window
from service.summaries import accounted
from service.summaries.waste_table import Waste
from service.usecases.wasted import wasted

if TYPE_CHECKING:
    from service.schemas.rows import WasteRow

SHOWN = 10
"""As many as a head of group reads; who comes after them wasted little."""
USER = "user"
NOT_TOLD = "no"
NONE_HELD = "Nobody is known to have held a GPU in this time; see `fallow status` and `fallow doctor`."
WORKED = "Whoever held a GPU worked on it."
NAMELESS = "Of half of it or more no user is known, so it is told by job; --by user says what is."


def run_waste(flags: argparse.Namespace) -> int:
    """Print the table, the largest first."""
    start, end = window(flags.since, flags.until, datetime.now(UTC))
    filters = {name: getattr(flags, name) for name in ("node", "project", "user", "model")}
    with asked(flags) as client:
        if flags.by is None and not (flags.json or flags.csv):
            by, rows = by_who_is_known(client, (start, end), filters)
        else:
            by = flags.by or USER
            rows = wasted(client, by, (start, end), filters)
        (sums,) = client.rows("waste", from_ts=start, to_ts=end, **filters)
        silent = freshness.silent_end(client, start, end)
        part = freshness.rests_on(client, (start, end), filters)
        past = freshness.unjudged_past(client, (start, end))
        by_user = freshness.accounted_by_user(client, (start, end), filters)
    if flags.json:
        print_json([_record(each, by) for each in rows], flags)
        return 0
    if flags.csv:
        records = [_record(each, by) | {"from_ts": start, "to_ts": end} for each in rows]
        print_csv((by, *COLUMNS), records, flags)
        return 0
    screen = console()
    screen.print(heading(sums, words.in_range(flags.since, flags.until)), style="bold")
    excluded = accounted.left_out(by_user) if sums["held_gpu_hours"] else None
    for line in filter(None, (part, silent, past, excluded)):
        screen.print(line, style="yellow")
    if not rows:
        screen.print(WORKED if sums["held_gpu_hours"] else accounted.instead(by_user, NONE_HELD))
        return 0
    if flags.by is None and by != USER:
        screen.print(NAMELESS, style="bright_black")
    shown = rows if flags.all else rows[:SHOWN]
    screen.print(draw(shown, by, datetime.now(UTC)))
    if rest := rows[len(shown) :]:
        hours = text.gpu_hours(sum(each.gpu_hours for each in rest))
        screen.print(f"and {len(rest)} more with {hours} together; --all lists them", style="bright_black")
    return 0


def by_who_is_known(
    client: Client, span: tuple[datetime, datetime], filters: Mapping[str, object]
) -> tuple[str, tuple[Waste, ...]]:
    """By what it is told best, and the rows: by user, by job where few users are known. Blocks."""
    rows = wasted(client, USER, span, filters)
    return ("job", wasted(client, "job", span, filters)) if _is_nameless(rows) else (USER, rows)


def _is_nameless(rows: Sequence[Waste]) -> bool:
    """Whether nobody knows who wasted most of it, as where pods bear no user: jobs say more then."""
    named = sum(row.gpu_hours for row in rows if row.key is not None)
    return bool(rows) and named <= sum(row.gpu_hours for row in rows) / 2


def draw(rows: Sequence[Waste], by: str, now: datetime, width: int | None = None) -> RenderableType:
    """The table: in columns where they find room; else why and what to do stand under each row."""
    priced = any(each.cost is not None for each in rows)
    columns = [
        Column(title=by),
        *([Column(title="name", spare=1), Column(title="user", spare=5)] if by == "job" else []),
        Column(title="GPU-hours", right=True),
        Column(title="share", right=True, spare=4 if by == "job" else None),
        *([Column(title="cost", right=True)] if priced else []),
        *([Column(title="jobs", right=True, spare=3)] if by != "job" else []),
        Column(title="running", right=True, spare=2),
        Column(title="last told", right=True),
        Column(title="why", below=True),
        Column(title="do", below=True),
    ]
    return table(columns, [_line(each, by, priced, now) for each in rows], width=width)


def _line(row: Waste, by: str, priced: bool, now: datetime) -> list[str | Text]:
    job = row.worst
    notified = text.length_cell(words.since(row.told_at, now))
    return [
        NOT_KNOWN if row.key is None else row.key,
        *([_of(job, "job_name"), _of(job, "user_name")] if by == "job" else []),
        Text(text.hours(row.gpu_hours), style="red"),
        text.percent(row.share_ratio),
        *([text.money(row.cost, row.currency)] if priced else []),
        *([text.count(row.jobs)] if by != "job" else []),
        _running(row) if by == "job" else text.count(row.running),
        f"{notified} ago" if row.told_at is not None else NOT_TOLD,
        why(row, by),
        words.localized(row.remedy),
    ]


def why(row: Waste, by: str) -> str:
    """What was found, and of which job where the row is of several: ``Held, idle: notebook``."""
    finding = row.found
    if by == "job" or row.worst is None:
        return finding
    return f"{finding}: {row.worst['job_name'] or row.worst['job']}"


def _of(job: Mapping[str, object] | None, column: str) -> str:
    return "" if job is None else str(job[column] or "")


def _running(row: Waste) -> str:
    return "yes" if row.running else "ended"


def heading(sums: "WasteRow", of: str) -> str:
    """The range's waste, and its part of what was given out."""
    gpu_hours, lost = sums["held_gpu_hours"], sums["wasted_gpu_hours"]
    priced = words.priced(sums["wasted_cost"], sums["currency"])
    part = f", {text.percent(lost / gpu_hours)} of what was given out" if gpu_hours else ""
    return f"{of}: {text.gpu_hours(lost)} wasted{priced}{part}"


COLUMNS = (
    "wasted_gpu_hours",
    "share_ratio",
    "wasted_cost",
    "currency",
    "jobs",
    "running_jobs",
    "kinds",
    "worst_job",
    "worst_job_name",
    "worst_job_user",
    "told_at",
    "told",
    "remedy",
    "from_ts",
    "to_ts",
)
"""Of a table that is forwarded, behind the key: a table of nothing has them too."""


def _record(row: Waste, by: str) -> dict[str, object]:
    job = row.worst
    return {
        by: row.key,
        "wasted_gpu_hours": row.gpu_hours,
        "share_ratio": row.share_ratio,
        "wasted_cost": row.cost,
        "currency": row.currency,
        "jobs": row.jobs,
        "running_jobs": row.running,
        "kinds": list(row.reasons),
        "worst_job": None if job is None else job["job"],
        "worst_job_name": None if job is None else job["job_name"],
        "worst_job_user": None if job is None else job["user_name"],
        "told_at": row.told_at,
        "told": row.told,
        "remedy": row.remedy,
    }

"""``fallow findings``: what is wasted or broken, for how long, and the evidence in a sentence."""

import argparse
from datetime import UTC, datetime, timedelta
from typing import Any

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from service.cli import words
from service.cli.screen import console, place, print_json
from service.cli.spans import window
from service.client import connect

KIND_STYLES = {
    "held-idle": "red",
    "allocated-empty": "magenta",
    "low-saturation": "yellow",
    "memory-hog": "yellow",
    "suspect-counters": "bold magenta",
    "zombie-memory": "magenta",
    "falling-gpu": "bold red",
}


def run(flags: argparse.Namespace) -> int:
    """Print them, the dearest first."""
    start, end = window(flags.since, flags.until, datetime.now(UTC) + timedelta(minutes=1))
    filters = {name: getattr(flags, name) for name in ("node", "project", "user", "model")}
    only_open = None if flags.all else True
    with connect(flags.data) as client:
        rows = client.rows("findings", from_ts=start, to_ts=end, open=only_open, **filters)
    if flags.json:
        print_json(rows)
        return 0
    screen = console()
    if not rows:
        screen.print("No open findings." if only_open else f"No findings in the last {flags.since}.")
        return 0
    screen.print(_heading(rows, bool(only_open)), style="bold")
    now = datetime.now(UTC)
    for row in rows:
        screen.print(_draw(row, now))
    return 0


def _heading(rows: list[dict[str, Any]], only_open: bool) -> str:
    wasted = sum(row["wasted_gpu_hours"] or 0 for row in rows)
    cost = sum(row["wasted_cost"] or 0 for row in rows)
    currency = next((row["currency"] for row in rows if row["currency"]), None)
    priced = f", {words.money(cost, currency)}" if currency and cost else ""
    kind = "open findings" if only_open else "findings"
    return f"{len(rows)} {kind}: {words.hours(wasted)} GPU-hours wasted{priced}"


def _draw(row: dict[str, Any], now: datetime) -> RenderableType:
    lasted = words.span(words.since(row["opened_at"], now))
    over = "" if row["closed_at"] is None else f" · over since {words.clock_time(row['closed_at'])}"
    head = Text.assemble(
        (row["kind"], KIND_STYLES.get(row["kind"], "bold")),
        f"  {place(row)}",
        f" · {row['user_name'] or 'nobody'}" + (f" · {row['project']}" if row["project"] else ""),
        (f" · found {lasted} ago{over}", "bright_black"),
        (f" · {words.hours(row['wasted_gpu_hours'])} GPU-hours", "red") if row["wasted_gpu_hours"] else "",
    )
    return Group(head, Padding(Text(row["sentence"]), (0, 0, 0, 2), expand=False))

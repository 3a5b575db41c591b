"""``fallow actions``: the journal, the newest first."""

import argparse
from datetime import UTC, datetime
from typing import Any

from rich.text import Text

from service.cli import paper_words
from service.cli.asking import asked_to_act
from service.cli.job_words import job_id
from service.cli.screen import Column, console, print_json, table
from service.durations import parse_point

COLUMNS = (
    Column(title="action", right=True),
    Column(title="when"),
    Column(title="job"),
    Column(title="what"),
    Column(title="by"),
    Column(title="outcome"),
    Column(title="why", least=16),
    Column(title="undo", least=12),
)
STYLES = {"done": "green", "failed": "red", "unknown": "bold red", "stale": "yellow"}


def run(flags: argparse.Namespace) -> int:
    """Print it."""
    since = parse_point(flags.since, datetime.now(UTC))
    job = None if flags.job is None else job_id(flags.job)
    client = asked_to_act(flags)
    rows = client.actions(since_ms=max(0, round(since.timestamp() * 1000)), job=job)
    if flags.json:
        print_json(rows, flags)
        return 0
    screen = console()
    switch = client.acting()
    if not switch["acting"]:
        why = f": {switch['because']}" if switch.get("because") else ""
        screen.print(f"Acting is stopped by {switch.get('by') or 'somebody'}{why}.", style="bold red")
    if not rows:
        screen.print("Nothing was done.")
        return 0
    screen.print(table(COLUMNS, [_line(row) for row in rows]))
    return 0


def _line(row: dict[str, Any]) -> tuple[str | Text, ...]:
    outcome = row["outcome"] or "under way"
    undone = row.get("undone_by")
    undo = (
        f"undone by {undone}"
        if undone is not None
        else row.get("undo") or f"({row.get('no_undo') or 'none'})"
    )
    found = row.get("found")
    why = row.get("reason") or ""
    return (
        str(row["action"]),
        paper_words.at(row["at_ms"]),
        row["job"],
        row["verb"].replace("-", " "),
        row["actor"],
        Text(outcome, style=STYLES.get(outcome, "")),
        f"{why} [{found}]" if found and outcome != "done" else why,
        undo,
    )

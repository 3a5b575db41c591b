"""``fallow`` alone: how things stand in five lines, the three who waste most, and what to type next."""

import argparse
from collections.abc import Sequence
from datetime import UTC, datetime
from shlex import quote

from rich.text import Text

from analytics import text
from service.cli import freshness, status, waste, words
from service.cli.asking import asked
from service.cli.ledger import NOT_KNOWN
from service.cli.screen import Column, console, table
from service.durations import window
from service.errors import NoData
from service.summaries.waste_table import Waste

SINCE = "7d"
"""A week has weekdays and a weekend in it, and people still know what they ran."""
WORST = 3
BESIDE = 24
"""A command up to so long leaves 50 columns for what it is good for."""
FIRST_STEPS = (
    ("fallow init", "look around, write the configuration, import the past"),
    ("fallow up", "watch this machine's GPUs, with a dashboard"),
    ("fallow up --simulated", "look around first: a cluster that is invented"),
    ("fallow doctor", "what can be measured here, and what is missing"),
    ("fallow --help", "everything else"),
)


def run_summary(flags: argparse.Namespace) -> int:
    """Print it; where nothing was ever recorded, how to begin."""
    screen = console()
    try:
        with asked(flags) as client:
            picture = status.look(client, {})
            start, end = window(SINCE, None, datetime.now(UTC))
            by, rows = waste.by_who_is_known(client, (start, end), {})
            (sums,) = client.rows("waste", from_ts=start, to_ts=end)
            parts = freshness.rests_on(client, (start, end), {}), freshness.left_out(client, (start, end), {})
    except NoData:
        screen.print("Nothing was recorded here yet. To begin:")
        _print_steps(FIRST_STEPS)
        return 0
    if not picture.gpus:
        screen.print(status.draw(picture))
        _print_steps(FIRST_STEPS)
        return 0
    for line in status.summary(picture, ages=False):
        screen.print(line)
    screen.print(waste.heading(sums, words.in_range(SINCE, None)))
    for part in filter(None, parts):
        screen.print(part, style="yellow")
    if rows:
        screen.print()
        screen.print(_worst(rows[:WORST], by))
    screen.print()
    _print_steps(_next_steps(rows, client.url))
    return 0


def _worst(rows: Sequence[Waste], by: str) -> Text | object:
    columns = [
        Column(title=by),
        Column(title="GPU-hours", right=True),
        Column(title="share", right=True),
        Column(title="why", below=True),
    ]
    return table(
        columns,
        [
            [
                NOT_KNOWN if row.key is None else row.key,
                Text(text.hours(row.gpu_hours), style="red"),
                text.percent(row.share_ratio),
                waste.why(row, by),
            ]
            for row in rows
        ],
    )


def _next_steps(rows: Sequence[Waste], url: str | None) -> list[tuple[str, str]]:
    worst = next((row.worst for row in rows if row.worst is not None), None)
    steps = []
    if rows:
        steps.append(("fallow waste", "everybody, what it cost, who was told, what to do"))
    if worst is not None:
        steps.append((f"fallow job {quote(str(worst['job']))}", "what the worst of it did on each GPU"))
    if url is None:
        steps.append(("fallow up", "measure on, and open the dashboard"))
    else:
        steps.append(("fallow status", "every GPU now"))
    return [*steps, ("fallow --help", "everything else")]


def _print_steps(steps: Sequence[tuple[str, str]]) -> None:
    """A command a line, and what it is good for beside it; under it, where a job's long id leaves no room."""
    screen = console()
    widest = max(len(typed) for typed, _ in steps if len(typed) <= BESIDE)
    for typed, about in steps:
        gap = f"\n{'':{widest + 5}}" if len(typed) > BESIDE else "   "
        screen.print(Text.assemble("  ", (f"{typed:{widest}}", "cyan"), f"{gap}{about}"), no_wrap=True)

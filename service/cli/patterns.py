"""How each holder works, as a table: for ``fallow findings --patterns``. Draws only; judged elsewhere."""

import json
from collections.abc import Mapping
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from service.cli import words
from service.cli.screen import Column, table

STYLES = {
    "analysis-bursts": "cyan",
    "low-saturation": "yellow",
    "gaps-between-runs": "magenta",
    "saturated": "green",
    "unknown": "bright_black",
    "unclear": "bright_black",
}


def draw(rows: list[dict[str, Any]]) -> RenderableType:
    """A row a holder; under the table what could not be said of whom, and why."""
    if not rows:
        return Text("No pattern was judged yet: a service judges them each minute.")
    columns = [
        Column(title="user", least=6),
        Column(title="job", least=10),
        Column(title="works in"),
        Column(title="measured", right=True),
        Column(title="active", right=True),
        Column(title="used then", right=True),
        Column(title="runs", right=True),
        Column(title="longest", right=True),
        Column(title="longest gap", right=True),
    ]
    doubts = [Text(f"{_name(row)}: {row['reason']}", style="bright_black") for row in rows if row["reason"]]
    return Group(table(columns, [_line(row) for row in rows]), *doubts)


def _line(row: dict[str, Any]) -> list[str | Text]:
    numbers: Mapping[str, Any] = json.loads(row["evidence"] or "{}")
    return [
        row["user_name"] or "",
        _name(row),
        Text(row["kind"], style=STYLES.get(row["kind"], "")),
        words.percent(numbers.get("coverage_ratio")),
        words.percent(numbers.get("active_ratio")),
        words.percent(numbers.get("utilization_active_mean_ratio")),
        words.count(numbers.get("runs")),
        _length(numbers.get("run_longest_minutes")),
        _length(numbers.get("gap_longest_minutes")),
    ]


def _name(row: dict[str, Any]) -> str:
    return str(row["job_name"] or row["job"])


def _length(minutes: float | None) -> str:
    return words.NOTHING if minutes is None else words.span(minutes * 60)

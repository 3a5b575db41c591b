"""The open alerts of the findings page, in words."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pandas as pd

from service.pages.parts.open_alerts import table


@dataclass
class Scene:
    zone: Any = UTC

    def when(self, at: Any) -> str:
        return f"{at:%H:%M}"


def test_a_case_says_what_since_when_what_next_and_whom_a_word_reached() -> None:
    row = {
        "title": "ann's notebook does nothing",
        "kind": "held-idle",
        "rung": "tell",
        "since_ts": datetime(2026, 11, 21, 9, 30, tzinfo=UTC),
        "next": "It is paused, 2026-11-21 10:30 UTC at the earliest.",
        "told": "ops, user:ann",
        "waiting": None,
        "missed": "project:vision",
        "command": "fallow keep x --hours 4",
    }
    quiet = {**row, "told": None, "missed": None, "command": ""}
    shown = table(pd.DataFrame([row, quiet]), Scene())  # type: ignore[arg-type]
    assert list(shown.iloc[0]) == [
        "ann's notebook does nothing",
        "held-idle, tell",
        "09:30",
        "It is paused, 21 Nov 10:30 at the earliest.",
        "ops, ann",
        None,
        "the head of vision",
        "fallow keep x --hours 4",
    ]
    assert all(pd.isna(cell) for cell in list(shown.iloc[1])[4:])

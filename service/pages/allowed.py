"""What may be done with a job, and by whose word: the owner's, the submission's, or the site's.

Shown to everybody, said by the owner alone (``fallow consent``); the service knows who that is.
"""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pandas as pd
import streamlit as st

from service.client.errors import ClientError
from service.pages import acting, wording
from service.pages.tabled import grid

When = Callable[[Any], str]
"""Writes an instant in the viewer's zone."""

MEANING = {
    "pause": "Paused, nothing lost",
    "restart": "Restarted from its own checkpoint, or elsewhere",
    "resize": "Given more or fewer GPUs",
    "release": "Told to give cached memory back",
    "share": "Beside other people's jobs on one GPU",
}
WORD = {
    "owner": "its owner",
    "submission": "as submitted",
    "site": "the site's [consent]",
    "nobody": "nobody: so it is not done",
}


def allowed(when: When, job: str) -> None:
    """Draw what may be done with a job that runs or waits; nothing for one that has ended."""
    try:
        rows = acting.ask("consents", job=job)
    except ClientError:
        return
    if not rows:
        return
    st.subheader("What may be done with it", anchor=False)
    grid(
        _frame(when, rows),
        hide_index=True,
        placeholder=wording.DASH,
        alt="What may be done with this job, and by whose word",
    )
    st.caption("Its owner allows or withdraws it; a no counts at once, whoever says yes beside it:")
    st.code(f"fallow consent --job {job} --allow pause,restart   # or --withdraw", language="shell")


def _frame(when: When, rows: list[dict[str, Any]]) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "May be": [MEANING.get(str(row["kind"]), str(row["kind"])) for row in rows],
            "Allowed": ["yes" if row["allowed"] else "no" for row in rows],
            "By whose word": [_whose(row) for row in rows],
            "Said": [_at(when, row.get("said_ms")) for row in rows],
            "Until": [_at(when, row.get("until_ms")) for row in rows],
        }
    )


def _whose(row: dict[str, Any]) -> str:
    whose = WORD.get(str(row["origin"]), str(row["origin"]))
    return f"{whose}, of all own jobs" if row.get("for_all") else whose


def _at(when: When, at_ms: int | None) -> str | None:
    return None if at_ms is None else when(datetime.fromtimestamp(at_ms / 1000, UTC))

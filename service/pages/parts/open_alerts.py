"""What people are told of: the open cases of alerts. Effects: it draws."""

import pandas as pd
import streamlit as st

from analytics import text
from service import wording
from service.charts.frame import rows
from service.pages.data import queries
from service.pages.parts.charted import grid
from service.pages.parts.context import PageContext

FILTERS = ("node", "project", "user")


def alerts(scene: PageContext) -> None:
    """The open cases in a table; a quiet line when there are none."""
    st.subheader("Alerts", anchor=False)
    window = {name: scene.asked_until_now[name] for name in ("from_ts", "to_ts")}
    filters = {name: scene.asked.get(name) for name in FILTERS}
    frame = queries.ask_if_kept("alerts", open=True, **window, **filters)
    if frame is None:
        st.caption("An older Fallow wrote this store and keeps none; start the service once.")
        return
    if frame.empty:
        st.caption("Nobody had to be told of anything that is still so.")
        return
    grid(
        table(frame, scene),
        hide_index=True,
        placeholder=text.NOTHING,
        alt="The open alerts: what, since when, what happens next, and whom a word reached",
    )


def table(frame: pd.DataFrame, scene: PageContext) -> pd.DataFrame:
    """A row a case, in words."""
    each = list(rows(frame))
    return pd.DataFrame(
        {
            "What": [row.title for row in each],
            "Kind": [f"{row.kind}, {row.rung}" for row in each],
            "Since": [scene.when(row.since_ts) for row in each],
            "Next": [wording.localized(row.next, scene.zone) for row in each],
            "Told": [_people(row.told) for row in each],
            "On its way to": [_people(row.waiting) for row in each],
            "Did not reach": [_people(row.missed) for row in each],
            "Answer": [row.command or None for row in each],
        }
    )


def _people(receivers: object) -> str | None:
    if text.missing(receivers):
        return None
    return str(receivers).replace("user:", "").replace("project:", "the head of ")

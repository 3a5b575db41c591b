"""Below a head of figures: how much of the range they rest on, and what is in none of them."""

from datetime import UTC, datetime

import streamlit as st

from service.pages.data import queries
from service.pages.parts.context import PageContext
from service.pages.parts.widgets import plain
from service.summaries import accounted, measured_time
from service.summaries.frames import records


def show_rests_on(scene: PageContext, *, with_people: bool = True) -> None:
    """Draw it; nothing where the range was measured. Blocks while it asks. Raises ``ClientError``.

    Whose the hours are that are in no figure is left out where no person is to be named.
    """
    start, end = scene.window.from_ts, scene.window.to_ts
    frame = queries.ask_if_kept(measured_time.QUERY, **measured_time.params(start, end, scene.view.filters))
    rows = None if frame is None else records(frame)
    sentence = measured_time.rests_on(rows, start, end, datetime.now(UTC))
    for line in filter(None, (sentence, _omissions(scene) if with_people else None)):
        st.caption(plain(line))


def _omissions(scene: PageContext) -> str | None:
    if scene.asked.get("model"):  # accounting says nothing of models
        return None
    chosen = {name: scene.asked.get(name) for name in ("from_ts", "to_ts", "user", "project", "node")}
    frame = queries.ask_if_kept("accounted_use", **chosen, by="user")
    return None if frame is None else accounted.left_out(records(frame))

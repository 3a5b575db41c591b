"""Below a head of figures: how much of the range they rest on, where that is not all of it."""

from datetime import UTC, datetime

import streamlit as st

from service.pages.data import queries
from service.pages.parts.context import PageContext
from service.summaries import measured_time
from service.summaries.frames import records


def show_rests_on(scene: PageContext) -> None:
    """Draw it; nothing where the range was measured. Blocks while it asks. Raises ``ClientError``."""
    start, end = scene.window.from_ts, scene.window.to_ts
    frame = queries.ask_if_kept(measured_time.QUERY, **measured_time.params(start, end, scene.view.filters))
    rows = None if frame is None else records(frame)
    told = measured_time.rests_on(rows, start, end, datetime.now(UTC))
    if told is not None:
        st.caption(told)

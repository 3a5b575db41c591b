"""What the newest judgement left open: the GPU and the reason. Part of the findings page."""

import pandas as pd
import streamlit as st

from service.pages import feed, judged, wording
from service.pages.chart_frame import rows
from service.pages.scene import PageContext
from service.pages.tabled import grid

EVERY_KIND = 9
"""A GPU that is silent is judged by its silence alone; then every kind is listed."""
FILTERS = ("node", "project", "user", "model")


def unjudged(scene: PageContext) -> None:
    """The GPUs that were not judged just now, or not for every kind; a quiet line when there are none."""
    st.subheader("Not judged", anchor=False)
    found = feed.ask_if_kept("unjudged", **{name: scene.asked.get(name) for name in FILTERS})
    if found is None:
        st.caption("An older Fallow wrote this store and keeps no record of it; start the service once.")
        return
    if found.empty:
        st.caption("Every GPU could be judged." if judged.calm() != judged.NEVER else f"{judged.NEVER}.")
        return
    grid(table(found), hide_index=True, placeholder=wording.DASH, alt="GPUs that were not judged, and why")


def table(found: pd.DataFrame) -> pd.DataFrame:
    """A row a GPU and reason, in words."""
    each = list(rows(found))
    return pd.DataFrame(
        {
            "GPU": [wording.short_gpu(row.node, row.gpu_place, row.uuid) for row in each],
            "Answer": [row.verdict for row in each],
            "Why": [row.reason for row in each],
            "Not judged for": [_about(row.kinds) for row in each],
            "Person": [row.user_name for row in each],
        }
    )


def _about(kinds: str) -> str:
    if not kinds:
        return "anything yet"
    return "anything but its silence" if kinds.count(",") + 1 >= EVERY_KIND else kinds

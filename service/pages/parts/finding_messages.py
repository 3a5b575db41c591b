"""Findings of a frame as messages: one a job and kind, over all its GPUs, the dearest first."""

from collections.abc import Sequence
from typing import Any

import pandas as pd
import streamlit as st

from analytics import text
from service import wording
from service.charts.frame import rows
from service.pages.parts.context import PageContext
from service.pages.parts.widgets import kind_label, plain
from service.summaries.finding_groups import About, grouped, once_a_gpu, others


def messages(found: pd.DataFrame) -> list[list[Any]]:
    """The rows of the query ``findings``, those of one message together."""
    return sorted(grouped(rows(found), _about), key=lambda group: -(wasted_by(group) or 0.0))


def wasted_by(group: Sequence[Any]) -> float | None:
    """What a message's GPUs wasted in the range, each once; ``None``: not known."""
    return once_a_gpu((each.uuid, each.wasted_gpu_hours) for each in group)


def told(scene: PageContext, group: Sequence[Any]) -> str:
    """The first one's sentence, and on which other GPUs it is the same."""
    row, *more = group
    places = [
        wording.short_gpu(each.node, each.gpu_place, each.uuid) for each in more if each.uuid != row.uuid
    ]
    return plain(f"{wording.localized(row.sentence, scene.zone)} {others(places)}".rstrip())


def say(scene: PageContext, group: Sequence[Any]) -> None:
    """A message in a paragraph: its kind, what was wasted, the sentence."""
    wasted, row = wasted_by(group), group[0]
    hours = f" · {text.gpu_hours(wasted)}" if wasted else ""
    over = "" if text.missing(row.closed_at) else f" · over since {scene.when(row.closed_at)}"
    st.markdown(f"**{plain(kind_label(row.kind))}**{hours}{over}  \n{told(scene, group)}")


def _about(row: Any) -> About:
    return row.kind, None if text.missing(row.job) else str(row.job), text.missing(row.closed_at)

"""Findings of a frame as messages: one a job, over all its GPUs, the dearest first."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pandas as pd
import streamlit as st

from analytics import text
from service import wording
from service.charts.frame import rows
from service.pages.parts.context import PageContext
from service.pages.parts.widgets import kind_label, plain
from service.summaries.finding_groups import About, by_kind, grouped, once_a_job, others

if TYPE_CHECKING:
    from service.schemas.rows import FindingsTuple


def messages(findings: pd.DataFrame) -> "list[list[FindingsTuple]]":
    """The rows of the query ``findings``, those of one message together."""
    return sorted(grouped(rows(findings), _about), key=lambda group: -(wasted_by(group) or 0.0))


def wasted_by(group: "Sequence[FindingsTuple]") -> float | None:
    """What a message's GPUs wasted in the range, each once; ``None``: not known."""
    return summed(group, "wasted_gpu_hours")


def summed(group: "Sequence[FindingsTuple]", column: str) -> float | None:
    """A column over a message's GPUs, each once; ``None``: not known."""
    return once_a_job((str(each.kind), each.uuid, getattr(each, column, None)) for each in group)


def parts(group: "Sequence[FindingsTuple]") -> "list[list[FindingsTuple]]":
    """The rows of a message by kind."""
    return by_kind(group, lambda each: str(each.kind), is_open=text.missing(group[0].closed_at))


def told(scene: PageContext, group: "Sequence[FindingsTuple]") -> str:
    """For each kind the first one's sentence, and on which other GPUs it is the same."""
    return "  \n".join(_sentence(scene, part) for part in parts(group))


def _sentence(scene: PageContext, part: "Sequence[FindingsTuple]") -> str:
    row, *more = part
    places = [
        wording.short_gpu(each.node, each.gpu_place, each.uuid) for each in more if each.uuid != row.uuid
    ]
    return plain(f"{wording.localized(row.sentence, scene.zone)} {others(places)}".rstrip())


def say(scene: PageContext, group: "Sequence[FindingsTuple]") -> None:
    """A message in a paragraph: its kinds, what was wasted, the sentences."""
    wasted, row = wasted_by(group), group[0]
    hours = f" · {text.gpu_hours(wasted)}" if wasted else ""
    over = "" if text.missing(row.closed_at) else f" · over since {scene.when(row.closed_at)}"
    st.markdown(f"**{plain(labels(group))}**{hours}{over}  \n{told(scene, group)}")


def labels(group: "Sequence[FindingsTuple]") -> str:
    """The kinds of a message in words."""
    return " · ".join(kind_label(part[0].kind) for part in parts(group))


def _about(row: "FindingsTuple") -> About:
    return row.kind, None if text.missing(row.job) else str(row.job), text.missing(row.closed_at)

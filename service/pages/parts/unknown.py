"""What is unknown and why: sources that could not be read, and the gaps left. Part of *To do*.

What the newest judgement left open: the GPU and the reason.
"""

from collections.abc import Mapping

import pandas as pd
import streamlit as st

from analytics import text
from analytics.vocabulary.findings import FindingKind
from analytics.vocabulary.states import GpuState
from service import wording
from service.charts.frame import rows, utc
from service.charts.window import Window
from service.pages.data import queries
from service.pages.parts import freshness
from service.pages.parts.charted import grid
from service.pages.parts.context import PageContext
from service.pages.parts.widgets import facts

MOST_GAPS = 50


def unknowns(scene: PageContext) -> None:
    """How much time is unknown in this window, which source or GPU it was, and what the reason was."""
    st.subheader("What is unknown, and why", anchor=False)
    ledger = queries.ask("ledger_by_state", **scene.asked)
    total = float(ledger["gpu_hours"].sum())
    hours = float(ledger.loc[ledger["state"] == GpuState.UNKNOWN.value, "gpu_hours"].sum())
    facts(
        (
            (
                "unknown in this time",
                f"{text.gpu_hours(hours)}, {text.percent(hours / total if total else None)}",
            ),
        )
    )
    _sources(scene)
    gaps = queries.ask("gaps", **scene.window.span)
    if gaps.empty:
        st.caption(
            "No gap was recorded in this time. Time before a GPU's first sample is not counted against it."
        )
        return
    gpus = queries.ask("gpus_now")
    named = zip(gpus["node"], gpus["gpu_place"], gpus["uuid"], strict=True)
    shown = by_reason(gaps, scene.window, {each[2]: wording.short_gpu(*each) for each in named})
    table = pd.DataFrame(
        {
            "Why": shown["reason"],
            "Source": shown["source"],
            "Where": shown["where"],
            "Times": shown["times"],
            "Together": shown["seconds"].map(text.length_cell),
            "Last": shown["last"].map(scene.when),
        }
    )
    grid(table.head(MOST_GAPS), hide_index=True, placeholder=text.NOTHING, alt="Reasons for unknown time")


def by_reason(gaps: pd.DataFrame, window: Window, names: Mapping[str, str]) -> pd.DataFrame:
    """The gaps of one reason, source and place as one row, the longest time together first.

    ``names`` says what a GPU is called, by its UUID.
    """
    start, stop = utc(window.from_ts), utc(window.to_ts)
    since = gaps["from_ts"].where(gaps["from_ts"] > start, start)
    until = gaps["to_ts"].where(gaps["to_ts"] < stop, stop)
    places = [_where(row, names) for row in rows(gaps)]
    each = gaps.assign(seconds=(until - since).dt.total_seconds(), where=places)
    groups = each.groupby(["reason", "source", "where"], as_index=False, dropna=False)
    merged = groups.agg(times=("from_ts", "size"), seconds=("seconds", "sum"), last=("to_ts", "max"))
    return merged.sort_values("seconds", ascending=False, ignore_index=True)


def _sources(scene: PageContext) -> None:
    sources = queries.ask("sources")
    blind = sources[sources["reason"].notna()]
    for row in rows(blind):
        st.warning(
            f"**{row.source}** could not be read at {scene.when(row.last_ts)}: {row.reason}",
            icon=":material/visibility_off:",
        )


def _where(row: object, names: Mapping[str, str]) -> str:
    node, uuid = getattr(row, "node", None), getattr(row, "uuid", None)
    if uuid in names:
        return names[str(uuid)]
    named = [str(each) for each in (node, uuid) if not text.missing(each)]
    return " · ".join(named) or "everything it reads"


EVERY_KIND = len(FindingKind)
"""A GPU that is silent is judged by its silence alone; then every kind is listed."""
FILTERS = ("node", "project", "user", "model")


def unjudged(scene: PageContext) -> None:
    """The GPUs that were not judged just now, or not for every kind; a quiet line when there are none."""
    st.subheader("Not judged", anchor=False)
    frame = queries.ask_if_kept("unjudged", **{name: scene.asked.get(name) for name in FILTERS})
    if frame is None:
        st.caption("An older Fallow wrote this store and keeps no record of it; start the service once.")
        return
    if frame.empty:
        st.caption(
            "Every GPU could be judged." if freshness.calm() != freshness.NEVER else f"{freshness.NEVER}."
        )
        return
    grid(table(frame), hide_index=True, placeholder=text.NOTHING, alt="GPUs that were not judged, and why")


def table(gaps: pd.DataFrame) -> pd.DataFrame:
    """A row a GPU and reason, in words."""
    each = list(rows(gaps))
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

"""Findings: each in a sentence, with window, coverage, measure and evidence; and what is unknown."""

from dataclasses import replace
from typing import TYPE_CHECKING

import pandas as pd
import streamlit as st

from analytics.vocabulary.findings import KINDS
from service.pages.data import queries
from service.pages.parts import freshness
from service.pages.parts.context import PageContext, Site, current_view, drawn, go
from service.pages.parts.finding_cards import finding_box
from service.pages.parts.finding_messages import messages, parts
from service.pages.parts.open_alerts import alerts
from service.pages.parts.range_waste import beside, sentence, wasted
from service.pages.parts.unknown import unjudged, unknowns
from service.pages.parts.widgets import kind_label

if TYPE_CHECKING:
    pass


PER_PAGE = 12


def show(site: Site) -> None:
    """Draw the page."""
    drawn(site, _body)


def _body(scene: PageContext) -> None:
    open_only = scene.view.closed != "yes"
    found = queries.ask("findings", open=True if open_only else None, **scene.asked_until_now)
    _head(scene, found, open_only)
    with st.container(horizontal=True, vertical_alignment="center"):
        _kinds(scene, found)
        _closed(open_only)
    shown = found if scene.view.kind is None else found[found["kind"] == scene.view.kind]
    freshness.lateness(scene)
    if shown.empty and not found.empty:
        st.caption("None of this kind in this time.")
    groups = messages(shown)
    pages = -(-len(groups) // PER_PAGE)
    at = st.pagination(pages, key="findings-page") - 1 if pages > 1 else 0
    for group in groups[at * PER_PAGE : (at + 1) * PER_PAGE]:
        finding_box(scene, group)
    alerts(scene)
    unjudged(scene)
    unknowns(scene)


def _head(scene: PageContext, found: pd.DataFrame, open_only: bool) -> None:
    # To this moment, as the findings: what was opened since the newest whole minute is open too.
    waste = queries.ask_if_kept("waste", **scene.asked_until_now)
    if found.empty:
        st.header(f"{freshness.calm()}{wasted(waste, open_only=open_only)}", anchor=False)
    else:
        st.header(sentence(len(messages(found)), waste, open_only=open_only), anchor=False)
    if waste is not None and not waste.empty:
        st.caption(beside(waste))


def _kinds(scene: PageContext, found: pd.DataFrame) -> None:
    told = [part[0].kind for group in messages(found) for part in parts(group)]
    counts = pd.Series(told, dtype=object).value_counts()
    options = [kind.value for kind in KINDS if kind in counts.index or kind == scene.view.kind]
    options += [str(kind) for kind in counts.index if kind not in KINDS]
    if not options:
        return
    st.session_state["kind"] = scene.view.kind if scene.view.kind in options else None
    st.pills(
        "Kind of finding",
        options,
        key="kind",
        format_func=lambda kind: f"{kind_label(kind)} {counts.get(kind, 0)}",
        label_visibility="collapsed",
        on_change=lambda: go(replace(current_view(), kind=st.session_state["kind"])),
    )


def _closed(open_only: bool) -> None:
    st.session_state["closed"] = not open_only
    st.toggle(
        "Also what is over",
        key="closed",
        on_change=lambda: go(replace(current_view(), closed="yes" if st.session_state["closed"] else None)),
    )

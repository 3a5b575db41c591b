"""Findings: each in a sentence, with window, coverage, measure and evidence; and what is unknown."""

from dataclasses import replace
from typing import Any

import pandas as pd
import streamlit as st

from service.pages import feed, judged, wording
from service.pages.alerts import alerts
from service.pages.chart_frame import rows
from service.pages.evidence import told
from service.pages.measures import RUNGS
from service.pages.pieces import KINDS, facts, kind_label, plain, tag_of_kind
from service.pages.scene import Scene, Site, current_view, drawn, go
from service.pages.unjudged import unjudged
from service.pages.unknowns import unknowns
from service.pages.view import address, shared

PER_PAGE = 12


def show(site: Site) -> None:
    """Draw the page."""
    drawn(site, _body)


def _body(scene: Scene) -> None:
    open_only = scene.view.closed != "yes"
    found = feed.ask("findings", open=True if open_only else None, **scene.asked_until_now)
    _head(found, open_only)
    with st.container(horizontal=True, vertical_alignment="center"):
        _kinds(scene, found)
        _closed(open_only)
    shown = found if scene.view.kind is None else found[found["kind"] == scene.view.kind]
    judged.lateness(scene)
    if shown.empty and not found.empty:
        st.caption("None of this kind in this time.")
    pages = -(-len(shown) // PER_PAGE)
    at = st.pagination(pages, key="findings-page") - 1 if pages > 1 else 0
    for row in rows(shown.iloc[at * PER_PAGE : (at + 1) * PER_PAGE]):
        _finding(scene, row)
    alerts(scene)
    unjudged(scene)
    unknowns(scene)


def _head(found: pd.DataFrame, open_only: bool) -> None:
    if found.empty:
        st.header(judged.calm(), anchor=False)
        return
    st.header(sentence(found, open_only=open_only), anchor=False)


def sentence(found: pd.DataFrame, *, open_only: bool) -> str:
    """How many findings there are, and the hours and money they speak of."""
    hours = found["wasted_gpu_hours"].sum()
    costs = found["wasted_cost"].dropna()
    worth = f", {wording.money(costs.sum(), found['currency'].dropna().iloc[0])}" if len(costs) else ""
    many = wording.many(len(found), "open finding" if open_only else "finding")
    speak = "speaks" if len(found) == 1 else "speak"
    told_of = f" {speak} of {wording.hours(hours)}{worth}" if hours else ""
    return f"{many}{'' if open_only else ', open and closed,'}{told_of}".rstrip(",")


def _kinds(scene: Scene, found: pd.DataFrame) -> None:
    counts = found["kind"].value_counts()
    options = [kind for kind in KINDS if kind in counts.index or kind == scene.view.kind]
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


def _finding(scene: Scene, row: Any) -> None:
    carried = address(shared(scene.view))
    with st.container(border=True, key=f"finding-{row.finding_id}", gap="xsmall"):
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            st.html(tag_of_kind(row.kind, kind_label(row.kind), scene.colours), width="content")
            st.page_link(
                scene.site["gpu"],
                label=wording.short_gpu(row.node, row.gpu_index, row.uuid),
                icon=":material/memory:",
                query_params=carried | {"gpu": row.uuid},
            )
            if not wording.missing(row.job):
                st.page_link(
                    scene.site["jobs"],
                    label=plain(row.job if wording.missing(row.job_name) else row.job_name),
                    icon=":material/deployed_code:",
                    query_params=carried | {"job": row.job},
                )
            st.space("stretch")
            with st.popover("Evidence", type="tertiary", icon=":material/query_stats:"):
                for what, much in told(row.evidence):
                    st.markdown(f"{plain(what)}: **{plain(much)}**")
        st.markdown(plain(wording.localized(row.sentence, scene.zone)))
        facts(_facts(scene, row))


def _facts(scene: Scene, row: Any) -> list[tuple[str, str]]:
    who = " · ".join(str(each) for each in (row.user_name, row.project) if not wording.missing(each))
    items = [("held by", who or "nobody"), ("wasted", wording.hours(row.wasted_gpu_hours))]
    if not wording.missing(row.wasted_cost):
        items.append(("cost", wording.money(row.wasted_cost, row.currency)))
    items += [
        ("found", scene.when(row.opened_at)),
        ("judged on", f"{scene.when(row.window_from)} to {scene.when(row.window_to)}"),
        ("covered", wording.percent(row.coverage)),
        ("measure", RUNGS.get(int(row.rung), "no measure")),
    ]
    if not wording.missing(row.closed_at):
        items.append(("over since", scene.when(row.closed_at)))
    return items

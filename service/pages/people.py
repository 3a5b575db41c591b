"""People and projects: who wastes most, who uses best, the figures behind both, and what one could change."""

from dataclasses import replace
from typing import Any

import pandas as pd
import streamlit as st

from service.pages import feed, wording
from service.pages.chart_ranks import PARTS, best_used, most_wasted, part_colours, use_bars, waste_bars
from service.pages.naming import named
from service.pages.patterns import in_short, kinds_by, patterns_by
from service.pages.person import about_whom, held, to_change
from service.pages.pieces import definitions, keys, plain, swatch
from service.pages.scene import PageContext, Site, current_view, drawn, go, nothing_matches
from service.pages.tabled import charted, grid

TOP = 12
KINDS = {"people": "People", "projects": "Projects"}
COLUMNS = {
    "name": "Name",
    "project": "Project",
    "people": "People",
    "jobs": "Jobs",
    "gpu_hours": "Held",
    "used_gpu_hours": "Used",
    "wasted_gpu_hours": "Wasted",
    "wasted_share": "Wasted share",
    "utilization": "Utilization",
    "cost": "Cost",
    "wasted_cost": "Cost of waste",
    "energy_kwh": "kWh",
    "wasted_energy_kwh": "kWh wasted",
    "pattern": "How they work",
}
ENERGY = ("energy_kwh", "wasted_energy_kwh")


def show(site: Site) -> None:
    """Draw the page."""
    drawn(site, _body)


def _body(scene: PageContext) -> None:
    by = scene.view.by if scene.view.by in KINDS else "people"
    head, who = st.container(), about_whom(scene)
    jobs = [] if who is None else held(scene, who)
    advice = st.container()
    _ranked(scene, head, by)
    if who is not None and jobs:
        with advice:
            to_change(scene, who, jobs)


def _ranked(scene: PageContext, head: Any, by: str) -> None:
    """Everybody in order, under a sentence at the ``head``."""
    frame = named(feed.ask(by, **scene.asked), by)
    if frame.empty:
        nothing_matches(scene)
        return
    with head:
        st.header(_sentence(frame, by), anchor=False)
    _choice(by)
    left, right = st.columns(2, gap="large")
    with left:
        st.subheader("Most wasted GPU-hours", anchor=False)
        _legend(scene)
        wasted = most_wasted(frame, top=TOP)
        if wasted.empty:
            st.caption("Nobody wasted anything in this time.")
        else:
            told = f"{KINDS[by]} by wasted GPU-hours, the most first"
            charted(waste_bars(wasted, scene.colours), told, wasted, f"most-wasted-{by}", numbers=told)
    with right:
        st.subheader("Best use", anchor=False)
        _legend(scene)
        told, best = f"{KINDS[by]} by utilization, the best first", best_used(frame, top=TOP)
        charted(use_bars(best, scene.colours), told, best, f"best-use-{by}", numbers=told)
    _table(scene, frame, by)


def _sentence(frame: pd.DataFrame, by: str) -> str:
    wasted, held = frame["wasted_gpu_hours"].sum(), frame["gpu_hours"].sum()
    who = told_who(frame, by)
    if not held or not wasted:
        return f"{plain(who)} held {wording.hours(held)} and wasted nothing outright"
    top = frame.nlargest(3, "wasted_gpu_hours")["wasted_gpu_hours"].sum()
    share = wording.percent(wasted / held)
    more = f"; three of them {wording.percent(top / wasted)} of that" if len(frame) > 3 else ""
    return f"{plain(who)} held {wording.hours(held)} and wasted {share} of them{more}"


def told_who(frame: pd.DataFrame, by: str) -> str:
    """How many they are; who is not known is nobody to be counted."""
    if len(frame) == 1:
        return str(frame["name"].iloc[0])
    column, one = ("user_name", "person") if by == "people" else ("project", "project")
    many = frame[column].nunique()
    told = wording.many(many, one, by)
    return f"{told} and some unknown" if frame[column].isna().any() else told


def _choice(by: str) -> None:
    st.session_state["by"] = by
    st.segmented_control(
        "Ranked by",
        list(KINDS),
        key="by",
        format_func=lambda name: KINDS[name],
        label_visibility="collapsed",
        required=True,
        on_change=lambda: go(replace(current_view(), by=st.session_state["by"])),
    )


def _legend(scene: PageContext) -> None:
    keys([(swatch(c), part, None) for part, c in zip(PARTS, part_colours(scene.colours), strict=True)])


def _table(scene: PageContext, frame: pd.DataFrame, by: str) -> None:
    st.subheader("All figures", anchor=False)
    priced = frame["cost"].notna().any()
    metered = "energy_kwh" in frame and frame["energy_kwh"].gt(0).any()
    kept = [
        column
        for column in COLUMNS
        if (column in frame or column in ("wasted_share", "utilization", "pattern"))
        and (priced or column not in ("cost", "wasted_cost"))
        and (metered or column not in ENERGY)
        and not (by == "projects" and column == "project")
    ]
    patterns = feed.ask_if_kept("patterns", **_filters(scene))
    shown = frame.assign(
        name=frame["user_name"] if by == "people" else frame["name"],
        wasted_share=frame["wasted_gpu_hours"] / frame["gpu_hours"].where(frame["gpu_hours"] > 0) * 100,
        utilization=frame["utilization_ratio"] * 100,
        pattern=[in_short(kinds) or wording.DASH for kinds in kinds_by(patterns, frame)],
    )
    picked = grid(
        shown[kept],
        hide_index=True,
        column_config=_columns(frame),
        placeholder=wording.DASH,
        on_select="rerun",
        selection_mode="single-row",
        key=f"table-{by}",
        alt=f"{KINDS[by]}: GPU-hours held, used and wasted",
    )
    st.caption(
        "Hours are GPU-hours; how they work is of the last 24 hours. "
        "Choose a row to see only what they held, on every page."
        + (wording.energy_measured(frame.to_dict("records")) if metered else "")
    )
    _habits(frame, patterns)
    chosen = picked["selection"]["rows"]
    if chosen:
        _only(scene, frame.iloc[chosen[0]], by)


def _habits(frame: pd.DataFrame, patterns: pd.DataFrame | None) -> None:
    """How each of those at the top of the table works, in full."""
    told = [
        (str(n), words) for n, words in zip(frame["name"], patterns_by(patterns, frame), strict=True) if words
    ]
    if not told:
        return
    st.subheader("How they work", anchor=False)
    definitions(told[:TOP])
    if len(told) > TOP:
        st.caption(f"And {len(told) - TOP} more: choose one in the table, or a filter above.")


def _filters(scene: PageContext) -> dict[str, Any]:
    return {name: scene.asked.get(name) for name in ("node", "project", "user", "model")}


def _only(scene: PageContext, row: Any, by: str) -> None:
    column, name = ("user_name", "user") if by == "people" else ("project", "project")
    if not wording.missing(row[column]) and getattr(scene.view, name) != row[column]:
        go(scene.view.only(name, str(row[column])))
        st.rerun()


def _columns(frame: pd.DataFrame) -> dict[str, Any]:
    currency = next((str(c) for c in frame["currency"] if not wording.missing(c)), "")
    hours = {
        name: st.column_config.NumberColumn(COLUMNS[name], format="%.1f")
        for name in COLUMNS
        if "gpu_hours" in name
    }
    bars = {
        name: st.column_config.ProgressColumn(COLUMNS[name], format="%.0f %%", min_value=0, max_value=100)
        for name in ("wasted_share", "utilization")
    }
    money = {
        name: st.column_config.NumberColumn(f"{COLUMNS[name]} ({currency})", format="%.0f")
        for name in ("cost", "wasted_cost")
    }
    energy = {name: st.column_config.NumberColumn(COLUMNS[name], format="%.1f") for name in ENERGY}
    return {**COLUMNS, **hours, **bars, **money, **energy}

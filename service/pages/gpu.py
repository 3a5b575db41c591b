"""One GPU: everything measured on one time axis, who held it, what runs on it, what happened to it."""

from typing import TYPE_CHECKING

import pandas as pd
import streamlit as st

from analytics import text
from service import energy, wording
from service.charts.timelines import (
    RUNGS,
    Strip,
    holder_strip,
    lanes_chart,
    lanes_of,
    measured_lanes,
    state_strip,
    unmeasured,
)
from service.pages.data import queries
from service.pages.parts.charted import charted, grid
from service.pages.parts.context import PageContext, Site, drawn
from service.pages.parts.context import show as show_notice
from service.pages.parts.messages import NO_SUCH_GPU
from service.pages.parts.url_state import address, shared
from service.pages.parts.widgets import facts, plain, state_keys, state_tag
from service.summaries.frames import records

if TYPE_CHECKING:
    from service.schemas.rows import GpusNowRecord


def show(site: Site) -> None:
    """Draw the page."""
    drawn(site, _body)


def _body(scene: PageContext) -> None:
    st.page_link(
        scene.site["cluster"],
        label="All GPUs",
        icon=":material/arrow_back:",
        query_params=address(shared(scene.view)),
    )
    gpus = queries.ask("gpus_now")
    row_of_gpu = gpus[gpus["uuid"] == scene.view.gpu]
    if row_of_gpu.empty:
        show_notice(NO_SUCH_GPU)
        return
    row: GpusNowRecord = records(row_of_gpu)[0]
    _head(scene, row)
    ledger = queries.ask("ledger_by_gpu", node=row["node"], **scene.window.span)
    own = records(ledger[ledger["key"] == row["uuid"]])
    used, wasted = energy.used(own), energy.wasted(own)
    if own and used.kwh is not None:
        sentence = f"{energy.written(used)} in this time"
        idle = f", {energy.written(wasted)} of it while it was held and did nothing" if wasted.kwh else ""
        st.caption(f"Energy: {sentence}{idle}.")
    _timeline(scene, row)
    left, right = st.columns([1, 1], gap="large")
    with left:
        _use_by_holder(scene, row)
        _processes(scene, row)
    with right:
        _events(scene, row)
    _strangers(scene, row)
    _holders(scene, row)


def _head(scene: PageContext, row: "GpusNowRecord") -> None:
    name = wording.short_gpu(row["node"], row["gpu_place"], row["uuid"])
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.header(plain(name), anchor=False, width="content")
        rhythm = row.get("rhythm")
        like, label = (each(row["state"], rhythm) for each in (wording.state_coloured, wording.state_label))
        st.html(state_tag(like, label or "", scene.colours), width="content")
    memory = f"{text.size(row['memory_used_bytes'])} of {text.size(row['memory_total_bytes'])}"
    who = [str(row[name]) for name in ("user_name", "job_name") if not text.missing(row[name])]
    holder = " · ".join(who) or ("nobody" if text.missing(row["job"]) else "somebody")
    facts(
        (
            ("model", str(row["model"])),
            ("held by", holder),
            (
                "utilization",
                f"{text.percent(row['utilization_ratio'])} ({RUNGS.get(row['rung'] or 0, 'no measure')})",
            ),
            ("memory", memory),
            *([("activity", copying)] if (copying := wording.copies(row.get("copies_ratio"))) else []),
            ("power", text.watts(row["power_w"])),
            *(
                []
                if text.missing(row["state_reason"]) or not row["state_reason"]
                else [("not given out", str(row["state_reason"]))]
            ),
            ("since", scene.since(row)),
            ("newest sample", scene.when(row["as_of"])),
            ("UUID", str(row["uuid"])),
        )
    )


def _timeline(scene: PageContext, row: "GpusNowRecord") -> None:
    parameters = {"uuid": row["uuid"], **scene.window.steps}
    timeline = queries.ask("gpu_timeline", **parameters)
    holders = queries.ask("gpu_holders", uuid=row["uuid"], **scene.window.span)
    total = row["memory_total_bytes"]
    lanes = measured_lanes(lanes_of(text.known(total)), timeline)
    state_keys(scene.colours)
    strips: list[Strip] = [
        state_strip(timeline, scene.window, scene.colours),
        holder_strip(holders, scene.window, scene.colours),
    ]
    charted(
        lanes_chart(timeline, lanes, scene.axis, scene.colours, strips=strips),
        "State, holder and every measure of this GPU on one time axis",
        timeline,
        "gpu-measures",
        numbers="Every measure of this GPU, step by step",
    )
    missing = unmeasured(lanes_of(), timeline)
    if missing:
        st.caption(f"Not measured on this GPU in this time: {', '.join(missing).lower()}.")


def _use_by_holder(scene: PageContext, row: "GpusNowRecord") -> None:
    """What each of those who share it did lately; silent where nobody tells."""
    use = queries.ask_if_kept("use_by_holder", uuid=row["uuid"])
    if use is None or use.empty:
        return
    st.subheader("Each holder's own use", anchor=False)
    shown = pd.DataFrame(
        {
            "Job": use["job"],
            "Person": use["user_name"],
            "Project": use["project"],
            "GPU time": use["gpu_utilization_ratio"].map(text.percent),
            "Memory": use["memory_used_bytes"].map(text.size),
        }
    )
    grid(shown.dropna(axis="columns", how="all"), hide_index=True, placeholder=text.NOTHING)
    st.caption(f"As the exporter told it of each pod at {scene.when(use['ts'].iloc[0])}.")


def _processes(scene: PageContext, row: "GpusNowRecord") -> None:
    processes = queries.ask("processes_now", uuid=row["uuid"])
    if wording.is_silent(row) and not processes.empty:
        st.subheader("Processes when it was last seen", anchor=False)
        st.caption(f"As of {scene.when(processes['seen_at'].iloc[0])}; which run now is not known.")
    else:
        st.subheader("Processes now", anchor=False)
    if processes.empty:
        st.caption("None was seen when processes were last looked at.")
        return
    shown = processes.assign(
        frameworks=[", ".join(each) if each is not None else "" for each in processes["frameworks"]],
        memory=processes["memory_used_bytes"].map(text.size),
        sm=processes["sm_ratio"].map(text.percent),
        since=processes["started_at"].map(scene.when),
        unreadable=[", ".join(each) if each is not None else "" for each in processes["unreadable"]],
    )
    names = {
        "pid": "pid",
        "user_name": "User",
        "process_name": "Name",
        "frameworks": "Framework",
        "memory": "Memory",
        "sm": "GPU time",
        "since": "Started",
        "command": "Command",
        "unreadable": "Not readable",
    }
    for sentence in wording.doubts(processes["flags"].iloc[0]):
        st.caption(sentence)
    columns_shown = shown[list(names)].rename(columns=names)
    grid(
        columns_shown.loc[
            :, [c for c in columns_shown if columns_shown[c].astype(str).str.len().gt(0).any()]
        ],
        hide_index=True,
        column_config={"pid": st.column_config.NumberColumn(format="%d")},
    )


def _events(scene: PageContext, row: "GpusNowRecord") -> None:
    st.subheader("Events", anchor=False)
    events = queries.ask("events", node=row["node"], **scene.window.span)
    mine = events[events["uuid"] == row["uuid"]]
    if mine.empty:
        st.caption("None in this time: no XID, no fall off the bus, no counter reset.")
        return
    shown = pd.DataFrame({"When": mine["ts"].map(scene.when), "What": mine["kind"], "Detail": mine["detail"]})
    grid(shown, hide_index=True)


def _strangers(scene: PageContext, row: "GpusNowRecord") -> None:
    """Who was on it though others were given it, and whose claim could not be read; silent when nobody."""
    parameters = {"uuid": row["uuid"], **scene.window.span}
    intrusions, unclear = (
        queries.ask_if_kept("intrusions", **parameters),
        queries.ask_if_kept("unclear_claims", **parameters),
    )
    if intrusions is not None and not intrusions.empty:
        st.subheader("On it, though it was given to others", anchor=False)
        grid(intruders_table(intrusions, scene), hide_index=True, placeholder=text.NOTHING)
    if unclear is not None and not unclear.empty:
        st.subheader("Claims that could not be read", anchor=False)
        shown = pd.DataFrame(
            {
                "Person": unclear["user_name"],
                "pid": unclear["pid"].astype(str),
                "Name": unclear["process_name"],
                "Why": unclear["reason"],
                "From": unclear["from_ts"].map(scene.when),
                "To": ["still" if text.missing(at) else scene.when(at) for at in unclear["to_ts"]],
            }
        )
        grid(shown, hide_index=True, placeholder=text.NOTHING)


def intruders_table(frame: pd.DataFrame, scene: PageContext) -> pd.DataFrame:
    """``intrusions`` as they stand on the screen."""
    return pd.DataFrame(
        {
            "Person": frame["user_name"],
            "pid": frame["pid"].astype(str),
            "Name": frame["process_name"],
            "Given to": frame["given_to"],
            "From": frame["from_ts"].map(scene.when),
            "To": ["still" if text.missing(at) else scene.when(at) for at in frame["to_ts"]],
            "Memory": frame["memory_used_bytes"].map(text.size),
            "GPU time": frame["sm_ratio"].map(text.percent),
            "Command": frame["command"],
        }
    )


def _holders(scene: PageContext, row: "GpusNowRecord") -> None:
    st.subheader("Holders in this time", anchor=False)
    holders = queries.ask("gpu_holders", uuid=row["uuid"], **scene.window.span)
    if holders.empty:
        st.caption("Nobody held it.")
        return
    shown = pd.DataFrame(
        {
            "From": [scene.began(row) for row in records(holders)],
            "To": ["still" if text.missing(at) else scene.when(at) for at in holders["to_ts"]],
            "Person": holders["user_name"],
            "Project": holders["project"],
            "Job": holders["job_name"],
            "Id": holders["job"],
            "Share": holders["share"].map(text.percent),
            "Said by": holders["source"],
        }
    )
    grid(shown.iloc[::-1], hide_index=True, placeholder=text.NOTHING)

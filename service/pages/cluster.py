"""Cluster: how busy each GPU was over time and who held it; a click leads to a GPU, or into a node."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pandas as pd
import streamlit as st

from analytics import text
from analytics.vocabulary.states import GpuState, label_of
from service import wording
from service.charts.frame import TimeAxis, rows
from service.charts.heatmap import MOST_GPUS, PICK, heat_map, most_steps, nodes_as_rows
from service.charts.window import step_for
from service.pages.data import queries
from service.pages.parts.charted import charted, grid
from service.pages.parts.context import PageContext, Site, drawn, go, nothing_matches, open_gpu
from service.pages.parts.widgets import facts, heat_keys, kind_label
from service.summaries.frames import records

if TYPE_CHECKING:
    from streamlit.elements.lib.column_types import ColumnConfig
    from streamlit.elements.vega_charts import VegaLiteState

    from service.schemas.rows import ClusterNowRecord


COLUMNS = {
    "gpu": "GPU",
    "model": "Model",
    "state": "State",
    "since": "Since",
    "user_name": "Held by",
    "project": "Project",
    "job_name": "Job",
    "utilization": "Utilization",
    "memory": "Memory",
    "found": "Found",
    "power_w": "Power",
    "temperature_c": "Temp.",
    "process_count": "Processes",
}


def show(site: Site) -> None:
    """Draw the page."""
    drawn(site, _body)


def _body(scene: PageContext) -> None:
    gpus_now = queries.begin("gpus_now", **scene.view.filters)
    cluster_now = queries.begin("cluster_now", **scene.view.filters)
    findings = queries.begin("findings", open=True, **scene.asked_until_now)
    gpus = gpus_now()
    cells, axis, many = _cells(scene, gpus)
    if cells.empty:
        nothing_matches(scene)
        return
    _now(scene, cluster_now())
    st.subheader("Nodes over time" if many else "GPUs over time", anchor=False)
    some = "state" in cells and bool(cells["state"].eq(GpuState.WITHHELD.value).any())
    heat_keys(scene.colours, withheld=some)
    picked = charted(
        heat_map(cells, axis, scene.colours),
        "A row a GPU, a column a step: work by utilization, waste amber, free grey, striped not measured",
        cells,
        "heat-map",
        numbers="Utilization and holding of each GPU, step by step",
        key=f"heat-{'nodes' if many else 'gpus'}",
        on_select="rerun",
        selection_mode=PICK,
    )
    _follow(scene, picked, many=many)
    if many:
        st.caption("Click a node to see its GPUs.")
    else:
        st.caption("Click a row for everything measured on that GPU, or choose one in the table.")
    _table(scene, gpus, findings())


def _cells(scene: PageContext, gpus: pd.DataFrame) -> tuple[pd.DataFrame, TimeAxis, bool]:
    """The map's cells in steps as long as so many GPUs need, its axis, and whether rows are nodes."""
    points = most_steps(len(gpus), gpus["node"].nunique())
    step_s = step_for(scene.window.seconds, points=points)
    shown = replace(scene.window, step_s=step_s)
    axis, many = replace(scene.axis, window=shown), len(gpus) > MOST_GPUS
    if many:
        nodes = queries.ask("heatmap_by_node", **shown.steps, **scene.view.filters)
        return nodes_as_rows(nodes), axis, many
    return queries.ask("heatmap", **shown.steps, **scene.view.filters), axis, many


def _now(scene: PageContext, now: pd.DataFrame) -> None:
    if now.empty or text.missing(now.iloc[0]["gpus"]):
        return
    row: ClusterNowRecord = records(now)[0]
    st.header(wording.held_now(row, datetime.now(UTC)), anchor=False)
    memory = f"{text.size(row['memory_used_bytes'])} of {text.size(row['memory_total_bytes'])}"
    facts(
        (
            ("at", f"{scene.when(row['as_of'])}"),
            ("utilization", text.percent(row["utilization_ratio"])),
            (label_of(GpuState.FREE), text.gpus(row["free_gpus"])),
            *_withheld(row),
            ("not measured", text.gpus(row["unknown_gpus"])),
            ("memory", memory),
            ("power", text.watts(row["power_w"])),
        )
    )


def _withheld(row: "ClusterNowRecord") -> list[tuple[str, str]]:
    """How many GPUs nobody may have, and why."""
    if not row.get("withheld_gpus"):
        return []
    why = row.get("withheld_because")
    count = text.gpus(row["withheld_gpus"])
    return [(label_of(GpuState.WITHHELD), count if text.missing(why) else f"{count}: {why}")]


def _follow(scene: PageContext, picked: "VegaLiteState", *, many: bool) -> None:
    chosen = picked["selection"].get(PICK) or []
    name = next((str(each["uuid"]) for each in chosen if "uuid" in each), None)
    if name is None:
        return
    if many:
        go(replace(scene.view, node=name))
        st.rerun()
    open_gpu(scene, name)


def _table(scene: PageContext, gpus: pd.DataFrame, findings: pd.DataFrame) -> None:
    if gpus.empty:
        return
    st.subheader("Each GPU now", anchor=False)
    picked = grid(
        gpu_table(gpus, scene, _kinds_by_gpu(findings)),
        hide_index=True,
        width="stretch",
        height=min(38 + 35 * len(gpus), 760),
        column_config=_columns(),
        placeholder=text.NOTHING,
        on_select="rerun",
        selection_mode="single-row",
        key="gpu-table",
        alt="The GPUs now: state, holder, utilization, memory, power",
    )
    chosen = picked["selection"]["rows"]
    if chosen:
        open_gpu(scene, str(gpus.iloc[chosen[0]]["uuid"]))


def gpu_table(gpus: pd.DataFrame, scene: PageContext, sentences: Mapping[str, str]) -> pd.DataFrame:
    """``gpus_now`` as it stands on the screen, with what was ``sentences`` by UUID; ratios as percent."""
    named = zip(gpus["node"], gpus["gpu_place"], gpus["uuid"], strict=True)
    shown = gpus.assign(
        gpu=[wording.short_gpu(*each) for each in named],
        state=[wording.state_label(row["state"], row.get("rhythm")) for row in records(gpus)],
        since=[scene.since(each) for each in records(gpus)],
        utilization=gpus[["utilization_ratio", "engines_ratio"]].astype(float).max(axis=1) * 100,
        memory=gpus["memory_used_bytes"] / gpus["memory_total_bytes"] * 100,
        found=gpus["uuid"].map(sentences).fillna(gpus["state_reason"].replace("", None)),
    )
    return shown.assign(model=shown["model"].str.removeprefix("NVIDIA "))[list(COLUMNS)]


def _kinds_by_gpu(findings: pd.DataFrame) -> dict[str, str]:
    """The kinds of open findings by GPU, in words."""
    kinds: dict[str, list[str]] = {}
    for row in rows(findings):
        kinds.setdefault(row.uuid, []).append(kind_label(row.kind))
    return {uuid: ", ".join(dict.fromkeys(each)) for uuid, each in kinds.items()}


def _columns() -> "dict[str, ColumnConfig | str]":
    columns: dict[str, ColumnConfig | str] = {**COLUMNS}
    for column in ("utilization", "memory"):
        columns[column] = st.column_config.ProgressColumn(
            COLUMNS[column], format="%.0f %%", min_value=0, max_value=100, width="small"
        )
    columns["user_name"] = st.column_config.TextColumn("Held by", width="small")
    columns["project"] = st.column_config.TextColumn("Project", width="small")
    columns["job_name"] = st.column_config.TextColumn("Job", width="small")
    columns["found"] = st.column_config.TextColumn("Found", width="medium")
    columns["power_w"] = st.column_config.NumberColumn("Power", format="%.0f W")
    columns["temperature_c"] = st.column_config.NumberColumn("Temp.", format="%d °C")
    return columns

"""The heat map of GPUs over time: colour is the state, its depth utilization; stripes are not measured. Pure.

Frames have the columns of the named query ``heatmap``. A GPU and step without a row was not measured; it
is striped, and never drawn as 0.
"""

from typing import Protocol

import altair as alt
import pandas as pd

from analytics import text
from analytics.vocabulary.states import GpuState, label_of
from collector.gpu_place import short_uuid
from service import wording
from service.charts.frame import (
    LEFT,
    Layered,
    TimeAxis,
    percent_of,
    rows,
    steps_of,
    styled,
    unchecked,
    with_end,
)
from service.charts.theme import NOT_AT_WORK, Theme
from service.charts.window import MOST_POINTS

MOST_GPUS = 72
MOST_CELLS = 11_000
NODE_GAP = 0.55
HELD = 0.5
PICK = "pick"
UNMEASURED = f"!isValid(datum.utilization_ratio) || datum.state === '{GpuState.UNKNOWN}'"
"""A step of which most is unknown is drawn so, whatever the rest of it was."""


def most_steps(gpus: float, nodes: float) -> int:
    """How many steps a map of so many GPUs, or of their nodes, may have and still be drawn at once."""
    lines = nodes if gpus > MOST_GPUS else gpus
    return max(40, min(MOST_POINTS, int(MOST_CELLS / max(lines, 1.0))))


def every_cell(cells: pd.DataFrame, axis: TimeAxis) -> pd.DataFrame:
    """The cells with a row for each GPU and step of the window; those that were missing are unknown."""
    gpus = cells[["uuid", "node", "gpu_index", "gpu_place"]].drop_duplicates("uuid")
    grid = gpus.merge(steps_of(axis.window), how="cross")
    extra = ["is_upper_bound"] if "is_upper_bound" in cells else []
    measured = cells[["uuid", "ts", "utilization_ratio", *extra, "held_ratio", "state"]]
    return grid.merge(measured.astype({"ts": grid["ts"].dtype}), on=["uuid", "ts"], how="left")


def nodes_as_rows(cells: pd.DataFrame) -> pd.DataFrame:
    """Frames of ``heatmap_by_node`` as those of ``heatmap``, a node standing where a GPU stood."""
    return cells.assign(uuid=cells["node"], gpu_index=float("nan"), gpu_place=None)


def placed(cells: pd.DataFrame) -> pd.DataFrame:
    """A row a GPU with its place from the top, ``y`` to ``y2``, its label and name; nodes a little apart."""
    gpus = cells[["uuid", "node", "gpu_index", "gpu_place"]].drop_duplicates("uuid")
    gpus = gpus.sort_values(["node", "gpu_index", "uuid"], ignore_index=True)
    names = [wording.short_gpu(row.node, row.gpu_place, row.uuid) for row in rows(gpus)]
    several = bool(gpus["gpu_index"].notna().any())
    node_at = (gpus["node"] != gpus["node"].shift()).cumsum() - 1
    first = gpus["node"] != gpus["node"].shift()
    y = gpus.index + node_at * (NODE_GAP if several else 0.0)
    labels = [
        _row_label(row, bool(head), several=several) for row, head in zip(rows(gpus), first, strict=True)
    ]
    return gpus.assign(y=y, y2=y + 1.0, label=labels, gpu_text=names)


def not_measured(cells: pd.DataFrame) -> "pd.Series[bool]":
    """Which cells ``UNMEASURED`` is true of."""
    return cells["utilization_ratio"].isna() | cells["state"].eq(GpuState.UNKNOWN.value)


def held_stretches(cells: pd.DataFrame) -> pd.DataFrame:
    """Each unbroken stretch of cells that were held for at least half their time, ``ts`` to ``end``."""
    ordered = cells.sort_values(["uuid", "ts"], ignore_index=True)
    allocated = ordered["held_ratio"].fillna(0.0) >= HELD
    same = (ordered["uuid"] == ordered["uuid"].shift()) & (allocated == allocated.shift())
    runs = ordered.assign(run=(~same).cumsum())[allocated]
    return runs.groupby(["run", "uuid"], as_index=False).agg(ts=("ts", "min"), end=("end", "max"))


def upper_bounds(cells: pd.DataFrame) -> "pd.Series[bool]":
    """Which cells were used by GPU utilization alone; those of ``job_timeline`` tell their rung."""
    if "is_upper_bound" in cells:
        return cells["is_upper_bound"].eq(True)
    used = cells["utilization_ratio"].gt(0)
    return used & cells["rung"].eq(1) if "rung" in cells else used & False


@unchecked
def heat_map(cells: pd.DataFrame, axis: TimeAxis, colours: Theme, *, whole: bool = True) -> Layered:
    """The map; a click on a cell selects its ``uuid`` (the node's name where nodes are the rows).

    ``whole``: a cell without a row is not measured; else it is left out, as when a job did not hold it.
    """
    lines = placed(cells)
    full = with_end(every_cell(cells, axis) if whole else cells, axis.window)
    frame = _sent(full, lines)
    stretches = held_stretches(full).merge(lines[["uuid", "y", "y2"]], on="uuid")
    scale = alt.Scale(domain=[float(lines["y2"].max()), 0.0], nice=False)
    pick = alt.selection_point(name=PICK, on="click", fields=["uuid"], toggle=False, empty=True)
    y = alt.Y("y:Q", scale=scale, axis=_row_axis(lines))
    cell = (
        alt.Chart(frame)
        .transform_calculate(when=axis.when(), **_TEXTS)
        .mark_rect(cursor="pointer")
        .encode(
            x=axis.x(),
            x2="end:T",
            y=y,
            y2="y2:Q",
            tooltip=[alt.Tooltip(f"{name}:N", title=title) for name, title in _tooltips(frame)],
        )
    )
    hatches = [
        _hatch(cell, axis, where, colour)
        for where, colour, some in (
            (UNMEASURED, colours.stripe, bool(not_measured(full).any())),
            *(
                (f"datum.state == '{state}'", colours.states[state], (full["state"] == state.value).any())
                for state in (GpuState.SUSPECT, GpuState.WITHHELD)
            ),
        )
        if some
    ]
    layers = (
        axis.anchors(),
        cell.transform_filter(f"!({UNMEASURED})").encode(color=_heat(colours)).add_params(pick),
        cell.transform_filter(UNMEASURED).encode(color=alt.value(colours.paper)),
        *hatches,
        _outlines(stretches, axis, colours, y),
    )
    return styled(alt.layer(*layers), colours, height=_height(lines))


_TEXTS = {
    "use_text": f"isValid(datum.utilization_ratio) ? (datum.is_upper_bound ? '{wording.AT_MOST}' : '') + "
    f"{percent_of('utilization_ratio')} : 'not measured'",
    "held_text": f"{percent_of('held_ratio')} + ' of the time'",
}


def _sent(full: pd.DataFrame, lines: pd.DataFrame) -> pd.DataFrame:
    """What the browser needs of each cell: of thousands, so it writes their texts itself."""
    frame = full[["uuid", "ts", "end", "utilization_ratio"]].assign(held_ratio=full["held_ratio"].fillna(0.0))
    if full["state"].notna().any():
        named = full["state"].map(label_of, na_action="ignore")
        frame = frame.assign(state=full["state"], state_text=named.fillna(text.NOTHING))
    bound = upper_bounds(full)
    frame = frame.assign(is_upper_bound=bound) if bound.any() else frame
    nodes = bool((lines["uuid"] == lines["node"]).all())
    return frame.merge(lines[["uuid", "y", "y2", *([] if nodes else ["gpu_text"])]], on="uuid")


def _tooltips(frame: pd.DataFrame) -> list[tuple[str, str]]:
    """What a cell says when it is pointed at, as (column, title)."""
    return [
        ("gpu_text", "GPU") if "gpu_text" in frame else ("uuid", "Node"),
        ("when", "Time"),
        ("use_text", "Utilization"),
        ("held_text", "Held"),
        *([("state_text", "State" if "gpu_text" in frame else "Mostly")] if "state_text" in frame else []),
    ]


def _hatch(cell: alt.Chart, axis: TimeAxis, where: str, colour: str) -> alt.Chart:
    """A stroke from corner to corner of each such cell: together they make a hatch, on any renderer."""
    strokes = cell.transform_filter(where).mark_rule(color=colour, strokeWidth=1.4, cursor="pointer")
    chart: alt.Chart = strokes.encode(x=axis.x("end"), x2="ts:T")
    return chart


def _outlines(stretches: pd.DataFrame, axis: TimeAxis, colours: Theme, y: alt.Y) -> alt.Chart:
    inset = stretches.assign(y=stretches["y"] + 0.05, y2=stretches["y2"] - 0.05)
    chart: alt.Chart = (
        alt.Chart(inset)
        .mark_rect(
            filled=False,
            stroke=colours.muted,
            strokeWidth=1,
            strokeOpacity=0.7 if inset["uuid"].nunique() <= MOST_GPUS else 0.4,
            tooltip=None,
        )
        .encode(x=axis.x(), x2="end:T", y=y, y2="y2:Q")
    )
    return chart


def _heat(colours: Theme) -> alt.Color:
    """What is wasted or free in the colour of its state; what works by utilization."""
    return alt.Color(
        "utilization_ratio:Q",
        scale=alt.Scale(domain=[0, 1], range=list(colours.ramp), clamp=True),
        legend=None,
        condition=[
            {"test": f"datum.state === '{state}'", "value": colours.states[state]} for state in NOT_AT_WORK
        ],
    )


def _row_axis(rows: pd.DataFrame) -> alt.Axis:
    labels = list(rows["label"])
    middles = [round(float(y) + 0.5, 3) for y in rows["y"]]
    places = "{" + ",".join(f"'{at}':{_quoted(text)}" for at, text in zip(middles, labels, strict=True)) + "}"
    size = 11 if len(rows) <= 48 else 9
    return alt.Axis(
        values=middles,
        labelExpr=f"{places}[toString(round(datum.value*1000)/1000)]",
        title=None,
        grid=False,
        labelFontSize=size,
        labelOverlap=False,
        minExtent=LEFT - 20,
    )


class _Line(Protocol):
    node: str
    uuid: str
    gpu_place: str | None


def _row_label(row: _Line, head: bool, *, several: bool) -> str:
    if not several and row.uuid == row.node:
        return str(row.node)
    which = short_uuid(str(row.uuid)) if text.missing(row.gpu_place) else str(row.gpu_place)
    return f"{row.node}  {which}" if head else which


def _height(rows: pd.DataFrame) -> int:
    many = len(rows)
    pixels = 17 if many <= 40 else (11 if many <= 64 else 10)
    return round(float(rows["y2"].max()) * pixels) + 24 if many else 60


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "").replace("'", "\u2019") + "'"

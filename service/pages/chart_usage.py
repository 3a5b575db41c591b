"""The charts of the overview: allocated against used, GPUs by state, and the ledger's bars. Pure.

Frames have the columns of the named queries ``usage_over_time``, ``states_over_time`` and
``ledger_by_state``; ``ts`` is a UTC instant with its zone.
"""

from typing import Any

import altair as alt
import pandas as pd

from service.pages import wording
from service.pages.chart_frame import (
    LEFT,
    TimeAxis,
    closed,
    hover,
    rows,
    stripes,
    styled,
    unchecked,
    with_end,
)
from service.pages.palette import STATES, Palette
from service.pages.view import Window

BANDS = 60
"""Stripes across a chart; each costs four gradient stops, and those are what a chart's checking takes."""


@unchecked
def allocated_and_used(usage: pd.DataFrame, axis: TimeAxis, colours: Palette, *, height: int = 300) -> Any:
    """Two curves over time as shares of the installed GPUs; the area between them lies fallow.

    Steps that were not measured are left open and striped from above by their share.
    """
    frame = usage_shares(usage, axis.window)
    reach = float(frame["allocated_ratio"].max() - frame["used_ratio"].min())
    dark = float(1 - frame["known_ratio"].min())
    x = axis.x()
    top = alt.Scale(domain=[0, 1], nice=False)
    y_axis = alt.Axis(format=".0%", tickCount=5, title="share of installed GPUs", minExtent=LEFT - 20)
    base = alt.Chart(closed(frame)).encode(x=x)
    fallow = base.mark_area(
        interpolate="step-after",
        color=stripes(colours.fallow, colours.fallow_stripe, bands=BANDS, tilt=_tilt(reach)),
    ).encode(y=alt.Y("used_ratio:Q", scale=top, axis=y_axis), y2="allocated_ratio:Q")
    used = base.mark_area(interpolate="step-after", color=colours.used, opacity=0.88).encode(
        y=alt.Y("used_ratio:Q", scale=top)
    )
    allocated = base.mark_line(interpolate="step-after", color=colours.allocated, strokeWidth=1.8).encode(
        y=alt.Y("allocated_ratio:Q", scale=top)
    )
    unknown = base.mark_area(
        interpolate="step-after", color=stripes(colours.paper, colours.stripe, bands=BANDS, tilt=_tilt(dark))
    ).encode(y=alt.Y("known_ratio:Q", scale=top), y2="all_ratio:Q")
    rows = [
        ("allocated_text", "Allocated"),
        ("used_text", "Used"),
        ("fallow_text", "Fallow"),
        ("unknown_text", "Not measured"),
        ("installed_text", "Installed"),
    ]
    layers = alt.layer(
        axis.anchors(),
        fallow,
        used,
        allocated,
        unknown,
        hover(frame, axis, colours, rows),
    )
    return styled(layers, colours, height=height, renderer="svg")


def usage_shares(usage: pd.DataFrame, window: Window) -> pd.DataFrame:
    """``usage_over_time`` as shares of the installed GPUs, with the tooltip's texts and each step's end."""
    installed = usage["installed_gpus"].where(usage["installed_gpus"] > 0)
    unknown = usage["unknown_gpus"].fillna(0)
    allocated = usage["allocated_gpus"] / installed
    used = usage["used_gpus"] / installed
    frame = with_end(usage[["ts"]], window).assign(
        allocated_ratio=allocated,
        used_ratio=used,
        known_ratio=1 - (unknown / installed).fillna(1.0),
        all_ratio=1.0,
    )
    return frame.assign(
        allocated_text=_gpus(usage["allocated_gpus"], allocated),
        used_text=_gpus(usage["used_gpus"], used),
        fallow_text=_gpus(usage["allocated_gpus"] - usage["used_gpus"], allocated - used),
        unknown_text=_gpus(unknown, unknown / installed),
        installed_text=usage["installed_gpus"].map(lambda gpus: f"{wording.gpus(gpus)} GPUs"),
    )


@unchecked
def gpus_by_state(states: pd.DataFrame, axis: TimeAxis, colours: Palette, *, height: int = 260) -> Any:
    """Stacked columns: how many GPUs were in each state, the best use at the foot, free on top."""
    long = state_stack(states, axis.window)
    wide = with_end(states, axis.window)
    per_step = step_hours(wide)
    texts = {f"{state.column}_text": (states[state.column] / per_step).map(wording.gpus) for state in STATES}
    wide = wide.assign(**texts)
    columns = (
        alt.Chart(long)
        .mark_rect(strokeWidth=0.7)
        .encode(
            x=axis.x(),
            x2="end:T",
            y=alt.Y(
                "low:Q",
                axis=alt.Axis(title="GPUs", tickCount=5, minExtent=LEFT - 20),
                scale=alt.Scale(nice=False),
            ),
            y2="high:Q",
            fill=alt.Fill("label:N", scale=_state_scale(colours), legend=None),
            stroke=alt.Stroke("label:N", scale=_state_scale(colours), legend=None),
        )
    )
    rows = [(f"{state.column}_text", state.label.capitalize()) for state in reversed(STATES)]
    return styled(
        alt.layer(axis.anchors(), columns, hover(wide, axis, colours, rows)), colours, height=height
    )


def state_stack(states: pd.DataFrame, window: Window) -> pd.DataFrame:
    """``states_over_time`` as one row a step and state with its place in the stack, in mean GPUs."""
    ended = with_end(states, window)
    gpus = states[[state.column for state in STATES]].fillna(0.0).div(step_hours(ended), axis="index")
    high = gpus.cumsum(axis="columns")
    parts = [
        ended[["ts", "end"]].assign(
            label=state.label, low=high[state.column] - gpus[state.column], high=high[state.column]
        )[gpus[state.column] > 0]
        for state in STATES
    ]
    return pd.concat(parts, ignore_index=True)


def step_hours(frame: pd.DataFrame) -> "pd.Series[float]":
    """The length of each step, in hours; never zero."""
    return ((frame["end"] - frame["ts"]).dt.total_seconds() / 3600).clip(lower=1 / 3600)


@unchecked
def ledger_bars(ledger: pd.DataFrame, colours: Palette) -> Any:
    """A bar a state with its GPU-hours and share written beside it; they add up to the hardware."""
    order = [state.label for state in STATES]
    hours = {row.state: row for row in rows(ledger)}
    frame = pd.DataFrame(
        {
            "label": order,
            "meaning": [state.meaning for state in STATES],
            "gpu_hours": [_cell(hours, state.key, "gpu_hours") for state in STATES],
            "share": [_cell(hours, state.key, "share_ratio") for state in STATES],
        }
    )
    frame["text"] = [f"{wording.hours(row.gpu_hours)} · {wording.percent(row.share)}" for row in rows(frame)]
    most = float(frame["gpu_hours"].max() or 1.0)
    y = alt.Y("label:N", sort=order, axis=alt.Axis(title=None, labelFontSize=13, labelColor=colours.ink))
    x = alt.X("gpu_hours:Q", axis=None, scale=alt.Scale(domain=[0, most * 1.55], nice=False))
    base = alt.Chart(frame).encode(
        y=y,
        x=x,
        tooltip=[
            alt.Tooltip("label:N", title="State"),
            alt.Tooltip("meaning:N", title="Means"),
            alt.Tooltip("text:N", title="GPU-hours"),
        ],
    )
    bars = base.mark_bar(cornerRadiusEnd=3, height=16).encode(
        color=alt.Color("label:N", scale=_state_scale(colours), legend=None)
    )
    texts = base.mark_text(align="left", dx=7, color=colours.muted).encode(text="text:N")
    return styled(alt.layer(bars, texts), colours, height=len(order) * 29)


def _tilt(part: float) -> float:
    return 0.22 if wording.missing(part) else max(0.22 * part, 0.001)


def _cell(rows: dict[str, Any], key: str, column: str) -> float:
    value = getattr(rows[key], column) if key in rows else 0.0
    return 0.0 if wording.missing(value) else float(value)


def _gpus(gpus: "pd.Series[float]", ratio: "pd.Series[float]") -> list[str]:
    return [
        f"{wording.percent(share)} · {wording.gpus(many)} GPUs"
        for many, share in zip(gpus, ratio, strict=True)
    ]


def _state_scale(colours: Palette) -> alt.Scale:
    return alt.Scale(domain=[s.label for s in STATES], range=[colours.states[s.key] for s in STATES])

"""The charts of the overview: allocated against used, GPUs by state, and the ledger's bars. Pure.

Frames have the columns of the named queries ``usage_over_time``, ``states_over_time`` and
``ledger_by_state``; ``ts`` is a UTC instant with its zone.
"""

from collections.abc import Mapping

import altair as alt
import numpy as np
import pandas as pd

from analytics import text
from analytics.vocabulary.states import STATES
from service.charts.cache import Filled, kept, named
from service.charts.frame import (
    LEFT,
    Clock,
    Layered,
    TimeAxis,
    closed,
    hover,
    rows,
    stripes,
    styled,
    with_end,
)
from service.charts.theme import Theme
from service.charts.window import Window

BANDS = 40
"""Stripes across a chart; each costs four gradient stops, and those are what a chart's checking takes."""
TILT = 0.22
"""The height of a chart over its width, for stripes at about 45 degrees."""
USAGE_PX, STATES_PX = 300, 260
USAGE_TOLD = (
    ("allocated_text", "Allocated"),
    ("used_text", "Used"),
    ("fallow_text", "Fallow"),
    ("unknown_text", "Not measured"),
    ("installed_text", "Installed"),
)


def prepare(clock: Clock, colours: Theme) -> None:
    """Put all charts of this file together at their usual size, before somebody waits for them."""
    _usage_look(clock, colours, USAGE_PX, False)
    _states_look(clock, colours, STATES_PX)
    _ledger_look(colours)


def allocated_and_used(
    usage: pd.DataFrame, axis: TimeAxis, colours: Theme, *, held_only: bool = False, height: int = USAGE_PX
) -> Filled:
    """Two curves over time; the area between them lies fallow. What was not measured is striped from above.

    As shares of the installed GPUs; of what somebody held (``held_only``) in GPUs: all of that is allocated.
    """
    frame = held_gpus(usage, axis.window) if held_only else usage_shares(usage, axis.window)
    look = _usage_look(axis.clock, colours, height, held_only)
    return look.filled(ends=axis.ends_only, curve=braced(closed(frame)), steps=frame)


@kept
def _usage_look(clock: Clock, colours: Theme, height: int, held_only: bool) -> Layered:
    tooltips = USAGE_TOLD[:-1] if held_only else USAGE_TOLD
    top = alt.Scale(nice=False) if held_only else alt.Scale(domain=[0, 1], nice=False)
    y_axis = alt.Axis(
        format="~r" if held_only else ".0%",
        title="GPUs" if held_only else "share of installed GPUs",
        tickCount=5,
        minExtent=LEFT - 20,
    )
    base = named("curve").encode(x=clock.x())
    fallow = base.mark_area(
        interpolate="step-after",
        color=stripes(colours.fallow, colours.fallow_stripe, bands=BANDS, tilt=TILT),
    ).encode(y=alt.Y("used:Q", scale=top, axis=y_axis), y2="allocated:Q")
    used = base.mark_area(interpolate="step-after", color=colours.used, opacity=0.88).encode(
        y=alt.Y("used:Q", scale=top)
    )
    allocated = base.mark_line(interpolate="step-after", color=colours.allocated, strokeWidth=1.8).encode(
        y=alt.Y("allocated:Q", scale=top)
    )
    unknown = base.mark_area(
        interpolate="step-after", color=stripes(colours.paper, colours.stripe, bands=BANDS, tilt=TILT)
    ).encode(y=alt.Y("known:Q", scale=top), y2="top:Q")
    over = hover(alt.NamedData(name="steps"), clock, colours, tooltips)
    layers = alt.layer(clock.anchors(alt.NamedData(name="ends")), fallow, used, allocated, unknown, over)
    return styled(layers, colours, height=height, renderer="svg")


def braced(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows with two before them that nobody sees: the whole height at the first instant, and a break.

    A hatch is laid over the box of what it fills, which is thereby as high as the chart, whatever is in it:
    the stripes keep their slope, and the chart its specification.
    """
    first = frame.iloc[[0]]
    brace = first.assign(used=0.0, allocated=first["top"], known=0.0)
    hollow = brace.assign(used=None, allocated=None, known=None, top=None)
    return pd.concat([brace, hollow.astype(brace.dtypes), frame], ignore_index=True)


def usage_shares(usage: pd.DataFrame, window: Window) -> pd.DataFrame:
    """``usage_over_time`` as shares of the installed GPUs, with the tooltip's texts and each step's end."""
    installed = usage["installed_gpus"].where(usage["installed_gpus"] > 0)
    unknown = usage["unknown_gpus"].fillna(0)
    allocated = usage["allocated_gpus"] / installed
    used = usage["used_gpus"] / installed
    fallow = usage["allocated_gpus"] - usage["held_used_gpus"] - usage["held_unknown_gpus"]
    frame = with_end(usage[["ts"]], window).assign(
        allocated=allocated, used=used, known=1 - (unknown / installed).fillna(1.0), top=1.0
    )
    return frame.assign(
        allocated_text=_gpus(usage["allocated_gpus"], allocated),
        used_text=_gpus(usage["used_gpus"], used),
        fallow_text=_gpus(fallow, fallow / installed),
        unknown_text=_gpus(unknown, unknown / installed),
        installed_text=usage["installed_gpus"].map(text.some_gpus),
    )


def held_gpus(usage: pd.DataFrame, window: Window) -> pd.DataFrame:
    """``usage_over_time`` of what somebody held, in GPUs; where they held none, nothing is missing either."""
    allocated, used = usage["allocated_gpus"], usage["used_gpus"]
    unknown = usage["unknown_gpus"].fillna(0)
    top = float(usage["installed_gpus"].fillna(0).max()) or 1.0
    frame = with_end(usage[["ts"]], window).assign(
        allocated=allocated, used=used, known=top - unknown, top=top
    )
    share, fallow = allocated.where(allocated > 0), allocated - used - usage["held_unknown_gpus"]
    return frame.assign(
        allocated_text=allocated.map(text.some_gpus),
        used_text=_gpus(used, used / share),
        fallow_text=_gpus(fallow, fallow / share),
        unknown_text=unknown.map(text.some_gpus),
    )


def gpus_by_state(states: pd.DataFrame, axis: TimeAxis, colours: Theme, *, height: int = STATES_PX) -> Filled:
    """Stacked columns: how many GPUs were in each state, the best use at the foot, free on top."""
    wide = with_end(states, axis.window)
    per_step = step_hours(wide)
    texts = {f"{state.column}_text": (states[state.column] / per_step).map(text.gpus) for state in STATES}
    look = _states_look(axis.clock, colours, height)
    return look.filled(
        ends=axis.ends_only, stack=state_stack(states, axis.window), steps=wide[["ts", "end"]].assign(**texts)
    )


@kept
def _states_look(clock: Clock, colours: Theme, height: int) -> Layered:
    columns = (
        named("stack")
        .mark_rect(strokeWidth=0.7)
        .encode(
            x=clock.x(),
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
    tooltips = [(f"{state.column}_text", state.label.capitalize()) for state in reversed(STATES)]
    over = hover(alt.NamedData(name="steps"), clock, colours, tooltips)
    return styled(alt.layer(clock.anchors(alt.NamedData(name="ends")), columns, over), colours, height=height)


def state_stack(states: pd.DataFrame, window: Window) -> pd.DataFrame:
    """``states_over_time`` as one row a step and state with its place in the stack, in mean GPUs."""
    ended = with_end(states, window)
    hours = states[[state.column for state in STATES]].fillna(0.0).to_numpy(dtype=float)
    gpus = hours / step_hours(ended).to_numpy()[:, None]
    high = gpus.cumsum(axis=1)
    state_at, step_at = np.nonzero(gpus.T > 0)
    labels = np.array([state.label for state in STATES], dtype=object)
    return pd.DataFrame(
        {
            "ts": ended["ts"].array.take(step_at),
            "end": ended["end"].array.take(step_at),
            "label": labels[state_at],
            "low": (high - gpus)[step_at, state_at],
            "high": high[step_at, state_at],
        }
    )


def step_hours(frame: pd.DataFrame) -> "pd.Series[float]":
    """The length of each step, in hours; never zero."""
    return ((frame["end"] - frame["ts"]).dt.total_seconds() / 3600).clip(lower=1 / 3600)


def ledger_bars(ledger: pd.DataFrame, colours: Theme) -> Filled:
    """A bar a state with its GPU-hours and share written beside it; they add up to the hardware."""
    hours = {row.state: row for row in rows(ledger)}
    frame = pd.DataFrame(
        {
            "label": [state.label for state in STATES],
            "meaning": [state.meaning for state in STATES],
            "gpu_hours": [_cell(hours, state.key, "gpu_hours") for state in STATES],
            "share": [_cell(hours, state.key, "share_ratio") for state in STATES],
        }
    )
    frame["text"] = [f"{text.gpu_hours(row.gpu_hours)} · {text.percent(row.share)}" for row in rows(frame)]
    frame["length"] = frame["gpu_hours"] / float(frame["gpu_hours"].max() or 1.0)
    return _ledger_look(colours).filled(bars=frame)


@kept
def _ledger_look(colours: Theme) -> Layered:
    order = [state.label for state in STATES]
    y = alt.Y("label:N", sort=order, axis=alt.Axis(title=None, labelFontSize=13, labelColor=colours.ink))
    x = alt.X("length:Q", axis=None, scale=alt.Scale(domain=[0, 1.55], nice=False))
    base = named("bars").encode(
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


def _cell(rows: Mapping[str, object], key: str, column: str) -> float:
    return (text.known(getattr(rows[key], column)) or 0.0) if key in rows else 0.0


def _gpus(gpus: "pd.Series[float]", ratio: "pd.Series[float]") -> list[str]:
    return [
        f"{text.percent(share)} · {text.some_gpus(many)}" for many, share in zip(gpus, ratio, strict=True)
    ]


def _state_scale(colours: Theme) -> alt.Scale:
    return alt.Scale(domain=[s.label for s in STATES], range=[colours.states[s.key] for s in STATES])
